package agent_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

const failureEnv = "NANOBOT_FAILURE_TEST"

// How many turns fail in TestServeFailureKilled: of people, and of jobs.
const failingChats, failingJobs = 12, 6

// TestServeFailureChild is not a test but the process that TestServeFailureKilled
// kills. In the first round it stops when a turn that failed is in the session,
// before its message is completed.
func TestServeFailureChild(t *testing.T) {
	round, dir, ok := strings.Cut(os.Getenv(failureEnv), "|")
	if !ok {
		t.Skip("only runs as a process to be killed")
	}
	model := llmtest.NewScript(t)
	model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Fail(&llm.Error{Kind: llm.Auth, Provider: "acme"}) }
	h := newHouse(t, model)
	h.dir, h.ws = filepath.Join(dir, "data"), filepath.Join(dir, "ws")
	h.opts.Workspace = h.ws
	h.opts.Schedule.Outcome = func(_ context.Context, in bus.Inbound, out bus.Outbound) (bus.Outbound, bool) {
		fmt.Fprintf(os.Stdout, "job %s failed=%v\n", in.ID, out.Turn.Error != "")
		return out, false
	}
	if round == "first" {
		h.opts.Events.Runtime = append(h.opts.Events.Runtime, func(ev turn.RuntimeEvent) {
			if ev.Kind == turn.TurnPersisted {
				fmt.Fprintln(os.Stdout, "stored")
				select {} // until the end of the process
			}
		})
	}
	h.start()
	q, err := journal.Open(disk.Open(filepath.Join(dir, "bus"), nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	go func() {
		for d := range q.Outgoing(ctx, "test") {
			if d.Kind == bus.Final {
				fmt.Fprintf(os.Stdout, "told %s failed=%v %s\n", d.ID, d.Turn.Error != "", strings.ReplaceAll(d.Text, "\n", " "))
				_ = q.Delivered(ctx, d.ID)
			}
		}
	}()
	if round == "first" {
		for i := range failingChats + failingJobs {
			msg := in(fmt.Sprint(i), "hi")
			msg.ID, msg.WantsStream = fmt.Sprint("m", i), i%2 == 0
			if i >= failingChats {
				msg.ID, msg.Event, msg.SenderID, msg.SessionKey, msg.OwnTurn = fmt.Sprint("cron:j:", i), "cron", "cron", fmt.Sprint("cron:", i), true
			}
			if err := q.Submit(ctx, msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := h.agent.Serve(ctx, q); err != nil {
		t.Fatal(err)
	}
}

// The process is killed between a turn that failed and the completion of its
// message. The next one tells people the reason, and jobs count as failed.
func TestServeFailureKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "ws"), 0o700); err != nil {
		t.Fatal(err)
	}
	failureLines(t, "first|"+dir, "stored")
	people, jobs := 0, 0
	for _, line := range failureLines(t, "second|"+dir, "told", "job") {
		failed := strings.Contains(line, "failed=true")
		switch {
		case strings.HasPrefix(line, "job ") && failed:
			jobs++
		case strings.HasPrefix(line, "told ") && failed && strings.Contains(line, "acme rejected the API key"):
			people++
		default:
			t.Errorf("got %q", line)
		}
	}
	if people != failingChats || jobs != failingJobs {
		t.Errorf("%d of %d people were told the reason, %d of %d jobs failed", people, failingChats, jobs, failingJobs)
	}
}

// failureLines runs the process until each message has a line that begins with one
// of the words, then kills it and returns these lines.
func failureLines(t *testing.T, env string, words ...string) (lines []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServeFailureChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), failureEnv+"="+env)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	for len(lines) < failingChats+failingJobs && sc.Scan() {
		for _, w := range words {
			if strings.HasPrefix(sc.Text(), w) {
				lines = append(lines, sc.Text())
			}
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return lines
}
