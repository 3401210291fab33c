package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/local"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"nanobot": main})
}

// TestScripts runs every user task in testdata/script against the real command
// line, each in an empty home with an environment that holds no key.
//
// $DUMPS holds the configuration files that older versions write. Besides the
// usual commands a script has:
//
//	fakellm FILE              start a model server that plays FILE (see parseAnswers);
//	                          $LLM_URL and $LLM_KEY say how to reach it
//	requests FILE             write the requests it got, one JSON body per line
//	exits CODE nanobot ...    like exec, and the exit code must be CODE
//	interrupt RE nanobot ...  start it, send Ctrl-C once its output matches RE, wait for its end
//	terminal FILE nanobot ... run it on a terminal and play FILE (Linux only; see terminal)
//	json FILE [PATH WANT]     FILE is JSON; the value at PATH (a.0.b) must match WANT
//	ndjson FILE               every line is a JSON object and the last one a final event
//	perm FILE MODE            check permissions
//	lines FILE N              FILE has N lines
//	afterwards nanobot ...    run it when the script is over, however it ends
//	http FILE STATUS METHOD PATH [HEADER: VALUE...] [BODY]
//	                          ask the gateway whose status --json is in FILE; the file
//	                          answer holds what it says
//	another FILE nanobot gateway status --json ...
//	                          repeat it until it is not the gateway of FILE any more;
//	                          the file another holds what it says, the file process
//	                          whether it is the same process
func TestScripts(t *testing.T) {
	t.Parallel()
	dumps, err := filepath.Abs(filepath.Join("..", "..", "internal", "run", "config", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	servers := &fakes{t: t, running: map[*testscript.Env]*fake{}}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("USERPROFILE", home)
			env.Setenv("TERM", "xterm-256color")
			env.Setenv("DUMPS", dumps)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector's second at every exit adds up
			env.Values[envKey{}] = env
			return os.Mkdir(home, 0o700)
		},
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fakellm": servers.start, "requests": servers.requests,
			"exits": exits, "interrupt": interrupt, "terminal": terminal, "json": jsonCommand, "ndjson": ndjson, "perm": perm, "lines": lines,
			"afterwards": afterwards, "http": httpCommand, "another": another,
		},
	})
}

// envKey finds the Env of a running script.
type envKey struct{}

// condition knows [demo]: no model server runs on this machine, so that an
// unconfigured start ends with the demo model; [terminal]: the command
// terminal works here; and [mounts]: unshare can make a folder read-only for one
// command.
func condition(name string) (bool, error) {
	switch name {
	case "demo":
		return noLocalServer(), nil
	case "terminal":
		return terminals(), nil
	case "mounts":
		return mounts(), nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

var noLocalServer = sync.OnceValue(func() bool {
	return len(local.Discover(context.Background(), local.Options{Getenv: func(string) string { return "" }})) == 0
})

var mounts = sync.OnceValue(func() bool {
	return exec.Command("unshare", "-rm", "sh", "-c", "mount -t tmpfs none /tmp").Run() == nil
})

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// interrupt starts a command, waits until what it writes matches, and sends
// the signal of Ctrl-C. The exit code must be 130.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt REGEXP command [args...]")
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := scriptCommand(ctx, ts, args[1:])
	seen := &watcher{re: re, found: make(chan struct{})}
	var errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = seen, io.MultiWriter(&errOut, seen)
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		ts.Fatalf("it ended before %q: %v\n%s", args[0], err, seen)
	case <-seen.found:
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	err = <-ended
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		ts.Fatalf("exit code %d (%v), want 130\n%s", code, err, seen)
	}
	_, err = io.WriteString(ts.Stderr(), errOut.String())
	ts.Check(err)
}

// scriptCommand prepares a command as exec would.
func scriptCommand(ctx context.Context, ts *testscript.TestScript, args []string) *exec.Cmd {
	env, ok := ts.Value(envKey{}).(*testscript.Env)
	if !ok {
		ts.Fatalf("no environment")
	}
	bin, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd := exec.CommandContext(ctx, bin, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, kv := range slices.Concat(env.Vars, []string{"LLM_URL=", "LLM_KEY=", "NO_COLOR="}) { // the names; the script may have set them since
		name, _, _ := strings.Cut(kv, "=")
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	return cmd
}

// watcher collects output and reports when it matches.
type watcher struct {
	re    *regexp.Regexp
	found chan struct{}

	mu   sync.Mutex
	buf  bytes.Buffer
	once sync.Once
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if w.re.Match(w.buf.Bytes()) {
		w.once.Do(func() { close(w.found) })
	}
	return len(p), nil
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 && len(args) != 3 {
		ts.Fatalf("usage: json FILE [PATH REGEXP]")
	}
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &v); err != nil {
		ts.Fatalf("%s is not JSON: %v", args[0], err)
	}
	if len(args) == 1 {
		return
	}
	for part := range strings.SplitSeq(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[part]; !ok {
				ts.Fatalf("%s: no %q", args[1], part)
			}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(x) {
				ts.Fatalf("%s: no element %q of %d", args[1], part, len(x))
			}
			v = x[i]
		default:
			ts.Fatalf("%s: nothing below %v", args[1], v)
		}
	}
	got, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		ts.Check(err)
		got = string(b)
	}
	re, err := regexp.Compile(args[2])
	ts.Check(err)
	if !re.MatchString(got) {
		ts.Fatalf("%s is %q, want a match of %q", args[1], got, args[2])
	}
}

func ndjson(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ndjson FILE")
	}
	var last struct {
		Kind string `json:"kind"`
	}
	n := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		n++
		last.Kind = ""
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			ts.Fatalf("line %d is not JSON: %v\n%s", n, err, line)
		}
	}
	if last.Kind != "final" {
		ts.Fatalf("the last of %d events is %q, want final", n, last.Kind)
	}
}

func perm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: perm FILE MODE")
	}
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	want, err := strconv.ParseUint(args[1], 8, 32)
	ts.Check(err)
	if got := info.Mode().Perm(); got != os.FileMode(want) {
		ts.Fatalf("%s has mode %o, want %o", args[0], got, want)
	}
}

func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines FILE N")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	if got := strings.Count(ts.ReadFile(args[0]), "\n"); got != want {
		ts.Fatalf("%s has %d lines, want %d", args[0], got, want)
	}
}

// fakes are the model servers of the scripts that run.
type fakes struct {
	t *testing.T

	mu      sync.Mutex
	running map[*testscript.Env]*fake
}

type fake struct {
	server  *llmtest.Server
	answers int
}

func (f *fakes) of(ts *testscript.TestScript) (*testscript.Env, *fake) {
	env, ok := ts.Value(envKey{}).(*testscript.Env)
	if !ok {
		ts.Fatalf("no environment")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return env, f.running[env]
}

// start runs a server for the script; a second call adds answers to it.
func (f *fakes) start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fakellm FILE")
	}
	answers, err := parseAnswers(ts.ReadFile(args[0]))
	ts.Check(err)
	env, have := f.of(ts)
	if have == nil {
		have = &fake{server: llmtest.NewServer(scriptTB{TB: f.t, script: ts.Name(), end: ts.Defer})}
		have.server.Models = []string{"house-model", "other-model"}
		f.mu.Lock()
		f.running[env] = have
		f.mu.Unlock()
		ts.Setenv("LLM_URL", have.server.URL)
		ts.Setenv("LLM_KEY", llmtest.Key)
		ts.Defer(func() {
			if got := len(have.server.Requests()); got < have.answers && !f.t.Failed() {
				f.t.Errorf("%s: the model was asked %d times, want %d", ts.Name(), got, have.answers)
			}
		})
	}
	have.answers += len(answers)
	have.server.Add(answers...)
}

func (f *fakes) requests(ts *testscript.TestScript, neg bool, args []string) {
	_, have := f.of(ts)
	if neg || len(args) != 1 || have == nil {
		ts.Fatalf("usage: requests FILE, after fakellm")
	}
	var out bytes.Buffer
	for _, r := range have.server.Requests() {
		ts.Check(json.Compact(&out, r.Body))
		out.WriteByte('\n')
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o600))
}

// scriptTB names the script in errors and ends the server with it.
type scriptTB struct {
	testing.TB
	script string
	end    func(func())
}

func (s scriptTB) Helper()          {}
func (s scriptTB) Cleanup(f func()) { s.end(f) }
func (s scriptTB) Errorf(format string, args ...any) {
	s.TB.Errorf("%s: %s", s.script, fmt.Sprintf(format, args...))
}

// parseAnswers reads what a fake model answers. Answers are separated by empty
// lines and made of lines:
//
//	think TEXT
//	say TEXT              streamed in pieces; several lines make several lines
//	call NAME {json}      a tool call
//	cut                   the stream ends here without a finish reason
//	hang                  the stream stays open until the client leaves
//	error STATUS TEXT     instead of all that: an error of the API, not to be retried
//	retry STATUS TEXT     the same, and the client may try again
func parseAnswers(script string) ([]llmtest.Answer, error) {
	var out []llmtest.Answer
	for part := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		a := llmtest.Answer{Reply: &llmtest.StreamReply{}}
		for line := range strings.SplitSeq(strings.TrimSpace(part), "\n") {
			if err := parseAnswer(&a, line); err != nil {
				return nil, err
			}
		}
		out = append(out, a)
	}
	return out, nil
}

func parseAnswer(a *llmtest.Answer, line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "think":
		a.Reply.Think = append(a.Reply.Think, rest)
	case "say":
		if len(a.Reply.Text) > 0 {
			a.Reply.Text = append(a.Reply.Text, "\n")
		}
		half := len([]rune(rest)) / 2
		a.Reply.Text = append(a.Reply.Text, string([]rune(rest)[:half]), string([]rune(rest)[half:]))
	case "call":
		name, arguments, _ := strings.Cut(rest, " ")
		id := fmt.Sprintf("call_%s_%d", name, len(a.Reply.Calls))
		a.Reply.Calls = append(a.Reply.Calls, llmtest.StreamCall{ID: id, Name: name, Args: []string{arguments}})
	case "cut":
		a.Reply.Cut = true
	case "hang":
		a.Reply.Hold = make(chan struct{})
	case "error", "retry":
		code, text, _ := strings.Cut(rest, " ")
		status, err := strconv.Atoi(code)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		body, err := json.Marshal(map[string]any{"error": map[string]string{"message": text}})
		if err != nil {
			return err
		}
		*a = llmtest.Answer{Status: status, Body: string(body), Header: map[string][]string{}}
		if verb == "error" {
			a.Header.Set("X-Should-Retry", "false")
		}
	default:
		return fmt.Errorf("%q is no line of a fake model", line)
	}
	return nil
}
