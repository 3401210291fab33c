package agent_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
	filetools "github.com/nanobot-go/nanobot/internal/tool/files"
)

// bubble runs a test in a house with a memory and clocks of its own.
func bubble(t *testing.T, f func(t *testing.T, h *house, hist *memory.History)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, summing(t))
		hist := h.remember()
		f(t, h, hist)
		h.stop()
	})
}

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func memoryCalls(h *house) (n int) {
	for _, r := range h.model.Requests() {
		if r.Source == memory.Source {
			n++
		}
	}
	return n
}

func TestSilenceIsTakenIn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		h.opts.Memory.IdleCompact = 15 * time.Minute
		h.start()
		for range 6 {
			h.ask(in("1", "FACT-1"))
		}
		wait(14 * time.Minute)
		if n := memoryCalls(h); n != 0 {
			t.Fatalf("%d summaries before it was silent for long", n)
		}
		wait(2 * time.Minute)
		es := entries(t, hist)
		if len(es) != 1 || es[0].Content != "- FACT-1" || es[0].Session != "test:1" || memoryCalls(h) != 1 {
			t.Fatalf("entries = %+v", es)
		}
		wait(24 * time.Hour)
		if n := memoryCalls(h); n != 1 {
			t.Errorf("%d summaries of the same silence", n)
		}
		h.ask(in("1", "back again"))
		req := h.model.Last()
		if len(req.Messages) != 9 || !strings.Contains(req.System, "Earlier in This Conversation") || strings.Count(req.System, "FACT-1") != 1 {
			t.Errorf("%d messages, prompt:\n%s", len(req.Messages), req.System)
		}
		if n := len(h.log("test:1")); n != 14 {
			t.Errorf("the log has %d messages", n)
		}
	})
}

// A conversation that was silent for too short a time when nanobot ended is
// taken in after the next start, once, and jobs never are.
func TestSilenceOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		h.opts.Memory.IdleCompact, h.opts.Memory.IdleCheck = 15*time.Minute, time.Minute
		h.start()
		for range 6 {
			h.ask(in("1", "FACT-1"))
			h.ask(in("2", "FACT-2"))
			job := in("3", "FACT-3")
			job.SessionKey = "cron:3"
			h.ask(job)
		}
		h.stop()
		if n := memoryCalls(h); n != 0 {
			t.Fatalf("%d summaries before the end", n)
		}
		h.start()
		wait(14 * time.Minute)
		if n := memoryCalls(h); n != 0 {
			t.Errorf("%d summaries before the silence was long enough", n)
		}
		wait(time.Minute + 30*time.Second)
		if n := memoryCalls(h); n != 1 {
			t.Errorf("%d summaries, want one and then a pause", n)
		}
		wait(time.Hour)
		got := map[string]string{}
		for _, e := range entries(t, hist) {
			got[e.Session] += e.Content
		}
		if len(got) != 2 || got["test:1"] != "- FACT-1" || got["test:2"] != "- FACT-2" {
			t.Errorf("entries = %v", got)
		}
		h.stop()
		h.start()
		wait(24 * time.Hour)
		if n := memoryCalls(h); n != 2 {
			t.Errorf("%d summaries after another start, want those of before", n)
		}
	})
}

// S4: a message that arrives while the silence is summarised is answered at
// once and kept; the summary is made later. A session never has two calls.
func TestMessageDuringSummary(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		h.opts.Memory.IdleCompact = 15 * time.Minute
		good := h.model.Otherwise
		var slow atomic.Bool
		slow.Store(true)
		var busy atomic.Int32
		h.model.Otherwise = func(req llm.Request) llmtest.Step {
			if req.Source == memory.Source && slow.Load() {
				busy.Add(1)
				return llmtest.Block(make(chan struct{}))
			}
			return good(req)
		}
		alone := &oneAtATime{t: t, Model: h.model}
		h.opts.Models.Runtime = func(context.Context, string) (turn.Runtime, error) {
			return turn.Runtime{Model: alone, Name: "m", MaxTokens: 1000, Window: 100000}, nil
		}
		h.start()
		h.ask(in("1", "FACT-1"))
		wait(16 * time.Minute)
		if busy.Load() != 1 {
			t.Fatal("the summary did not begin")
		}
		began := time.Now()
		if got := h.ask(in("1", "FACT-2")); got != "ok" || time.Since(began) > time.Second {
			t.Errorf("answer %q after %v", got, time.Since(began))
		}
		slow.Store(false)
		wait(20 * time.Minute)
		var all strings.Builder
		for _, e := range entries(t, hist) {
			all.WriteString(e.Content + "\n")
		}
		if strings.Count(all.String(), "FACT-1") != 1 || strings.Count(all.String(), "FACT-2") != 1 {
			t.Errorf("remembered:\n%s", all.String())
		}
		if got := brief(h.log("test:1")); got != "u:FACT-1 | a:ok | u:FACT-2 | a:ok" {
			t.Errorf("log: %s", got)
		}
	})
}

// oneAtATime complains about two calls of a model at once.
type oneAtATime struct {
	llm.Model
	t    *testing.T
	busy atomic.Int32
}

func (m *oneAtATime) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if m.busy.Add(1) > 1 {
			m.t.Errorf("a request of %q beside another one", req.Source)
		}
		defer m.busy.Add(-1)
		for ev, err := range m.Model.Stream(ctx, req) {
			if !yield(ev, err) {
				return
			}
		}
	}
}

// A turn waits no longer than twenty seconds for a summary.
func TestPreflightHasADeadline(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, _ *memory.History) {
		h.window(9000)
		good := h.model.Otherwise
		h.model.Otherwise = func(req llm.Request) llmtest.Step {
			if req.Source == memory.Source {
				return llmtest.Block(make(chan struct{}))
			}
			return good(req)
		}
		h.start()
		var longest time.Duration
		for range 40 {
			began := time.Now()
			h.ask(in("1", strings.Repeat("words and more ", 60)))
			longest = max(longest, time.Since(began))
		}
		if longest < 15*time.Second || longest > 25*time.Second {
			t.Errorf("the longest turn took %v", longest)
		}
	})
}

// Between turns a long conversation is looked after before anybody has to wait.
func TestLongConversationInBackground(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		h.window(9000)
		h.start()
		for i := range 60 {
			before := memoryCalls(h)
			h.ask(in("1", "FACT-"+string(rune('0'+i%10))+strings.Repeat(" words and more", 60)))
			if memoryCalls(h) != before {
				t.Fatalf("turn %d had to wait for a summary", i)
			}
			wait(5 * time.Second)
		}
		if n := len(entries(t, hist)); n < 2 || n > 12 {
			t.Errorf("%d entries", n)
		}
	})
}

// quietWait is longer than the rest a conversation needs.
const quietWait = 3 * time.Second

func TestNewIsTakenIn(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		h.start()
		h.ask(in("1", "FACT-1"))
		if got := h.ask(in("1", "/new")); !strings.HasPrefix(got, "New conversation") {
			t.Errorf("reply = %q", got)
		}
		wait(quietWait)
		if es := entries(t, hist); len(es) != 1 || es[0].Content != "- FACT-1" {
			t.Fatalf("entries = %+v", es)
		}
		h.ask(in("1", "hi"))
		if req := h.model.Last(); len(req.Messages) != 1 || !strings.Contains(req.System, "# Recent History") || !strings.Contains(req.System, "FACT-1") {
			t.Errorf("%d messages, prompt:\n%s", len(req.Messages), req.System)
		}
		h.ask(in("1", "/new"))
		h.ask(in("1", "/new")) // nothing to take in
		wait(time.Minute)
		if n := len(entries(t, hist)); n != 1 && n != 2 {
			t.Errorf("%d entries", n)
		}
	})
}

// The end of the program does not lose what /new put aside.
func TestNewThenRestart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		good := h.model.Otherwise
		var down atomic.Bool
		down.Store(true)
		h.model.Otherwise = func(req llm.Request) llmtest.Step {
			if req.Source == memory.Source && down.Load() {
				return llmtest.Block(make(chan struct{}))
			}
			return good(req)
		}
		h.start()
		h.ask(in("1", "FACT-1"))
		h.ask(in("1", "/new"))
		wait(time.Second)
		began := time.Now()
		h.stop()
		if d := time.Since(began); d > time.Second {
			t.Errorf("stopping took %v", d)
		}
		down.Store(false)
		h.start()
		wait(10 * time.Second)
		if es := entries(t, hist); len(es) != 1 || es[0].Content != "- FACT-1" {
			t.Errorf("entries = %+v", es)
		}
	})
}

// A conversation that was silent while the program did not run is taken in
// after its next turn.
func TestSilenceAcrossRestart(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		h.opts.Memory.IdleCompact = 15 * time.Minute
		h.start()
		for range 8 {
			h.ask(in("1", "FACT-1"))
		}
		h.stop()
		wait(24 * time.Hour)
		h.start()
		h.ask(in("1", "FACT-2"))
		wait(time.Minute)
		es := entries(t, hist)
		if len(es) != 1 || es[0].Content != "- FACT-1" {
			t.Fatalf("entries = %+v", es)
		}
		h.ask(in("1", "more"))
		if n := len(h.model.Last().Messages); n > 13 {
			t.Errorf("%d messages are still sent", n)
		}
	})
}

// A file that was read before the conversation was summarised is shown again:
// the model no longer has its content, whether or not the messages were let go
// in between. While the content is in the prompt, one line says so.
func TestSummarisedReadIsShownAgain(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(h *house){"kept in memory": func(*house) {}, "unloaded": func(h *house) { h.agent.DropCaches() }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T, h *house, _ *memory.History) {
				if err := os.WriteFile(filepath.Join(h.ws, "plan.txt"), []byte("the plan\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: h.ws, Restrict: true})
				if err != nil {
					t.Fatal(err)
				}
				if h.opts.Tools.Set, err = tool.NewSet(filetools.Tools(filetools.Options{Jail: jail})...); err != nil {
					t.Fatal(err)
				}
				other := h.model.Otherwise
				h.model.Otherwise = func(req llm.Request) llmtest.Step {
					switch {
					case req.Source == memory.Source:
						return other(req)
					case req.Messages[len(req.Messages)-1].Role == llm.ToolRole:
						return llmtest.Reply("It says: " + last(req))
					case strings.Contains(last(req), "read the plan"):
						return llmtest.Call("read_file", map[string]any{"path": "plan.txt"})
					}
					return other(req)
				}
				h.opts.Memory.IdleCompact = 15 * time.Minute
				h.start()
				read := func(want string) {
					t.Helper()
					if got := h.ask(in("1", "read the plan")); !strings.Contains(got, want) {
						t.Errorf("read_file answered %q, want %q", got, want)
					}
				}
				read("the plan\n")
				read("is unchanged")
				between(h)
				read("is unchanged")
				for range 6 {
					h.ask(in("1", "FACT-1"))
				}
				between(h)
				wait(16 * time.Minute)
				if memoryCalls(h) == 0 {
					t.Fatal("nothing was summarised")
				}
				read("the plan\n")
			})
		})
	}
}

// What waits for memory when a program ends is finished first, or left to the
// next one.
func TestMemoryIsFinishedAtTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		good := h.model.Otherwise
		var down atomic.Bool
		h.model.Otherwise = func(req llm.Request) llmtest.Step {
			if req.Source == memory.Source && down.Load() {
				return llmtest.Block(make(chan struct{}))
			}
			return good(req)
		}
		h.start()
		h.ask(in("1", "FACT-1"))
		began, told := time.Now(), 0
		if left := h.agent.FinishMemory(t.Context(), func(n int) { told = n }); left != 0 || told != 0 {
			t.Errorf("nothing waits: %d left, told %d", left, told)
		}
		h.ask(in("1", "/new"))
		if left := h.agent.FinishMemory(t.Context(), func(n int) { told = n }); left != 0 || told != 1 || time.Since(began) > time.Second {
			t.Errorf("%d left, told %d, after %v", left, told, time.Since(began))
		}
		if es := entries(t, hist); len(es) != 1 || es[0].Content != "- FACT-1" {
			t.Fatalf("entries = %+v", es)
		}

		down.Store(true)
		h.ask(in("1", "FACT-2"))
		h.ask(in("1", "/new"))
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if left := h.agent.FinishMemory(ctx, nil); left != 1 || time.Since(began) != 20*time.Second {
			t.Errorf("a model that does not answer: %d left, after %v", left, time.Since(began))
		}
	})
}

// A process that runs for long takes up within a minute what others beside it
// left: the end of a conversation, and one that fell silent.
func TestMemoryLeftByOthers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, h *house, hist *memory.History) {
		h.opts.Memory.IdleCompact = 15 * time.Minute
		gateway := *h
		gateway.start()
		defer gateway.stop()
		wait(3 * time.Hour)

		h.start() // a short-lived one beside it
		for range 6 {
			h.ask(in("1", "FACT-1"))
		}
		h.ask(in("2", "FACT-2"))
		h.ask(in("2", "/new"))
		h.stop()
		if n := len(entries(t, hist)); n != 0 {
			t.Fatalf("%d entries", n)
		}
		wait(time.Minute)
		if es := entries(t, hist); len(es) != 1 || es[0].Content != "- FACT-2" {
			t.Fatalf("after a minute: %+v", es)
		}
		wait(16 * time.Minute)
		if es := entries(t, hist); len(es) != 2 || es[1].Content != "- FACT-1" {
			t.Errorf("after the silence: %+v", es)
		}
		calls := memoryCalls(h)
		wait(48 * time.Hour)
		if n := memoryCalls(h); n != calls {
			t.Errorf("%d more calls for what was taken in", n-calls)
		}
	})
}
