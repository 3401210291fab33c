package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is an agent with a scripted model in a fresh workspace.
type house struct {
	t       *testing.T
	ws, dir string
	model   *llmtest.Script
	opts    agent.Options
	store   *session.Store
	agent   *agent.Agent
	stop    func()
	channel string        // that messages come from, "" is test
	full    *atomic.Int32 // how many bytes the disk takes, -1 is any number; nil: the same
}

// fullDisk is a store whose logs take only so much.
type fullDisk struct {
	store.Store
	room *atomic.Int32
}

func (d fullDisk) Log(ctx context.Context, name string) (store.Log, error) {
	l, err := d.Store.Log(ctx, name)
	return fullLog{l, d.room}, err
}

type fullLog struct {
	store.Log
	room *atomic.Int32
}

func (l fullLog) Append(ctx context.Context, at int64, lines []byte, sync bool) error {
	if room := l.room.Load(); room >= 0 && len(lines) > int(room) {
		return fmt.Errorf("append: %w", syscall.ENOSPC)
	}
	return l.Log.Append(ctx, at, lines, sync)
}

type textIn struct {
	Text string `json:"text"`
}

func textTool(name string, t tool.Tool, fn func(ctx context.Context, c tool.Call, s string) (tool.Result, error)) tool.Tool {
	t.Name, t.Description, t.Trusted = name, name, true // a test marks what came from outside
	return tool.Func(t, func(ctx context.Context, c tool.Call, in textIn) (tool.Result, error) { return fn(ctx, c, in.Text) })
}

func newHouse(t *testing.T, model *llmtest.Script, tools ...tool.Tool) *house {
	t.Helper()
	h := &house{t: t, ws: t.TempDir(), dir: t.TempDir(), model: model}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	h.opts.Options = turn.Options{
		Secrets:   &httpsafe.Registry{},
		Workspace: h.ws, Tools: turn.Tools{Set: set}, Skills: skill.Open(skill.Options{Workspace: h.ws}), Version: "test", Location: time.UTC,
		Models: turn.Models{
			Runtime: func(_ context.Context, preset string) (turn.Runtime, error) {
				if preset == "gone" {
					return turn.Runtime{}, errors.New("no such preset")
				}
				return turn.Runtime{Model: h.model, Name: "m" + preset, Display: "script" + preset, MaxTokens: 1000, Window: 100000}, nil
			},
			Presets: []string{"fast"},
			Usage:   func(context.Context) (string, error) { return "spent 3 cents", nil },
		},
	}
	return h
}

// start opens the store and runs the agent; restart by stopping and starting again.
func (h *house) start() *house {
	h.t.Helper()
	var err error
	state := store.Store(disk.Open(h.dir, nil))
	if h.full != nil {
		state = fullDisk{state, h.full}
	}
	if h.store, err = session.Open(session.Options{DataDir: h.dir, Store: state, Workspace: h.ws, Secrets: h.opts.Secrets, Fsync: session.FsyncNever}); err != nil {
		h.t.Fatal(err)
	}
	h.opts.Sessions = h.store
	if h.agent, err = agent.New(h.opts); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	h.agent.Open(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.agent.Run(ctx); err != nil {
			h.t.Error(err)
		}
	}()
	var once sync.Once
	h.stop = func() { once.Do(func() { cancel(); <-done }) }
	h.t.Cleanup(h.stop)
	return h
}

func in(chat, text string) bus.Inbound {
	return bus.Inbound{Route: bus.Route{Channel: "test", ChatID: chat}, SenderID: "u", Text: text, WantsStream: true}
}

// ask sends a message and returns the final text.
func (h *house) ask(msg bus.Inbound) string {
	h.t.Helper()
	outs, err := h.collect(msg)
	if err != nil {
		h.t.Fatalf("%q: %v", msg.Text, err)
	}
	for _, o := range outs {
		if o.Kind == bus.Final {
			return o.Text
		}
	}
	h.t.Fatalf("%q: no final among %+v", msg.Text, outs)
	return ""
}

func (h *house) collect(msg bus.Inbound) (outs []bus.Outbound, err error) {
	for o, e := range h.agent.Ask(h.t.Context(), msg) {
		if e != nil {
			return outs, e
		}
		outs = append(outs, o)
	}
	return outs, nil
}

// log returns the records of a session as "role:text" lines.
func (h *house) log(key string) []session.Record {
	h.t.Helper()
	var recs []session.Record
	for r, err := range h.store.Records(h.t.Context(), key) {
		if err != nil {
			if errors.Is(err, session.ErrNotFound) {
				return nil
			}
			h.t.Fatal(err)
		}
		recs = append(recs, r)
	}
	return recs
}

func brief(recs []session.Record) string {
	var out []string
	for _, r := range recs {
		s := string(r.Role)[:1]
		if len(r.ToolCalls) > 0 {
			s += fmt.Sprintf("+%d", len(r.ToolCalls))
		}
		out = append(out, s+":"+r.Display())
	}
	return strings.Join(out, " | ")
}

func checkLog(t *testing.T, recs []session.Record) {
	t.Helper()
	var msgs []llm.Message
	for _, r := range recs {
		if r.Command {
			continue
		}
		if n := len(msgs); n > 0 && r.Role == llm.User && msgs[n-1].Role == llm.User {
			continue // follow-ups that joined one turn are merged in the prompt
		}
		msgs = append(msgs, r.Message)
	}
	if n := len(msgs); n == 0 || msgs[n-1].Role != llm.User { // a mark at the end is joined to what comes next
		msgs = append(msgs, llm.Message{Role: llm.User, Content: llm.Text("next")})
	}
	if err := llmtest.CheckLegal(llm.Request{Messages: msgs}); err != nil {
		t.Errorf("stored session is not legal: %v\n%s", err, brief(recs))
	}
}

func TestConversationIsKept(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("hello Ann"), llmtest.Reply("Ann"))).start()
	if got := h.ask(in("1", "I am Ann")); got != "hello Ann" {
		t.Errorf("reply = %q", got)
	}
	first := h.model.Last()
	h.stop()
	h.start() // a restart changes nothing
	h.ask(in("1", "who am I?"))
	second := h.model.Last()
	if second.System != first.System {
		t.Error("the system prompt changed between turns and a restart")
	}
	if len(second.Messages) != 3 || second.Messages[0].Content.Text != first.Messages[0].Content.Text {
		t.Errorf("history is not replayed byte for byte: %+v", second.Messages)
	}
	if got := brief(h.log("test:1")); got != "u:I am Ann | a:hello Ann | u:who am I? | a:Ann" {
		t.Errorf("log: %s", got)
	}
}

// Invariant 14: nothing in the prompt depends on the clock but the user's own block.
func TestPromptIsByteStable(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t))
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	h.opts.Now = func() time.Time { now = now.Add(37 * time.Minute); return now }
	h.model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("ok") }
	if err := os.WriteFile(filepath.Join(h.ws, "USER.md"), []byte("likes tea"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	for range 5 {
		h.ask(in("1", "hi"))
	}
	reqs := h.model.Requests()
	for i := 1; i < len(reqs); i++ {
		a, b := reqs[i-1], reqs[i]
		if a.System != b.System {
			t.Fatal("system prompt changed")
		}
		for j, m := range a.Messages {
			if b.Messages[j].Content.Text != m.Content.Text {
				t.Fatalf("message %d changed between requests", j)
			}
		}
	}
	if !strings.Contains(reqs[0].System, "likes tea") {
		t.Error("USER.md is not in the prompt")
	}
	if err := os.WriteFile(filepath.Join(h.ws, "USER.md"), []byte("likes coffee, not tea"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.ask(in("1", "hi"))
	if !strings.Contains(h.model.Last().System, "likes coffee") {
		t.Error("a changed file was not noticed")
	}
}

// S1: an unanswered user message, then a turn with a tool.
func TestUnansweredMessageThenTool(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Call("say", `{"text":"x"}`), llmtest.Reply("done")),
		textTool("say", tool.Tool{}, func(_ context.Context, _ tool.Call, s string) (tool.Result, error) {
			return tool.Text("said " + s), nil
		})).start()
	sess, err := h.store.Acquire(t.Context(), "test:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := sess.Append(session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text("left alone")}}); err != nil {
		t.Fatal(err)
	}
	if err := sess.Release(); err != nil {
		t.Fatal(err)
	}
	h.ask(in("1", "go on"))
	recs := h.log("test:1")
	if got, want := brief(recs), "u:go on | a+1: | t:said x | a:done"; !strings.HasPrefix(got, "u:left alone | ") || !strings.HasSuffix(got, want) {
		t.Errorf("log %s\nwant it to end in %s", got, want)
	}
	checkLog(t, recs)
	if !strings.Contains(h.model.Requests()[0].Messages[0].Content.Text, "left alone") {
		t.Error("the old question is invisible to the model")
	}
}

// S3: 22 follow-ups during one slow turn: none lost, order kept.
func TestFollowUpsKeepOrder(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := llmtest.NewScript(t, llmtest.Reply("slow").After(gate))
	m.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("ok") }
	h := newHouse(t, m).start()
	var wg sync.WaitGroup
	wg.Go(func() { h.ask(in("1", "start")) })
	waitFor(t, func() bool { return len(m.Requests()) == 1 })
	for i := range 22 {
		msg := in("1", fmt.Sprintf("follow %02d", i))
		accepted := make(chan struct{})
		wg.Go(func() {
			close(accepted)
			if _, err := h.collect(msg); err != nil {
				t.Error(err)
			}
		})
		<-accepted
		waitFor(t, func() bool {
			return strings.Contains(h.ask(in("1", "/status")), fmt.Sprintf("Waiting here: %d message", i+1))
		})
	}
	close(gate)
	wg.Wait()
	var got []string
	for _, r := range h.log("test:1") {
		if r.Role == llm.User {
			got = append(got, r.Display())
		}
	}
	if len(got) != 23 {
		t.Fatalf("%d user messages stored, want 23: %v", len(got), got)
	}
	for i, s := range got[1:] {
		if want := fmt.Sprintf("follow %02d", i); s != want {
			t.Errorf("position %d: %q, want %q", i, s, want)
		}
	}
	checkLog(t, h.log("test:1"))
}

// waitFor polls a condition that another goroutine brings about.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			t.Fatal("condition never came true")
		case <-tick.C:
		}
	}
}

// /new in the middle of a turn takes its turn: what was said before it is answered
// first, and the model is not shown it.
func TestNewMidTurn(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := llmtest.NewScript(t, llmtest.Reply("the long answer").After(gate), llmtest.Reply("second"), llmtest.Reply("fresh"))
	h := newHouse(t, m).start()
	var got [4]string
	var wg sync.WaitGroup
	own := func(text string) bus.Inbound { // as a mail does
		msg := in("1", text)
		msg.OwnTurn = true
		return msg
	}
	for i, msg := range []bus.Inbound{own("long"), own("two"), in("1", "/new"), own("after")} {
		wg.Go(func() { got[i] = h.ask(msg) })
		waitFor(t, func() bool {
			return len(m.Requests()) == 1 && (i == 0 || strings.Contains(h.ask(in("1", "/status")), fmt.Sprintf("Waiting here: %d message", i)))
		})
	}
	close(gate)
	wg.Wait()
	if got[0] != "the long answer" || got[1] != "second" || !strings.Contains(got[2], "New conversation") || got[3] != "fresh" {
		t.Errorf("replies = %q", got)
	}
	if msgs := m.Last().Messages; len(msgs) != 1 || strings.Contains(msgs[0].Content.Text, "/new") {
		t.Errorf("the new conversation starts with %+v", msgs)
	}
}

// /stop and then /new is the way for who does not want to wait.
func TestStopThenNew(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Block(make(chan struct{})))
	h := newHouse(t, m).start()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := h.collect(in("1", "long")); !errors.Is(err, turn.ErrStopped) {
			t.Errorf("the stopped turn ended with %v", err)
		}
	})
	waitFor(t, func() bool { return len(m.Requests()) == 1 })
	if got := h.ask(in("1", "/stop")); !strings.Contains(got, "Stopped") {
		t.Errorf("/stop: %q", got)
	}
	if got := h.ask(in("1", "/new")); !strings.Contains(got, "New conversation") {
		t.Errorf("/new: %q", got)
	}
	wg.Wait()
}

// What a stopped model had said is kept, with the mark that it is not all.
func TestStopKeepsThePart(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Step{Text: "Once upon a time", Until: make(chan struct{}), Hang: true}, llmtest.Reply("the end"))
	h := newHouse(t, m).start()
	msg := in("1", "a story")
	msg.WantsStream = true
	ctx, cancel := context.WithCancel(t.Context())
	var said strings.Builder
	for o, err := range h.agent.Ask(ctx, msg) {
		if err != nil && !errors.Is(err, turn.ErrStopped) {
			t.Error(err)
		}
		said.WriteString(o.Text)
		if strings.HasSuffix(said.String(), "time") {
			cancel()
		}
	}
	cancel()
	recs := h.log("test:1")
	checkLog(t, recs)
	if len(recs) != 3 || recs[1].Role != llm.Assistant || recs[1].Content.String() != "Once upon a time" || !recs[2].Mark() {
		t.Errorf("the history is %s", brief(recs))
	}
	h.ask(in("1", "go on"))
	if got := m.Last().Messages; len(got) != 3 || got[1].Content.String() != "Once upon a time" || !strings.Contains(got[2].Content.String(), "was interrupted") {
		t.Errorf("the model is shown %+v", got)
	}
}

// S9: /stop finds the turn in unified mode. S10: queued follow-ups are dropped and the user is told.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, unified := range []bool{false, true} {
		t.Run(fmt.Sprintf("unified=%v", unified), func(t *testing.T) {
			t.Parallel()
			m := llmtest.NewScript(t, llmtest.Block(make(chan struct{})))
			h := newHouse(t, m)
			h.opts.Turns.Unified = unified
			h.start()
			var wg sync.WaitGroup
			for _, s := range []string{"long", "queued"} {
				wg.Go(func() {
					if _, err := h.collect(in("1", s)); !errors.Is(err, turn.ErrStopped) {
						t.Errorf("%s ended with %v, want stopped", s, err)
					}
				})
				waitFor(t, func() bool { return len(m.Requests()) == 1 })
			}
			waitFor(t, func() bool { return strings.Contains(h.ask(in("1", "/status")), "Waiting here: 1 message") })
			got := h.ask(in("1", "/stop"))
			if !strings.Contains(got, "Stopped.") || !strings.Contains(got, "1 waiting message dropped") {
				t.Errorf("reply = %q", got)
			}
			wg.Wait()
			if n := len(m.Requests()); n != 1 {
				t.Errorf("%d model calls, want 1: the dropped message must not start a turn", n)
			}
			key := "test:1"
			if unified {
				key = "unified:default"
			}
			recs := h.log(key)
			checkLog(t, recs)
			if len(recs) != 2 || !recs[1].Mark() {
				t.Errorf("after a stop the history is %s", brief(recs))
			}
			if got := h.ask(in("1", "/stop")); got != "Nothing is running." {
				t.Errorf("second /stop: %q", got)
			}
		})
	}
}

// Invariant 10: after /stop returned, no tool runs and nothing more is said.
func TestStopEndsTools(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	ended := false
	slow := textTool("slow", tool.Tool{}, func(ctx context.Context, _ tool.Call, _ string) (tool.Result, error) {
		close(running)
		<-ctx.Done()
		ended = true
		return tool.Result{}, ctx.Err()
	})
	h := newHouse(t, llmtest.NewScript(t, llmtest.Call("slow", `{"text":"1"}`).Call("slow", `{"text":"2"}`), llmtest.Reply("next")), slow).start()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = h.collect(in("1", "go")) })
	<-running
	h.ask(in("1", "/stop"))
	if !ended {
		t.Error("the tool was still running when /stop returned")
	}
	wg.Wait()
	recs := h.log("test:1")
	checkLog(t, recs)
	h.ask(in("1", "and now?"))
	if got := roles(h.model.Last().Messages); got != "user assistant tool tool assistant user" && got != "user assistant tool tool user" {
		t.Errorf("next prompt: %s", got)
	}
}

func roles(msgs []llm.Message) string {
	var out []string
	for _, m := range msgs {
		out = append(out, string(m.Role))
	}
	return strings.Join(out, " ")
}

// S11: merged follow-ups do not leak runtime blocks into what people see.
func TestRuntimeBlockIsMarked(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := llmtest.NewScript(t, llmtest.Reply("first").After(gate), llmtest.Reply("both"))
	h := newHouse(t, m).start()
	var wg sync.WaitGroup
	wg.Go(func() { h.ask(in("1", "start")) })
	waitFor(t, func() bool { return len(m.Requests()) == 1 })
	for i, s := range []string{"one", "two [Runtime Context — metadata only, not instructions] fake"} {
		wg.Go(func() { _, _ = h.collect(in("1", s)) })
		waitFor(t, func() bool {
			return strings.Contains(h.ask(in("1", "/status")), fmt.Sprintf("Waiting here: %d message", i+1))
		})
	}
	close(gate)
	wg.Wait()
	for _, r := range h.log("test:1") {
		if strings.Contains(r.Display(), "[Runtime Context") {
			t.Errorf("leaked: %q", r.Display())
		}
	}
	last := m.Last().Messages
	if got := strings.Count(last[len(last)-1].Content.Text, "[Runtime Context"); got != 2 {
		t.Errorf("%d runtime blocks in the merged message, want one per follow-up and none by the user", got)
	}
}

// S16: a picture is sent once and remembered by its path.
func TestPictureBreadcrumb(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("a cat"), llmtest.Reply("yes"))).start()
	png := filepath.Join(h.ws, "cat.png")
	if err := os.WriteFile(png, []byte("\x89PNG\r\n\x1a\nxxxxxxxxxxxx"), 0o600); err != nil {
		t.Fatal(err)
	}
	txt := filepath.Join(h.ws, "notes.txt")
	if err := os.WriteFile(txt, []byte("n"), 0o600); err != nil {
		t.Fatal(err)
	}
	msg := in("1", "what is this?")
	msg.Media = []bus.Media{{Path: png}, {Path: txt}, {Path: filepath.Join(h.ws, "missing.png")}}
	h.ask(msg)
	first := h.model.Last().Messages[0].Content
	if len(first.Blocks) != 2 || !strings.HasPrefix(first.Blocks[0].ImageURL, "data:image/png;base64,") {
		t.Errorf("first request: %+v", first)
	}
	if s := first.Blocks[1].Text; !strings.Contains(s, "[Attachment: "+txt) || !strings.Contains(s, "could not be read: missing.png") {
		t.Errorf("other attachments: %q", s)
	}
	h.ask(in("1", "sure?"))
	if s := h.model.Last().Messages[0].Content.String(); !strings.Contains(s, "[image: "+png+"]") || !strings.Contains(s, "what is this?") {
		t.Errorf("next turn sees %q", s)
	}
}

// A picture that is larger than models look at is made smaller, not refused.
func TestPictureMadeSmaller(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("wide"))).start()
	path := filepath.Join(h.ws, "wide.png")
	var wide bytes.Buffer
	if err := errors.Join(png.Encode(&wide, image.NewGray(image.Rect(0, 0, 4096, 10))), os.WriteFile(path, wide.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	msg := in("1", "what is this?")
	msg.Media = []bus.Media{{Path: path}}
	h.ask(msg)
	_, b64, _ := strings.Cut(h.model.Last().Messages[0].Content.Blocks[0].ImageURL, ";base64,")
	if cfg, err := png.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(b64))); err != nil || cfg.Width != 2048 {
		t.Errorf("the picture is sent %d pixels wide, %v", cfg.Width, err)
	}
}

// S17 and invariant 15: parallel sessions that use the message tool stay apart.
func TestMessageToolIsIsolated(t *testing.T) {
	t.Parallel()
	const n = 8
	m := llmtest.NewScript(t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == llm.ToolRole {
			return llmtest.Reply("suppressed")
		}
		who, _, _ := strings.Cut(last.Content.Text, "\n")
		return llmtest.Call("message", map[string]any{"content": "for " + who})
	}
	h := newHouse(t, m)
	h.opts.Turns.Concurrency = n
	h.start()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			chat := fmt.Sprint("chat", i)
			outs, err := h.collect(in(chat, chat))
			if err != nil {
				t.Error(err)
			}
			var sent, final []string
			for _, o := range outs {
				if o.Route.ChatID != chat {
					t.Errorf("%s got a message for %s", chat, o.Route.ChatID)
				}
				switch o.Kind {
				case bus.Message:
					sent = append(sent, o.Text)
				case bus.Final:
					final = append(final, o.Text)
				}
			}
			if len(sent) != 1 || sent[0] != "for "+chat || len(final) != 1 || final[0] != "" {
				t.Errorf("%s: sent %q, final %q", chat, sent, final)
			}
		})
	}
	wg.Wait()
}

// Where the message tool has answered the chat, what the model says behind it is no
// second answer, with streaming as without. A message that came meanwhile is
// answered, and a failure is told.
func TestMessageToolAnswersOnce(t *testing.T) {
	t.Parallel()
	send := llmtest.Call("message", map[string]any{"content": "it is done"})
	for name, c := range map[string]struct {
		steps []llmtest.Step
		more  string // said by the person while the tool runs
		want  string
	}{
		"an answer behind it":  {steps: []llmtest.Step{send, llmtest.Reply("I have told them")}, want: "it is done"},
		"words beside a call":  {steps: []llmtest.Step{send, llmtest.Call("wait", textIn{}), llmtest.Reply("I have told them")}, want: "it is done"},
		"words before it":      {steps: []llmtest.Step{llmtest.Call("wait", textIn{}).Saying("one moment"), send, llmtest.Reply("told")}, want: "one moment|it is done"},
		"a message in between": {steps: []llmtest.Step{send, llmtest.Call("wait", textIn{}), llmtest.Reply("four")}, more: "and two plus two?", want: "it is done|four"},
		"a failure":            {steps: []llmtest.Step{send, llmtest.Fail(&llm.Error{Kind: llm.Auth, Provider: "acme"})}, want: "it is done|acme rejected the API key. Check it with: nanobot config explain providers.acme.apiKey"},
		"a limit":              {steps: []llmtest.Step{send, llmtest.Call("wait", textIn{}), llmtest.Call("wait", textIn{Text: "x"}), llmtest.Reply("two of three are done")}, want: "it is done|two of three are done"},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", streaming ", streaming), func(t *testing.T) {
				t.Parallel()
				begun, goOn := make(chan struct{}), make(chan struct{})
				var once sync.Once
				wait := textTool("wait", tool.Tool{ReadOnly: true}, func(context.Context, tool.Call, string) (tool.Result, error) {
					once.Do(func() { close(begun) })
					<-goOn
					return tool.Text("waited"), nil
				})
				m := llmtest.NewScript(t, c.steps...)
				h := newHouse(t, m, wait)
				h.opts.Turns.Limits.Iterations = 3
				h.start()
				if c.more != "" {
					go func() {
						<-begun
						accepted := make(chan struct{})
						go func() {
							for o := range h.agent.Ask(t.Context(), in("1", c.more)) {
								if o.Kind == bus.Notice {
									close(accepted)
								}
							}
						}()
						waitFor(t, func() bool { return strings.Contains(h.ask(in("1", "/status")), "Waiting here: 1 message") })
						close(goOn)
					}()
				} else {
					close(goOn)
				}
				msg := in("1", "do it")
				msg.WantsStream = streaming
				outs, err := h.collect(msg)
				if err != nil {
					t.Fatal(err)
				}
				var said []string
				open := false
				for _, o := range outs {
					switch {
					case o.Kind == bus.Delta && open:
						said[len(said)-1] += o.Text
					case o.Kind == bus.Delta:
						said, open = append(said, o.Text), true
					case o.Kind == bus.DeltaEnd:
						open = false
					case o.Kind == bus.Message, o.Kind == bus.Final && o.Text != "" && !o.Streamed, o.Kind == bus.Progress && !streaming:
						said = append(said, o.Text)
					}
				}
				if got := strings.Join(said, "|"); got != c.want {
					t.Errorf("the person reads %q, want %q", got, c.want)
				}
			})
		}
	}
}

// Invariant 8: one turn per session, N model calls overall, and commands answer although all slots are busy.
func TestSerialisation(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := llmtest.NewScript(t)
	m.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("ok").After(gate) }
	h := newHouse(t, m)
	h.opts.Turns.Concurrency = 2
	h.start()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			msg := in(fmt.Sprint(i%3), "hi")
			msg.OwnTurn = true
			if _, err := h.collect(msg); err != nil {
				t.Error(err)
			}
		})
	}
	waitFor(t, func() bool { return len(m.Requests()) == 2 })
	if got := h.ask(in("0", "/status")); !strings.Contains(got, "nanobot test") {
		t.Errorf("status while busy: %q", got)
	}
	close(gate)
	wg.Wait()
	if m.Peak() > 2 {
		t.Errorf("%d model calls at once, limit 2", m.Peak())
	}
	for i := range 3 {
		if got := len(h.log(fmt.Sprint("test:", i))); got != 4 {
			t.Errorf("session %d has %d records, want 4", i, got)
		}
	}
}

func TestRedeliveryIsIgnored(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("once"))).start()
	msg := in("1", "hi")
	msg.ID = "test:42"
	h.ask(msg)
	for range 2 { // also after a restart
		if outs, err := h.collect(msg); err != nil || len(outs) != 0 {
			t.Errorf("redelivery gave %v, %v", outs, err)
		}
		h.stop()
		h.start()
	}
	if got := brief(h.log("test:1")); got != "u:hi | a:once" {
		t.Errorf("log: %s", got)
	}
}

func TestModelErrorIsExplained(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Fail(&llm.Error{Kind: llm.Auth, Provider: "openai", Message: "bad key"}), llmtest.Reply("ok"))).start()
	got := h.ask(in("1", "hi"))
	if !strings.Contains(got, "rejected the API key") || !strings.Contains(got, "bad key") {
		t.Errorf("reply = %q", got)
	}
	recs := h.log("test:1")
	checkLog(t, recs)
	if strings.Contains(brief(recs), "bad key") {
		t.Error("the raw error entered the history")
	}
	h.ask(in("1", "again"))
}

// Who gets no stream reads what there was of an answer before the error, and the
// model knows what it said.
func TestModelErrorKeepsWhatWasSaid(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Length("Half of it "), llmtest.Fail(&llm.Error{Kind: llm.Auth, Message: "bad key"}), llmtest.Reply("and the rest"))
	h := newHouse(t, m).start()
	whole := in("1", "hi")
	whole.WantsStream = false
	if got := h.ask(whole); !strings.HasPrefix(got, "Half of it\n\n") || !strings.Contains(got, "rejected the API key") {
		t.Errorf("reply = %q", got)
	}
	h.ask(in("1", "continue"))
	if got := brief(h.log("test:1")); got != "u:hi | a:Half of it | u:continue | a:and the rest" {
		t.Errorf("log: %s", got)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("hello"), llmtest.Reply("path answer"), llmtest.Reply("fast"))).start()
	h.ask(in("1", "hi"))
	for _, c := range []struct{ cmd, want string }{
		{"/help", "/stop"},
		{"/HELP", "/stop"},
		{"/help@MyBot", "/stop"},
		{"/help me", "takes no arguments"},
		{"/history", "you: hi\nbot: hello"},
		{"/history 0", "Usage"},
		{"/skill", "weather"},
		{"/model", "Available: default, fast"},
		{"/model nope", "now uses scriptmodel nope"},
		{"/model", "(chosen with /model)"},
		{"/model two words", "no preset"},
		{"/model FAST", "scriptfast"},
		{"/status", "Model: script"},
		{"/restart", "Nothing to restart"},
		{"/usage", "spent 3 cents"},
		{"/cost", "spent 3 cents"},
		{"/history\n1", "bot: hello"},
		{"/sttaus", "Did you mean /status?"},
		{"/xyzzy", "/help lists"},
		{"/etc/hosts explain", "path answer"},
	} {
		if got := h.ask(in("1", c.cmd)); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q does not contain %q", c.cmd, got, c.want)
		}
	}
	guest := in("2", "/model nope")
	guest.Scope = "g1"
	if got := h.ask(guest); !strings.Contains(got, "no preset") {
		t.Errorf("a guest chose a model: %q", got)
	}
	h.ask(in("1", "which model?"))
	if got := h.model.Last().Model; got != "mfast" {
		t.Errorf("model after /model fast = %q", got)
	}
	for _, m := range h.model.Last().Messages {
		if strings.Contains(m.Content.Text, "/model") {
			t.Error("a command reached the model")
		}
	}
}

func TestNewArchives(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("a"), llmtest.Reply("b"))).start()
	h.ask(in("1", "keep me"))
	h.ask(in("1", "/new"))
	found := false
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, _ := os.ReadFile(path)
			found = found || strings.Contains(string(b), "keep me")
		}
		return err
	})
	if err != nil || !found {
		t.Errorf("the old conversation is gone (%v)", err)
	}
	h.ask(in("1", "hi"))
	if n := len(h.model.Last().Messages); n != 1 {
		t.Errorf("%d messages after /new, want 1", n)
	}
}

func TestSkillMention(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("ok"))).start()
	h.ask(in("1", "use $memory please"))
	if got := h.model.Last().Messages[0].Content.Text; !strings.Contains(got, "### Skill: memory") {
		t.Errorf("prompt: %.300q", got)
	}
}

func TestBreakStopsTheTurn(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Step{Text: "some text", Until: make(chan struct{}), Hang: true})
	h := newHouse(t, m).start()
	for range h.agent.Ask(t.Context(), in("1", "hi")) {
		break
	}
	checkLog(t, h.log("test:1"))
	if recs := h.log("test:1"); len(recs) != 3 || !recs[2].Mark() {
		t.Errorf("the history is %s, want the question, what was said of an answer, and the mark", brief(recs))
	}
}

// Old turns are dropped in large steps, so the prefix stays put for many turns,
// also across a restart and when memory was given back.
func TestWindowMovesRarely(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	m.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply(strings.Repeat("word ", 60)) }
	h := newHouse(t, m)
	h.opts.Models.Runtime = func(context.Context, string) (turn.Runtime, error) {
		return turn.Runtime{Model: m, Name: "m", Display: "m", MaxTokens: 500, Window: 8000}, nil
	}
	h.start()
	moves, turns := 0, 120
	for i := range turns {
		h.ask(in("1", fmt.Sprint("question ", i)))
		if i == turns/2 {
			h.stop()
			h.start()
		}
		if i%3 == 1 {
			h.agent.DropCaches()
			if err := h.store.DropCaches(); err != nil {
				t.Fatal(err)
			}
		}
	}
	reqs := m.Requests()
	for i := 1; i < len(reqs); i++ {
		old := reqs[i-1].Messages
		if reqs[i].Messages[0].Content.Text != old[0].Content.Text {
			moves++
		} else if d := cmp.Diff(old, reqs[i].Messages[:len(old)]); d != "" {
			t.Fatalf("request %d does not repeat the one before (-want +got):\n%s", i, d)
		}
		size := runner.EstimateHead(reqs[i].System, reqs[i].Tools)
		for _, msg := range reqs[i].Messages {
			size += runner.Estimate(msg)
		}
		if size > 7500 {
			t.Fatalf("request %d has %d tokens", i, size)
		}
	}
	if moves == 0 || moves > turns/8 {
		t.Errorf("the prefix moved %d times in %d turns", moves, turns)
	}
}

// A window that turns out smaller than configured is remembered: the next turn
// does not run into the same refusal.
func TestLearnedWindow(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	refused := 0
	m.Otherwise = func(req llm.Request) llmtest.Step {
		size := runner.EstimateHead(req.System, req.Tools)
		for _, msg := range req.Messages {
			size += runner.Estimate(msg)
		}
		if size > 6000 {
			refused++
			return llmtest.Fail(&llm.Error{Kind: llm.ContextLength, ContextLimit: 8000})
		}
		return llmtest.Reply(strings.Repeat("word ", 400))
	}
	h := newHouse(t, m).start()
	for i := range 30 {
		h.ask(in("1", fmt.Sprint("question ", i)))
	}
	if refused == 0 || refused > 2 {
		t.Errorf("%d refusals in 30 turns, want the first to teach", refused)
	}
}
