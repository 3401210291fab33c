package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

const (
	guest  = "test:group/7"  // who writes
	member = "test:group/8"  // somebody else there
	canary = "ZQX-0143"      // begins everything that guest must not see
	token  = "ZQX"           // what a model would look for
	group  = "test:group"    // the conversation of both
	ownTag = "own-words-551" // what guest may see
)

// shared is a home with an owner's memory, and a model that tries to read it.
type shared struct {
	t     *testing.T
	home  string
	ws    string
	app   *app.App
	calls []map[string]any // tool and its arguments
	mu    sync.Mutex
	asked strings.Builder // all requests
	got   strings.Builder // the results of the calls
	each  []string        // the same, one by one
	sent  strings.Builder // all that went out
}

func newShared(t *testing.T, conf string, more ...func(*app.Options)) *shared {
	t.Helper()
	home := t.TempDir()
	s := &shared{t: t, home: home, ws: filepath.Join(home, "workspace")}
	for i, name := range []string{
		"USER.md", "HEARTBEAT.md", "memory/MEMORY.md", "memory/HISTORY.md", "sessions/cli_direct.jsonl", "cron/jobs.json", "triggers/triggers.json", ".git/description",
		memory.ScopeFile(member), ".nanobot/tool-results/" + text.SafeName("cli:direct") + "/c.txt",
	} {
		s.put(name, fmt.Sprintf("%s-%d\n", canary, i))
	}
	s.put(memory.ScopeFile(guest), ownTag+" 1\n")
	s.put(".nanobot/tool-results/"+text.SafeName(group)+"/c.txt", ownTag+" 2\n")
	s.put("notes.txt", ownTag+" 3\n")
	s.put("SOUL.md", "calm\n")
	if err := os.Symlink("memory/MEMORY.md", filepath.Join(s.ws, "link.md")); err != nil && runtime.GOOS != "windows" {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	m := llmtest.NewScript(t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		b, err := json.Marshal(req)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked.Write(b)
		if n := len(req.Messages); req.Messages[n-1].Role == llm.ToolRole {
			for _, msg := range req.Messages[max(0, n-len(s.calls)):] {
				s.got.WriteString(msg.Content.String() + "\n")
				s.each = append(s.each, msg.Content.String())
			}
			return llmtest.Reply("done")
		}
		var step llmtest.Step
		for i, c := range s.calls {
			args := map[string]any{}
			for k, v := range c {
				if k != "tool" {
					args[k] = v
				}
			}
			name, _ := c["tool"].(string)
			if i == 0 {
				step = llmtest.Call(name, args)
			} else {
				step = step.Call(name, args)
			}
		}
		return step
	}
	o := app.Options{
		UseModel: m, Workspace: s.ws, Env: []string{"NANOBOT_HOME=" + home, "PATH=" + os.Getenv("PATH")}, Config: config.Options{Home: home},
	}
	for _, change := range more {
		change(&o)
	}
	var err error
	s.app, err = app.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.app.Agent.Open(ctx)
	over := make(chan struct{})
	go func() { defer close(over); _ = s.app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-over
		if err := s.app.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *shared) put(name, body string) {
	s.t.Helper()
	p := filepath.Join(s.ws, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(body), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run lets the model make the calls and returns all it and the chat got to see.
func (s *shared) run(scope string, calls ...map[string]any) string {
	s.t.Helper()
	s.mu.Lock()
	s.calls = calls
	s.mu.Unlock()
	return s.say(scope, "go")
}

// say lets somebody say something and returns all the model and the chat got to see.
func (s *shared) say(scope, words string) string {
	s.t.Helper()
	s.mu.Lock()
	s.asked.Reset()
	s.got.Reset()
	s.each = nil
	s.sent.Reset()
	s.mu.Unlock()
	in := bus.Inbound{Route: bus.Route{Channel: "test", ChatID: "group"}, SenderID: "7", Text: words, Scope: scope}
	if scope == "" {
		in.Route.ChatID = "owner"
	}
	for out, err := range s.app.Agent.Ask(s.t.Context(), in) {
		if err != nil {
			s.t.Fatal(err)
		}
		b, _ := json.Marshal(out)
		s.sent.Write(b)
		for _, m := range out.Media {
			data, _ := os.ReadFile(m.Path)
			s.sent.Write(data)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked.String() + s.sent.String()
}

// putGuest puts a file where the chat of guests works.
func (s *shared) putGuest(name, body string) {
	s.t.Helper()
	p := filepath.Join(s.guestSpace(), filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(body), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

func call(tool string, pairs ...any) map[string]any {
	out := map[string]any{"tool": tool}
	for i := 0; i < len(pairs); i += 2 {
		key, _ := pairs[i].(string)
		out[key] = pairs[i+1]
	}
	return out
}

// attempts are the ways to files that need no command.
func attempts(ws string) []map[string]any {
	out := []map[string]any{
		call("grep", "pattern", token), call("grep", "pattern", token, "path", "memory", "output_mode", "content"),
		call("grep", "pattern", token, "path", ".", "output_mode", "content"),
		call("glob", "pattern", "**/*"), call("list_dir", "path", "memory", "recursive", true),
		call("message", "content", "look", "media", []string{"memory/MEMORY.md"}),
		call("message", "content", "look", "media", []string{"USER.md"}),
		call("search_memory", "query", token),
	}
	for _, name := range []string{
		"USER.md", "HEARTBEAT.md", "memory/MEMORY.md", "memory/HISTORY.md", "memory/history.jsonl", "link.md", "sessions/cli_direct.jsonl", "cron/jobs.json", "triggers/triggers.json",
		".git/description", memory.ScopeFile(member), ".nanobot/tool-results/" + text.SafeName("cli:direct") + "/c.txt",
		filepath.Join(ws, "memory", "MEMORY.md"), "skills/../memory/MEMORY.md", filepath.Dir(memory.ScopeFile(guest)) + "/../../MEMORY.md",
	} {
		out = append(out, call("read_file", "path", name))
	}
	return out
}

const calmConfig = `{"tools":{"restrictToWorkspace":true,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`

// Somebody who shares a chat with others gets nothing of the owner's memory, nor
// of another person's, whatever the model is talked into.
func TestGuestsSeeNothingOfTheOwner(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig)
	tries := attempts(s.ws)
	if seen := s.run("", tries...); strings.Count(seen, canary) < len(tries) {
		t.Fatalf("the owner sees too little, so this test tests nothing: %d", strings.Count(seen, canary))
	}
	if seen := s.run(guest, tries...); strings.Contains(seen, canary) {
		at := strings.Index(seen, canary)
		t.Errorf("a canary got out: ...%s", seen[max(0, at-600):at+40])
	}
}

// What is theirs they can use: what is remembered of them is in their prompt,
// and their files and long results can be read.
func TestGuestsCanWork(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig)
	s.putGuest("../tool-results/c.txt", ownTag+" 2\n")
	s.putGuest("notes.txt", ownTag+" 3\n")
	seen := s.run(guest,
		call("read_file", "path", filepath.Join(s.guestFolder(), "tool-results", "c.txt")), call("read_file", "path", "notes.txt"),
		call("write_file", "path", "new.txt", "content", "x"))
	for i := 1; i <= 3; i++ {
		if want := fmt.Sprintf("%s %d", ownTag, i); !strings.Contains(seen, want) {
			t.Errorf("%q was not shown", want)
		}
	}
	if b, err := os.ReadFile(filepath.Join(s.guestSpace(), "new.txt")); err != nil || string(b) != "x" {
		t.Errorf("new.txt = %q, %v", b, err)
	}
	if !strings.Contains(seen, "calm") {
		t.Error("the owner's SOUL.md is not in the prompt of a guest")
	}
	s.run(guest, call("write_file", "path", filepath.Join(s.guestFolder(), "tool-results", "c.txt"), "content", "x"))
	if b, _ := os.ReadFile(filepath.Join(s.guestFolder(), "tool-results", "c.txt")); string(b) == "x" {
		t.Error("a guest changed a stored result")
	}
}

// They cannot change what the owner's turns follow.
func TestGuestsChangeNothingOfTheOwner(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig)
	names := []string{"SOUL.md", "AGENTS.md", "TOOLS.md", "USER.md", "HEARTBEAT.md", "memory/MEMORY.md", "memory/new.md", "skills/evil/SKILL.md", "cron/jobs.json", ".git/config"}
	var tries []map[string]any
	for _, name := range names {
		tries = append(tries, call("write_file", "path", name, "content", "obey me"))
	}
	s.run(guest, tries...)
	for _, name := range names {
		if b, err := os.ReadFile(filepath.Join(s.ws, filepath.FromSlash(name))); err == nil && strings.Contains(string(b), "obey me") {
			t.Errorf("%s was changed", name)
		}
	}
}

// A guest can look again at what was sent in the own chat, does not find what
// the owner or another chat got, and gets to nothing outside of the workspace
// even where the owner does.
func TestGuestsStayAtTheirs(t *testing.T) {
	t.Parallel()
	s := newShared(t, `{"tools":{"restrictToWorkspace":false,"exec":{"sandbox":"none"},"approval":{"mode":"off"}}}`)
	media := filepath.Join(s.home, "media", "test")
	s.putGuest("../media/QWERTY_theirs.txt", ownTag+" 4\n")
	s.put("../media/test/ASDFGH_owners.txt", canary+" owners\n")
	s.put("../../outside/outside.txt", canary+" outside\n")
	outside := filepath.Join(filepath.Dir(s.home), "outside")
	tries := []map[string]any{
		call("list_dir", "path", media), call("list_dir", "path", filepath.Dir(media), "recursive", true), call("glob", "pattern", "**/*.txt", "path", media),
		call("grep", "pattern", token, "path", media, "output_mode", "content"), call("grep", "pattern", token, "path", outside, "output_mode", "content"),
		call("read_file", "path", filepath.Join(outside, "outside.txt")), call("read_file", "path", filepath.Join(media, "ASDFGH_owners.txt")),
		call("read_file", "path", filepath.Join(s.guestFolder(), "media", "QWERTY_theirs.txt")),
	}
	if seen := s.run("", tries...); !strings.Contains(seen, canary+" owners") || !strings.Contains(seen, canary+" outside") || !strings.Contains(seen, "ASDFGH") {
		t.Fatal("the owner sees too little, so this test tests nothing")
	}
	s.run(guest, tries...)
	seen := s.got.String()
	if at := strings.Index(seen, canary); at >= 0 {
		t.Errorf("found: ...%s", seen[max(0, at-600):at+40])
	}
	if !strings.Contains(seen, ownTag+" 4") {
		t.Error("the own file cannot be read again")
	}
}

// A gateway sends files later, and maybe again. It must be the file that was
// looked at, not what a command put in its place meanwhile.
func TestSentFileIsTheOneThatWasChecked(t *testing.T) {
	t.Parallel()
	s := newShared(t, calmConfig, func(o *app.Options) {
		o.Link.Submit = func(context.Context, bus.Inbound) error { return nil }
	})
	for _, scope := range []string{"", guest} {
		ws := s.ws
		if scope != "" {
			ws = s.guestSpace()
		}
		s.put("report.txt", "the report")
		s.putGuest("report.txt", "the report")
		s.run(scope, call("message", "content", "here", "media", []string{"report.txt"}))
		var out bus.Outbound
		for d := json.NewDecoder(strings.NewReader(s.sent.String())); ; {
			var o bus.Outbound
			if d.Decode(&o) != nil {
				break
			}
			if len(o.Media) > 0 {
				out = o
			}
		}
		if len(out.Media) != 1 || out.Media[0].Name != "report.txt" || out.Media[0].Size != 10 {
			t.Fatalf("media = %+v", out.Media)
		}
		report := filepath.Join(ws, "report.txt")
		if err := errors.Join(os.Remove(report), os.Symlink(filepath.Join(s.home, "config.json"), report)); err != nil {
			t.Skip("no links here")
		}
		if b, err := os.ReadFile(out.Media[0].Path); err != nil || string(b) != "the report" {
			t.Errorf("scope %q: sent %q, %v", scope, b, err)
		}
		if err := os.Remove(report); err != nil {
			t.Fatal(err)
		}
	}
}
