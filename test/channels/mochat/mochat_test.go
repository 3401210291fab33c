// Package mochat certifies our driver of Mochat by a real Socket.IO server, and
// our fake by the channel of Python nanobot with the Socket.IO client that it
// uses.
package mochat

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat/mochattest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

const patience = 10 * time.Minute

type object = map[string]any

// server is the process of a real Socket.IO server.
type server struct {
	t     *testing.T
	in    io.Writer
	lines chan object
	url   string
}

func startServer(t *testing.T, encoding string) *server {
	t.Helper()
	dir := certify.Node(t, ".")
	source, err := os.ReadFile("server.mjs")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "server.mjs")
	if err := os.WriteFile(script, source, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Minute)
	cmd := exec.CommandContext(ctx, "node", script, encoding, mochattest.Token)
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = dir, os.Stderr, 2*time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, in: in, lines: make(chan object, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			var v object
			if json.Unmarshal(sc.Bytes(), &v) == nil {
				s.lines <- v
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		_ = cmd.Wait()
	})
	s.url = fmt.Sprintf("http://127.0.0.1:%v", s.await("port"))
	return s
}

// await is the next thing of a kind that the server printed.
func (s *server) await(kind string) any {
	s.t.Helper()
	late := time.After(patience)
	for {
		select {
		case v := <-s.lines:
			if got, ok := v[kind]; ok {
				return got
			}
		case <-late:
			s.t.Fatalf("the server did not print %s", kind)
		}
	}
}

func (s *server) write(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) emit(name string, body object) {
	s.t.Helper()
	data, err := json.Marshal(object{"name": name, "body": body})
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(string(data))
}

// driver runs our driver with the HTTP API of a fake and the socket of a server.
func driver(t *testing.T, fake *mochattest.Server, socket string, changes object) *chattest.Rig {
	t.Helper()
	r := chattest.NewRig(t)
	all := object{
		"clawToken": mochattest.Token, "agentUserId": mochattest.Self, "allowFrom": []string{"*"}, "baseUrl": fake.URL(), "socketUrl": socket,
		"sessions": []string{mochattest.SessionOf(mochattest.Ann)}, "panels": []string{mochattest.Panel}, "replyDelayMode": "off", "refreshIntervalMs": 3600_000,
	}
	maps.Copy(all, changes)
	section, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Deps("mochat")
	d.Gate = r.Gate("mochat", section, nil)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	d.Client = func(string) (*http.Client, error) { return &http.Client{Transport: transport}, nil }
	ch, err := mochat.Driver().New(d, section)
	if err != nil {
		t.Fatal(err)
	}
	r.Start(ch.Run)
	return r
}

func texts(r *chattest.Rig) (out []string) {
	for _, in := range r.Inbound() {
		out = append(out, in.Text)
	}
	return out
}

func event(id, text string) object {
	return object{"type": "message.add", "seq": 2, "timestamp": time.Now().UTC().Format(time.RFC3339), "payload": object{"messageId": id, "author": "ann", "content": text}}
}

// Our driver logs in to a real Socket.IO server, in the encoding that the server
// speaks, whatever it tries first, and again after a lost connection.
func TestSocketIO(t *testing.T) {
	for _, c := range []struct {
		encoding string
		plain    bool // the section wants JSON
	}{{"msgpack", false}, {"json", true}, {"json", false}} {
		t.Run(fmt.Sprintf("%s %v", c.encoding, c.plain), func(t *testing.T) {
			s := startServer(t, c.encoding)
			fake := mochattest.New()
			t.Cleanup(fake.Close)
			r := driver(t, fake, s.url, object{"socketDisableMsgpack": c.plain})
			session := mochattest.SessionOf(mochattest.Ann)
			want := object{"sessionIds": []any{session}, "limit": 100.0, "cursors": s.await("sessions").(object)["cursors"]}
			if d := cmp.Diff(object{"panelIds": []any{mochattest.Panel}}, s.await("panels")); d != "" {
				t.Errorf("panels (-want +got):\n%s", d)
			}
			s.emit("claw.session.events", object{"sessionId": session, "cursor": 2, "events": []any{event("r2", "你好 <é>")}})
			s.emit("claw.panel.events", object{"sessionId": mochattest.Panel, "events": []any{event("r3", "@agent1 ho")}})
			s.emit("claw.session.events", object{"sessionId": session, "cursor": 3, "big": 700_000, "events": []any{event("r4", "")}})
			r.Await("the messages", func() bool { return len(r.Inbound()) == 4 })
			got := texts(r)
			slices.Sort(got)
			if d := cmp.Diff([]string{"ho", "in the answer", strings.Repeat("x", 700_000), "你好 <é>"}, got); d != "" {
				t.Errorf("messages (-want +got):\n%s", d)
			}
			s.await("pong")
			s.write("cut")
			want["cursors"] = object{session: 3.0}
			if d := cmp.Diff(want, s.await("sessions")); d != "" {
				t.Errorf("the second login (-want +got):\n%s", d)
			}
			s.emit("claw.session.events", object{"sessionId": session, "cursor": 4, "events": []any{event("r5", "back")}})
			r.Await("the next message", func() bool { return slices.Contains(texts(r), "back") })
		})
	}
}

// A server that does not know the token refuses us; messages are polled for.
func TestSocketIORefuses(t *testing.T) {
	s := startServer(t, "msgpack")
	fake := mochattest.New()
	t.Cleanup(fake.Close)
	fake.Become(mochattest.Self, "claw_another")
	r := driver(t, fake, s.url, object{"clawToken": "claw_another"})
	r.Await("the refusal", func() bool { return strings.Contains(r.Log.String(), "invalid token") })
	fake.Say(mochattest.SessionOf(mochattest.Ann), mochattest.Message{From: mochattest.Ann, Text: "hi"})
	r.Await("the message", func() bool { return slices.Equal(texts(r), []string{"hi"}) })
}

// The channel of Python nanobot works with our fake in each way, and our driver
// goes on where it stopped.
func TestPythonChannel(t *testing.T) {
	t.Setenv("PIP_NO_DEPS", "1") // of the agent only the channel is needed
	session := mochattest.SessionOf(mochattest.Ann)
	settings := object{
		"clawToken": mochattest.Token, "agentUserId": mochattest.Self, "sessions": []string{"*"}, "panels": []string{"*"}, "replyDelayMode": "off",
		"groups": object{mochattest.Group: object{"requireMention": true}}, "refreshIntervalMs": 1000,
	}
	for _, way := range []string{"msgpack", "json", "polling"} {
		t.Run(way, func(t *testing.T) {
			fake := mochattest.New()
			t.Cleanup(fake.Close)
			fake.Plain(way == "json")
			fake.Offline(way == "polling")
			settings["socketDisableMsgpack"] = way == "json"
			data, err := json.Marshal(settings)
			if err != nil {
				t.Fatal(err)
			}
			fake.Say(session, mochattest.Message{From: mochattest.Ann, Text: "history"})
			dir := t.TempDir()
			certify.Python(t, ".") // before anybody writes
			write := make(chan struct{})
			go func() {
				defer close(write)
				connected := func() bool {
					return fake.Subscribed(session) == 1 && fake.Subscribed(mochattest.Panel) == 1 || way == "polling" && len(fake.Calls("watch")) > 1 && len(fake.Calls("panels/messages")) > 0
				}
				for late := time.Now().Add(patience); !connected() && time.Now().Before(late); {
					<-time.After(5 * time.Millisecond)
				}
				fake.Say(session, mochattest.Message{ID: "a", From: mochattest.Ann, Name: "Ann", Text: "hi 你好"})
				fake.Post(mochattest.Panel, mochattest.Message{From: mochattest.Ann, Text: "not for you"})
				fake.Post(mochattest.Panel, mochattest.Message{ID: "b", From: mochattest.Ann, Name: "Ann", Text: "<@agent1> ho"})
			}()
			out := certify.Script(t, ".", "channel.py", fake.URL(), dir, "2", string(data))
			<-write
			var got object
			if err := json.Unmarshal(out[strings.Index(string(out), "\n")+1:], &got); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			list, _ := got["got"].([]any)
			slices.SortFunc(list, func(a, b any) int {
				return strings.Compare(a.(object)["chat"].(string), b.(object)["chat"].(string))
			})
			want := object{"ready": way != "polling", "got": []any{
				object{"from": "ann", "chat": mochattest.Panel, "text": "<@agent1> ho", "target_kind": "panel", "was_mentioned": true, "group_id": mochattest.Group, "sender_name": "Ann"},
				object{"from": "ann", "chat": session, "text": "hi 你好", "target_kind": "session", "was_mentioned": false, "group_id": "", "sender_name": "Ann"},
			}}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("Python nanobot understood (-want +got):\n%s", d)
			}
			sent := fake.Sent()
			slices.SortFunc(sent, func(a, b mochattest.Sent) int { return strings.Compare(a.Chat, b.Chat) })
			wrote := []mochattest.Sent{
				{Chat: mochattest.Panel, Panel: true, Text: "re: <@agent1> ho", ReplyTo: "b", Group: mochattest.Group}, {Chat: session, Text: "re: hi 你好", ReplyTo: "a"},
			}
			if d := cmp.Diff(wrote, sent); d != "" {
				t.Errorf("Python nanobot sent (-want +got):\n%s", d)
			}
			goOn(t, fake, dir, session)
		})
	}
}

// goOn runs our driver with the cursors that Python nanobot left in a folder.
func goOn(t *testing.T, fake *mochattest.Server, dir, session string) {
	t.Helper()
	fake.Offline(true)
	fake.Say(session, mochattest.Message{From: mochattest.Ann, Text: "since then"})
	r := chattest.NewRig(t)
	section, err := json.Marshal(object{"clawToken": mochattest.Token, "agentUserId": mochattest.Self, "allowFrom": []string{"*"}, "baseUrl": fake.URL(), "sessions": []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	d := r.Deps("mochat")
	d.Dir = func() (string, error) { return dir, nil }
	d.Gate = r.Gate("mochat", section, nil)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	d.Client = func(string) (*http.Client, error) { return &http.Client{Transport: transport}, nil }
	ch, err := mochat.Driver().New(d, section)
	if err != nil {
		t.Fatal(err)
	}
	stop := r.Start(ch.Run)
	r.Await("what came since", func() bool { return slices.Equal(texts(r), []string{"since then"}) })
	if _, err := ch.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: session}, Text: "ok"}); err != nil || chat.IsPermanent(err) {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
