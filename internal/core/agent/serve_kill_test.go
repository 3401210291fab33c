package agent_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const serveEnv = "NANOBOT_SERVE_TEST"

// TestServeChild is not a test but the process that TestServeKilled kills.
func TestServeChild(t *testing.T) {
	round, dir, ok := strings.Cut(os.Getenv(serveEnv), "|")
	if !ok {
		t.Skip("only runs as a process to be killed")
	}
	echo := textTool("echo", tool.Tool{}, func(_ context.Context, _ tool.Call, s string) (tool.Result, error) { return tool.Text(s), nil })
	model := llmtest.NewScript(t)
	model.Otherwise = func(req llm.Request) llmtest.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.User {
			return llmtest.Call("echo", textIn{Text: "x"})
		}
		return llmtest.Reply("done")
	}
	h := newHouse(t, model, echo)
	h.dir, h.ws = filepath.Join(dir, "data"), filepath.Join(dir, "ws")
	h.opts.Workspace = h.ws
	h.start()
	q, err := journal.Open(disk.Open(filepath.Join(dir, "bus"), nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for chat := range 3 {
		go func() {
			for i := 0; round != "last" && i < 20; i++ {
				msg := in(fmt.Sprint(chat), "hi")
				msg.ID, msg.OwnTurn, msg.WantsStream = fmt.Sprintf("%s-%d-%03d", round, chat, i), true, i%2 == 0
				if q.Submit(ctx, msg) == nil {
					fmt.Fprintln(os.Stdout, "accepted", msg.ID)
				}
			}
			fmt.Fprintln(os.Stdout, "left", q.Status().Inbound)
		}()
	}
	go func() {
		for d := range q.Outgoing(ctx, "test") {
			if d.Kind == bus.Final {
				fmt.Fprintln(os.Stdout, "answered", strings.TrimPrefix(d.ID, "final:"), d.Text)
				_ = q.Delivered(ctx, d.ID)
			}
			if s := q.Status(); round == "last" && s.Inbound == 0 && s.Outbound["test"] == 0 {
				fmt.Fprintln(os.Stdout, "left", 0)
			}
		}
	}()
	if err := h.agent.Serve(ctx, q); err != nil {
		t.Fatal(err)
	}
}

// The program is killed again and again in the middle of turns. Each message
// that was accepted is answered, in the order of its chat, and hardly any twice.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	const rounds = 6
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "ws"), 0o700); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	accepted, answered, last := map[string]bool{}, map[string]int{}, map[string]string{}
	for round := range rounds + 1 {
		name, lines := fmt.Sprint(round), 10+rng.IntN(60)
		if round == rounds {
			name, lines = "last", -1
		}
		for words := range childLines(t, name+"|"+dir, lines) {
			switch words[0] {
			case "accepted":
				accepted[words[1]] = true
			case "answered":
				id, chat := words[1], strings.Split(words[1], "-")[1]
				if answered[id]++; answered[id] == 1 {
					if id < last[chat] {
						t.Errorf("chat %s: %s was answered after %s", chat, id, last[chat])
					}
					last[chat] = id
				}
				if words[2] != "done" {
					t.Errorf("%s was answered with %q", id, words[2:])
				}
			}
		}
	}
	twice := 0
	for id := range accepted {
		if answered[id] == 0 {
			t.Errorf("%s was never answered", id)
		}
		twice += max(0, answered[id]-1)
	}
	t.Logf("%d accepted, %d answered, %d twice, %d kills", len(accepted), len(answered), twice, rounds)
	if twice > 2*rounds || len(accepted) < 20 {
		t.Errorf("%d of %d messages were answered twice", twice, len(accepted))
	}
}

// childLines yields what a process says until it is killed after so many
// lines, or, if lines is negative, has nothing left to do.
func childLines(t *testing.T, env string, lines int) func(func([]string) bool) {
	t.Helper()
	return func(yield func([]string) bool) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServeChild$", "-test.count=1")
		cmd.Env = append(os.Environ(), serveEnv+"="+env)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(out)
		for n := 0; sc.Scan(); n++ {
			words := append(strings.Fields(sc.Text()), "", "")
			if n == lines || (lines < 0 && words[0] == "left" && words[1] == "0") {
				_ = cmd.Process.Kill()
			}
			yield(words)
		}
		_ = cmd.Wait() // it was killed
	}
}
