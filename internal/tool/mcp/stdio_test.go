package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func TestStdioCalls(t *testing.T) {
	t.Parallel()
	r := start(t, nil, stdioServer(t, "srv", "plain", nil))
	for _, c := range []struct {
		name, args, want string
		isErr            bool
		code             tool.Code
	}{
		{"mcp_srv_echo", `{"text":"hi"}`, "you said hi", false, ""},
		{"mcp_srv_fail", `{}`, "out of cheese", true, tool.Internal},
		{"mcp_srv_refuse", `{}`, "the text is wrong", true, tool.InvalidArgs},
		{"mcp_srv_nothing", `{}`, "(no output)", false, ""},
		{"mcp_srv_resource_notes", `{}`, "milk\n[data of x:y, 3 bytes]", false, ""},
		{"mcp_srv_prompt_greet", `{"who":"Ann"}`, `"arguments":{"who":"Ann"}`, false, ""},
		{"mcp_srv_big", `{}`, "longer than 4 MiB", true, tool.Internal},
		{"mcp_srv_big_end", `{}`, "longer than 4 MiB", true, tool.Internal},
	} {
		res := r.run(t.Context(), c.name, c.args)
		if got := res.Content.String(); !strings.Contains(got, c.want) || res.IsError != c.isErr || res.Code != c.code || !res.Untrusted {
			t.Errorf("%s: %q error=%v code=%q untrusted=%v, want %q error=%v code=%q untrusted", c.name, got, res.IsError, res.Code, res.Untrusted, c.want, c.isErr, c.code)
		}
	}
	if res := r.run(t.Context(), "mcp_srv_prompt_greet", `{}`); !res.IsError || res.Code != tool.InvalidArgs {
		t.Errorf("a prompt without its required argument: %q", res.Content.String())
	}
	if st := r.state("srv"); st.State != Ready || st.Tools != 14 || st.Resources != 1 || st.Prompts != 1 || st.Protocol != "2025-06-18" {
		t.Errorf("status = %+v", st)
	}
}

// Row 110: banners, half lines and lines of 10 MB before the first message.
func TestStdioSurvivesNoise(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"banner", "long banner", "no discover"} {
		r := start(t, nil, stdioServer(t, "srv", mode, nil))
		if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"hi"}`); res.Content.String() != "you said hi" {
			t.Errorf("%s: %q", mode, res.Content.String())
		}
		if log := r.log.String(); mode != "no discover" && !strings.Contains(log, "must log to stderr") {
			t.Errorf("%s: no hint in the log: %s", mode, log)
		}
	}
}

// Row 110: a server that never answers initialize delays the first turn once
// and is tried again in the background.
func TestStdioSilentServer(t *testing.T) {
	t.Parallel()
	silent, plain := stdioServer(t, "silent", "silent", nil), stdioServer(t, "srv", "plain", nil)
	r := start(t, func(_ *Options, tm *timing) { tm.first, tm.connect = 100*time.Millisecond, time.Hour }, silent, plain)
	r.names() // returns
	if st := r.state("silent"); st.State == Ready {
		t.Errorf("status = %+v", st)
	}
	r.until("the other one is there", func() bool { return r.state("srv").State == Ready })
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"x"}`); res.IsError {
		t.Errorf("the other server: %q", res.Content.String())
	}

	r = start(t, func(_ *Options, tm *timing) { tm.first, tm.connect = 0, 300*time.Millisecond }, silent)
	r.names()
	r.until("back-off", func() bool { return r.state("silent").State == Backoff })
	if e := r.state("silent").Error; !strings.Contains(e, "no answer to initialize") {
		t.Errorf("error = %q", e)
	}
	r.until("another attempt", func() bool { return strings.Count(r.log.String(), "no answer to initialize") > 1 })
}

func TestStdioThatDoesNotStart(t *testing.T) {
	t.Parallel()
	r := start(t, nil, stdioServer(t, "dies", "dies", map[string]string{"SECRET_KEY": "very-secret-value"}),
		Server{Name: "gone", Type: Stdio, Command: "no-such-program-anywhere"})
	if got := r.names(); len(got) > 0 {
		t.Errorf("tools = %v", got)
	}
	st := r.state("dies")
	if st.State != Backoff && st.State != Connecting || !strings.Contains(st.Log, "cannot find my settings") {
		t.Errorf("status = %+v", st)
	}
	r.until("an explanation", func() bool { return strings.Contains(r.log.String(), "exit status 3") })
	if strings.Contains(r.log.String()+st.Log, "very-secret-value") {
		t.Error("the secret of the server is in the log")
	}
	r.until("no such program", func() bool { return strings.Contains(r.log.String(), "is not in PATH") })
}

// Row 110: a server that exits in the middle of a call. What may have run is
// not repeated; what may be repeated is, on a new process.
func TestStdioExitMidCall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	r := start(t, nil, stdioServer(t, "srv", "dies once", map[string]string{"FAKE_ONCE": filepath.Join(dir, "once"), "FAKE_LOG": calls}))
	res := r.run(t.Context(), "mcp_srv_die_safe", `{}`)
	if res.IsError || res.Content.String() != "survived" {
		t.Errorf("an idempotent tool: %q", res.Content.String())
	}
	if err := os.Remove(filepath.Join(dir, "once")); err != nil {
		t.Fatal(err)
	}
	res = r.run(t.Context(), "mcp_srv_die", `{}`)
	if !res.IsError || !res.MayHaveRun {
		t.Errorf("a tool with effects: %q, may have run = %v", res.Content.String(), res.MayHaveRun)
	}
	b, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), `"die"`); n != 1 {
		t.Errorf("the tool with effects was called %d times", n)
	}
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"back"}`); res.Content.String() != "you said back" {
		t.Errorf("after the restart: %q", res.Content.String())
	}
}

// Row 110: a server that ignores cancellation holds up nobody.
func TestStdioCancel(t *testing.T) {
	t.Parallel()
	calls := filepath.Join(t.TempDir(), "calls")
	s := stdioServer(t, "srv", "plain", map[string]string{"FAKE_LOG": calls})
	r := start(t, nil, s)
	r.names()
	told := func(what string) func() bool {
		return func() bool {
			b, _ := os.ReadFile(calls)
			return strings.Contains(string(b), what)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user said stop")
	slow := r.find("mcp_srv_slow")
	ended := make(chan error, 1)
	go func() {
		_, err := slow.Run(ctx, tool.Call{Input: []byte(`{}`)})
		ended <- err
	}()
	r.until("the call is there", told(`"slow"`))
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("err = %v", err)
	}
	r.until("the server is told", told("notifications/cancelled"))
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"x"}`); res.IsError {
		t.Errorf("after a cancelled call: %q", res.Content.String())
	}
}

// A call ends after its time, unless there are signs of life. How regularly a
// server can give them is up to the machine: where they came too late, there is
// more time for both.
func TestStdioTimeoutAndProgress(t *testing.T) {
	t.Parallel()
	for timeout := 800 * time.Millisecond; ; timeout *= 2 {
		s := stdioServer(t, "srv", "plain", nil)
		s.ToolTimeout = timeout
		r := start(t, nil, s)
		res := r.run(t.Context(), "mcp_srv_slow", `{}`)
		if res.Code != tool.TimedOut || !res.MayHaveRun {
			t.Errorf("slow: %q code %q", res.Content.String(), res.Code)
		}
		if st := r.state("srv"); st.State != Degraded {
			t.Errorf("state = %q", st.State)
		}
		res = r.run(t.Context(), "mcp_srv_progress", fmt.Sprintf(`{"text":%q}`, timeout*3/2))
		if res.Code == tool.TimedOut && timeout < 6*time.Second {
			continue
		}
		if res.Content.String() != "done" {
			t.Errorf("progress: %q", res.Content.String())
		}
		if st := r.state("srv"); st.State != Ready {
			t.Errorf("state = %q", st.State)
		}
		return
	}
}

// What a server sends on its own costs neither memory nor an answer to others.
func TestStdioFlood(t *testing.T) {
	t.Parallel()
	r := start(t, nil, stdioServer(t, "srv", "plain", nil))
	if res := r.run(t.Context(), "mcp_srv_flood", `{}`); res.Content.String() != "flooded" {
		t.Errorf("flood: %q", res.Content.String())
	}
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"x"}`); res.IsError {
		t.Errorf("after the flood: %q", res.Content.String())
	}
}

func TestChildEnvironment(t *testing.T) {
	t.Parallel()
	environ := append(os.Environ(), "OPENAI_API_KEY=sk-secret", "AWS_SECRET_ACCESS_KEY=x", "BASH_FUNC_x%%=() { :; }", "TERM=() { evil; }")
	r := start(t, func(o *Options, _ *timing) { o.Environ = environ }, stdioServer(t, "srv", "plain", map[string]string{"MINE": "yes"}))
	got := r.run(t.Context(), "mcp_srv_env", `{}`).Content.String()
	if !strings.Contains(got, "MINE=yes") || !strings.Contains(got, "PATH=") {
		t.Errorf("environment = %q", got)
	}
	for _, bad := range []string{"OPENAI", "AWS_", "BASH_FUNC", "evil"} {
		if strings.Contains(got, bad) {
			t.Errorf("the server sees %s", bad)
		}
	}
}

// Ending a server ends what it started, however stubborn it is.
func TestProcessGroupEnds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("process groups are a matter of unix; Windows has job objects")
	}
	for _, mode := range []string{"leaves child", "leaves child with pipes", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := stdioServer(t, "srv", mode, nil)
			p, err := New(Options{Servers: []Server{s}, Environ: os.Environ()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = p.Run(ctx) }()
			p.Tools(t.Context())
			group := p.servers[0].group(t)
			cancel()
			<-done
			// A process that was killed takes a moment to go.
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for end := time.Now().Add(10 * time.Minute); alive(group); <-tick.C {
				if time.Now().After(end) {
					t.Fatal("a process of the server is left")
				}
			}
		})
	}
}

func (s *server) group(t *testing.T) int {
	t.Helper()
	l, err := s.connected(t.Context(), 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return l.proc.cmd.Process.Pid
}

func TestSandboxSeam(t *testing.T) {
	t.Parallel()
	s := stdioServer(t, "srv", "plain", nil)
	s.Sandbox = true
	r := start(t, nil, s)
	r.names()
	r.until("refused", func() bool { return strings.Contains(r.log.String(), "there is no sandbox") })

	cleaned := make(chan struct{})
	spawned := 0
	p, err := New(Options{Servers: []Server{s}, Environ: os.Environ(), Spawn: func(_ Server, cmd *execCmd) (func(), error) {
		spawned++
		cmd.Env = append(cmd.Env, "MINE=sandboxed")
		return func() { close(cleaned) }, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	p.Tools(t.Context())
	cancel()
	<-done
	<-cleaned
	if spawned != 1 {
		t.Errorf("spawned %d times", spawned)
	}
}

func TestArgumentsAreNotLeftToTheCurrentFolder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("another rule finds programs there")
	}
	for _, c := range []struct {
		command, path string
		ok            bool
	}{
		{"sh", "/usr/bin:/bin", true},
		{"sh", ".:", false},
		{"sh", "", false},
		{"./sh", "", true},
		{"/bin/sh", "", true},
	} {
		_, _, err := program(c.command, nil, childEnv([]string{"PATH=" + c.path}, map[string]httpsafe.Secret{}))
		if (err == nil) != c.ok {
			t.Errorf("%s in %q: %v", c.command, c.path, err)
		}
	}
}
