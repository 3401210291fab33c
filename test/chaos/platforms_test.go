//go:build unix

package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel/discordtest"
	"github.com/nanobot-go/nanobot/internal/channel/matrixtest"
	"github.com/nanobot-go/nanobot/internal/channel/slacktest"
	"github.com/nanobot-go/nanobot/internal/channel/telegramtest"
)

// venue is a chat platform with a few direct chats.
type venue struct {
	name    string
	section map[string]any
	once    bool // it honours keys: nothing may stand there twice
	say     func(chat int, text string)
	shown   func(chat int) []string // what the bot said, in order, as it is now
	spoil   []func()                // one mishap each
	ready   func() bool             // the bot is there for the first time
	close   func()
}

// TestChaosOfPlatforms lets people write on four platforms at once while the
// gateway is killed, connections are cut and calls are refused. Every message is
// answered in its chat, in order. On platforms that honour keys nothing stands
// there twice; elsewhere that is counted.
func TestChaosOfPlatforms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	f := form{chats: 3, messages: 100, kills: 5, feed: 15 * time.Second, settle: 3 * time.Minute}
	if os.Getenv("NANOBOT_CHAOS") == "full" {
		f = form{chats: 10, messages: 1000, kills: 30, feed: 120 * time.Second, settle: 10 * time.Minute}
	}
	seed := uint64(time.Now().UnixNano())
	if v, err := strconv.ParseUint(os.Getenv("NANOBOT_CHAOS_SEED"), 10, 64); err == nil {
		seed = v
	}
	t.Logf("seed %d", seed)
	l := newLuck(seed)
	m := newModel(t, l)
	venues := []*venue{telegramVenue(), slackVenue(f.chats), discordVenue(f.chats), matrixVenue(f.chats)}
	g := platformGateway(t, m, venues)

	said := make([][][]string, len(venues)) // by platform and chat
	speak := func(v, c int) {
		name := fmt.Sprintf("c%dn%d;", 100*v+c, len(said[v][c]))
		said[v][c] = append(said[v][c], name)
		venues[v].say(c, "please answer "+name)
	}
	g.start()
	for v := range venues { // a chat must be known before what is missed in it can be
		for deadline := time.Now().Add(f.settle); !venues[v].ready(); hold(t.Context(), 20*time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the bot does not come to %s\n%s", venues[v].name, tail(g.out.String()))
			}
		}
		said[v] = make([][]string, f.chats)
		for c := range f.chats {
			speak(v, c)
		}
	}
	settle(t, g, venues, said, f.settle)

	harm := newLuck(seed + 1)
	for i := range f.messages {
		hold(t.Context(), harm.within(2*f.feed/time.Duration(f.messages)))
		speak(harm.index(len(venues)), harm.index(f.chats))
		if harm.float() < 0.3 {
			v := venues[harm.index(len(venues))]
			v.spoil[harm.index(len(v.spoil))]()
		}
		if i%(f.messages/f.kills) == f.messages/f.kills-1 {
			g.kill()
			g.start()
		}
	}
	l.mend()
	settle(t, g, venues, said, f.settle)
	g.stop()

	judgePlatforms(t, venues, said)
	if bad, _ := g.complaints(); len(bad) > 0 {
		t.Errorf("log: %s", strings.Join(bad, "\n"))
	}
	if n := len(g.killed); n != f.kills {
		t.Errorf("%d processes were killed, want %d", n, f.kills)
	}
}

// settle waits until every message is answered by a whole answer.
func settle(t *testing.T, g *gateway, venues []*venue, said [][][]string, most time.Duration) {
	t.Helper()
	open := func() (list []string) {
		for v := range venues {
			for c, names := range said[v] {
				all := strings.Join(whole(venues[v].shown(c)), "\n")
				for _, n := range names {
					if !strings.Contains(all, n) {
						list = append(list, venues[v].name+" "+n)
					}
				}
			}
		}
		return list
	}
	for deadline := time.Now().Add(most); ; hold(t.Context(), 200*time.Millisecond) {
		left := open()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages have no answer, such as %q\n%s", len(left), left[:min(len(left), 10)], tail(g.out.String()))
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// whole are the answers that came to their end.
func whole(texts []string) (out []string) {
	for _, s := range texts {
		if strings.HasSuffix(strings.TrimSpace(s), "done.") {
			out = append(out, s)
		}
	}
	return out
}

// judgePlatforms looks at the order of answers, and for what stands there twice
// or was begun and left.
func judgePlatforms(t *testing.T, venues []*venue, said [][][]string) {
	t.Helper()
	for v, where := range venues {
		messages, twice, left := 0, 0, 0
		for c, names := range said[v] {
			shown := where.shown(c)
			left += len(shown) - len(whole(shown))
			last := -1
			for _, n := range names {
				messages++
				times := 0
				first := slices.IndexFunc(shown, func(s string) bool { return strings.Contains(s, n) })
				for _, s := range shown {
					times += strings.Count(s, n)
				}
				twice += times - 1
				if first < last {
					t.Errorf("%s: %s was answered before the message ahead of it: %q", where.name, n, shown)
				}
				last = first
			}
			if where.once && (twice > 0 || left > 0) {
				t.Errorf("%s honours keys, but shows %q", where.name, shown)
			}
		}
		t.Logf("%s: %d messages, %d answered twice, %d begun and left", where.name, messages, twice, left)
	}
}

func platformGateway(t *testing.T, m *model, venues []*venue) *gateway {
	t.Helper()
	dir := t.ArtifactDir()
	g := &gateway{
		t: t, bin: filepath.Join(dir, "nanobot"), home: filepath.Join(dir, "home"), config: filepath.Join(dir, "home", "config.json"),
		killed: map[int]time.Time{},
	}
	g.build()
	if err := os.MkdirAll(g.workspace(), 0o700); err != nil {
		t.Fatal(err)
	}
	channels := map[string]any{"sendProgress": false, "sendToolHints": false}
	for _, v := range venues {
		v.section["enabled"], v.section["restartBackoffMaxS"] = true, 1
		channels[v.name] = v.section
	}
	text, err := json.Marshal(map[string]any{
		"agents": map[string]any{"defaults": map[string]any{
			"model": "custom/m", "provider": "custom", "providerRetryMode": "persistent", "limits": map[string]any{"maxConcurrentRequests": 64},
		}},
		"providers": map[string]any{"custom": map[string]any{"apiBase": m.http.URL + "/v1", "apiKey": "test-key"}},
		"tools":     map[string]any{"restrictToWorkspace": true},
		"gateway":   map[string]any{"port": 0},
		"channels":  channels,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(g.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.cmd != nil && g.cmd.ProcessState == nil {
			_ = g.cmd.Process.Kill() // the test failed before its end
			_ = g.cmd.Wait()
		}
		for _, v := range venues {
			v.close()
		}
		m.http.CloseClientConnections()
		m.http.Close()
	})
	return g
}

func telegramVenue() *venue {
	fake := telegramtest.New()
	fail := func(f telegramtest.Failure) func() { return func() { fake.Fail(f) } }
	return &venue{
		name:    "telegram",
		section: map[string]any{"token": telegramtest.Token, "apiBase": fake.URL(), "allowFrom": []string{"*"}},
		say:     func(chat int, text string) { fake.Say(int64(1000+chat), text) },
		shown: func(chat int) (out []string) {
			for _, m := range fake.Messages(int64(1000 + chat)) {
				out = append(out, m.Plain)
			}
			return out
		},
		spoil: []func(){
			fail(telegramtest.Failure{Method: "sendMessage", Code: 429, RetryAfter: 1}),
			fail(telegramtest.Failure{Method: "sendMessage", Code: 500, Text: "Internal Server Error"}),
			fail(telegramtest.Failure{Method: "sendMessage", After: true}),
			fail(telegramtest.Failure{Method: "editMessageText", Code: 500, Text: "Internal Server Error"}),
			fake.CutAll,
		},
		ready: func() bool { return true },
		close: fake.Close,
	}
}

func slackVenue(chats int) *venue {
	fake := slacktest.New()
	who := func(chat int) string { return fmt.Sprintf("U0P%d", chat) }
	var people []slacktest.Person
	for c := range chats {
		people = append(people, slacktest.Person{ID: who(c), Handle: strings.ToLower(who(c)), Name: who(c)})
	}
	fake.Join(people)
	fail := func(f slacktest.Failure) func() { return func() { fake.Fail(f) } }
	return &venue{
		name:    "slack",
		section: map[string]any{"botToken": slacktest.BotToken, "appToken": slacktest.AppToken, "apiBase": fake.URL(), "allowFrom": []string{"*"}},
		say:     func(chat int, text string) { fake.Say(who(chat), text) },
		shown: func(chat int) (out []string) {
			for _, m := range fake.Messages(fake.DM(who(chat))) {
				if m.User == slacktest.BotUser {
					out = append(out, m.Plain)
				}
			}
			return out
		},
		spoil: []func(){
			fail(slacktest.Failure{Method: "chat.postMessage", Status: http.StatusTooManyRequests, RetryAfter: 1}),
			fail(slacktest.Failure{Method: "chat.postMessage", Status: http.StatusServiceUnavailable}),
			fail(slacktest.Failure{Method: "chat.postMessage", After: true}),
			fail(slacktest.Failure{Method: "chat.update", Status: http.StatusServiceUnavailable}),
			fake.Cut,
		},
		ready: func() bool { return fake.Connected() > 0 },
		close: fake.Close,
	}
}

func discordVenue(chats int) *venue {
	fake := discordtest.New()
	who := func(chat int) string { return strconv.Itoa(4200 + chat) }
	var people []string
	for c := range chats {
		people = append(people, who(c))
	}
	fail := func(f discordtest.Failure) func() { return func() { fake.Fail(f) } }
	return &venue{
		name: "discord", once: true,
		section: map[string]any{"token": discordtest.Token, "apiBase": fake.URL(), "allowFrom": people},
		say:     func(chat int, text string) { fake.Write(who(chat), fake.DM(who(chat)), text, nil) },
		shown: func(chat int) (out []string) {
			for _, m := range fake.Messages(fake.DM(who(chat))) {
				out = append(out, m.Text())
			}
			return out
		},
		spoil: []func(){
			fail(discordtest.Failure{Method: http.MethodPost, Path: "/channels", Status: 429, RetryAfter: 1}),
			fail(discordtest.Failure{Method: http.MethodPost, Path: "/channels", Status: 500}),
			fail(discordtest.Failure{Method: http.MethodPost, Path: "/channels", After: true}),
			fail(discordtest.Failure{Method: http.MethodPatch, Path: "/channels", Status: 500}),
			fake.Cut,
		},
		ready: func() bool { return fake.Connected() > 0 },
		close: fake.Close,
	}
}

func matrixVenue(chats int) *venue {
	fake := matrixtest.New()
	who := func(chat int) string { return fmt.Sprintf("@p%d:%s", chat, matrixtest.Server) }
	room := func(chat int) string { return fmt.Sprintf("!r%d:%s", chat, matrixtest.Server) }
	for c := range chats {
		fake.Account(who(c), "pw")
		fake.Room(room(c), nil, who(c), matrixtest.Bot)
	}
	fail := func(f matrixtest.Failure) func() { return func() { fake.Fail(f) } }
	return &venue{
		name: "matrix", once: true,
		section: map[string]any{"homeserver": fake.URL(), "userId": matrixtest.Bot, "password": matrixtest.Password, "allowFrom": []string{"*"}, "streaming": true},
		say: func(chat int, text string) {
			fake.Say(matrixtest.Event{Room: room(chat), Sender: who(chat)}, matrixtest.Text(text))
		},
		shown: func(chat int) (out []string) {
			for _, m := range fake.Messages(matrixtest.Bot) {
				if m.Room == room(chat) {
					out = append(out, strings.TrimPrefix(m.Body, "* "))
				}
			}
			return out
		},
		spoil: []func(){
			fail(matrixtest.Failure{Method: http.MethodPut, Path: "/send/", Status: 429, Code: "M_LIMIT_EXCEEDED", Wait: time.Second}),
			fail(matrixtest.Failure{Method: http.MethodPut, Path: "/send/", Status: 500, Code: "M_UNKNOWN"}),
			fail(matrixtest.Failure{Method: http.MethodPut, Path: "/send/"}),
			fake.CutAll,
		},
		ready: func() bool { return len(fake.Calls("/sync")) > 1 }, // the first one only learns what is old
		close: fake.Close,
	}
}
