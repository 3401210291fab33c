package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/test/program"
)

// buildBinary compiles the real program once per test run.
var buildBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nanobot-bin-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "nanobot")
	return bin, program.Build(context.Background(), nil, bin, "./cmd/nanobot")
})

// worker is a model server that makes every task a chain of tool calls with a
// visible effect each. It judges every prompt and can ask for a kill at a
// chosen moment.
type worker struct {
	t  *testing.T
	mu sync.Mutex
	// seen is what the server was shown: user texts and tool results by call id.
	users   map[string]bool
	results map[string]string
	onCall  func(n int) // called with the number of the request of this process
	calls   int
}

const stepsPerTask = 4

func (w *worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages []llm.Message `json:"messages"`
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client was killed while sending
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		w.t.Errorf("request is not JSON: %v", err)
		return
	}
	msgs := body.Messages[1:] // the system prompt
	if err := llmtest.CheckLegal(llm.Request{Messages: msgs}); err != nil {
		w.t.Errorf("illegal prompt: %v", err)
	}
	w.mu.Lock()
	w.calls++
	n, hook := w.calls, w.onCall
	task, done := "", 0
	for _, m := range msgs {
		switch m.Role {
		case llm.User:
			for part := range strings.SplitSeq(m.Content.String(), "\n") {
				if strings.HasPrefix(part, "task ") {
					w.users[part] = true
					task, done = strings.TrimPrefix(part, "task "), 0
				}
			}
		case llm.ToolRole:
			w.results[m.ToolCallID] = m.Content.String()
			done++
		}
	}
	w.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	send := func(v string) { fmt.Fprintf(rw, "data: %s\n\n", v); rw.(http.Flusher).Flush() }
	if done >= stepsPerTask {
		send(`{"choices":[{"index":0,"delta":{"content":"finished ` + task + `"},"finish_reason":null}]}`)
		send(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2}}`)
	} else {
		args, _ := json.Marshal(map[string]string{"command": fmt.Sprintf("echo %s-%d >> effects.txt", task, done)})
		call, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{"tool_calls": []any{
			map[string]any{"index": 0, "id": fmt.Sprintf("c_%s_%d_%d", task, done, n), "type": "function", "function": map[string]any{"name": "exec", "arguments": string(args)}},
		}}}}})
		send(string(call))
		send(`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)
	}
	send("[DONE]")
}

// TestKill kills the real binary at random points of a turn with several tools
// and checks that nothing is lost, nothing is doubled and the next prompt is
// legal. NANOBOT_CRASH_KILLS sets the number of kills (default 25).
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	kills := 25
	if v, err := strconv.Atoi(os.Getenv("NANOBOT_CRASH_KILLS")); err == nil {
		kills = v
	}
	bin, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, users: map[string]bool{}, results: map[string]string{}}
	srv := httptest.NewServer(w)
	defer srv.Close()
	home, ws := t.TempDir(), t.TempDir()
	cfg := filepath.Join(home, "config.json")
	conf := fmt.Sprintf(`{"agents":{"defaults":{"model":"custom/m","provider":"custom"}},"providers":{"custom":{"apiBase":%q,"apiKey":"test-key"}},"tools":{"restrictToWorkspace":true}}`, srv.URL+"/v1")
	if err := os.WriteFile(cfg, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(ctx context.Context, task string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, bin, "agent", "-c", cfg, "-w", ws, "-m", "task "+task)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		return cmd
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	killed := 0
	for i := 0; killed < kills; i++ {
		if i > kills*4 {
			t.Fatalf("only %d of %d kills hit a running process", killed, kills)
		}
		if killAt(t, w, rng, command(t.Context(), fmt.Sprint("k", i))) {
			killed++
		}
		check(t, w, home, ws, false)
		if i%5 == 4 { // the session must still be usable
			out, err := command(t.Context(), fmt.Sprint("ok", i)).CombinedOutput()
			if err != nil || !strings.Contains(string(out), fmt.Sprint("finished ok", i)) {
				t.Fatalf("run after kills: %v\n%s", err, out)
			}
			check(t, w, home, ws, true)
		}
	}
	out, err := command(t.Context(), "last").CombinedOutput()
	if err != nil {
		t.Fatalf("last run: %v\n%s", err, out)
	}
	check(t, w, home, ws, true)
}

// killAt starts the program and kills it at a random moment: at once, while a
// request is being answered, or a little after one. It reports whether the
// process was still running.
func killAt(t *testing.T, w *worker, rng *rand.Rand, cmd *exec.Cmd) bool {
	t.Helper()
	at := rng.IntN(stepsPerTask + 2) // which request; 0 is before any
	lag := time.Duration(rng.IntN(3000)) * time.Microsecond
	fire := make(chan struct{})
	var once sync.Once
	w.mu.Lock()
	w.calls = 0
	w.onCall = func(n int) {
		if n == at {
			once.Do(func() { close(fire) })
		}
	}
	w.mu.Unlock()
	if at == 0 {
		close(fire)
		lag *= 3
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	select {
	case <-exited:
		return false
	case <-fire:
	}
	timer := time.NewTimer(lag)
	defer timer.Stop()
	select {
	case <-exited:
		return false
	case <-timer.C:
	}
	err := cmd.Process.Kill()
	<-exited
	if errors.Is(err, os.ErrProcessDone) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return !cmd.ProcessState.Exited()
}

// check reads the session as a new process would and compares it with what the
// server was shown and what happened in the workspace.
func check(t *testing.T, w *worker, home, ws string, closed bool) {
	t.Helper()
	store, err := session.Open(session.Options{DataDir: home, Store: disk.Open(home, nil), Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	var recs []session.Record
	for r, err := range store.Records(t.Context(), "cli:direct") {
		if errors.Is(err, session.ErrNotFound) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	users, results := map[string]int{}, map[string]int{}
	for _, r := range recs {
		line, _, _ := strings.Cut(r.Content.String(), "\n")
		switch {
		case r.Mark(): // each interrupted turn has one
		case r.Role == llm.User:
			users[line]++
		case r.Role == llm.ToolRole:
			results[r.ToolCallID]++
		}
	}
	for u, n := range users {
		if n != 1 {
			t.Errorf("%q is stored %d times", u, n)
		}
	}
	for u := range w.users {
		if users[u] != 1 {
			t.Errorf("%q was sent to the model but is stored %d times", u, users[u])
		}
	}
	for id := range w.results {
		if results[id] != 1 {
			t.Errorf("result of %s was shown to the model but is stored %d times", id, results[id])
		}
	}
	effects, err := os.ReadFile(filepath.Join(ws, "effects.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.FieldsSeq(string(effects)) {
		if seen[line] {
			t.Errorf("effect %s happened twice", line)
		}
		seen[line] = true
	}
	if closed {
		if err := session.CheckLegal(recs); err != nil {
			t.Errorf("the stored session is not legal: %v", err)
		}
	}
}
