package agent_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// randomModel answers like a capricious model: text, tools, nothing, cut-off
// answers, errors. It depends on nothing but its own dice.
func randomModel(t *testing.T, seed uint64) *llmtest.Script {
	t.Helper()
	m := llmtest.NewScript(t)
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 7))
	m.Otherwise = func(req llm.Request) llmtest.Step {
		mu.Lock()
		defer mu.Unlock()
		if len(req.Tools) == 0 {
			return llmtest.Reply("summing up")
		}
		switch r.IntN(12) {
		case 0:
			return llmtest.Reply("")
		case 1:
			return llmtest.Length("cut ")
		case 2:
			return llmtest.Fail(&llm.Error{Kind: llm.ServerError, Message: "oops"})
		case 3:
			return llmtest.Call("say", `{"text":"cut o`).Finished(llm.FinishLength)
		case 4:
			return llmtest.Call("", "{}")
		case 5, 6, 7:
			s := llmtest.Call("say", fmt.Sprintf(`{"text":"%d"}`, r.IntN(1000)))
			for range r.IntN(3) {
				s = s.Call("look", fmt.Sprintf(`{"text":"%d"}`, r.IntN(1000)))
			}
			return s
		default:
			return llmtest.Think("hm", fmt.Sprint("answer ", r.IntN(1000)))
		}
	}
	return m
}

// Invariants 1, 2, 4, 8, 9 and 12 over random lives: users who write at any
// time, stop, start anew and restart the program.
func TestRandomLife(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			live(t, seed)
		})
	}
}

type outcome struct {
	text    string
	finals  int
	notices int
	stopped bool
}

func live(t *testing.T, seed uint64) { //nolint:thelper // the test itself
	say := textTool("say", tool.Tool{}, func(_ context.Context, _ tool.Call, s string) (tool.Result, error) {
		return tool.Text("said " + s), nil
	})
	look := textTool("look", tool.Tool{ReadOnly: true}, func(_ context.Context, _ tool.Call, s string) (tool.Result, error) {
		if strings.HasSuffix(s, "7") {
			return tool.Fail(tool.NotFound, "nothing at %s", s), nil
		}
		return tool.Text("saw " + s), nil
	})
	h := newHouse(t, randomModel(t, seed), say, look)
	h.opts.Turns.Limits.Iterations = 12
	h.start()
	r := rand.New(rand.NewPCG(seed, 3))
	var mu sync.Mutex
	var outcomes []outcome
	var wg sync.WaitGroup
	send := func(text string) {
		msg := in("1", text)
		msg.ID = "id " + text
		accepted := make(chan struct{})
		wg.Go(func() {
			o := outcome{text: text}
			close(accepted)
			for out, err := range h.agent.Ask(t.Context(), msg) {
				switch {
				case errors.Is(err, turn.ErrStopped):
					o.stopped = true
				case err != nil:
					t.Errorf("%s: %v", text, err)
				case out.Kind == bus.Final:
					o.finals++
				case out.Kind == bus.Notice:
					o.notices++
				}
			}
			mu.Lock()
			outcomes = append(outcomes, o)
			mu.Unlock()
		})
		<-accepted
	}
	for i := range 60 {
		switch n := r.IntN(20); {
		case n == 0:
			h.ask(in("1", "/stop"))
		case n == 1:
			h.ask(in("1", "/status"))
		case n == 2:
			wg.Wait()
			h.stop()
			h.start()
		case n < 7:
			wg.Wait()
			send(fmt.Sprint("message ", i))
		default:
			send(fmt.Sprint("message ", i))
		}
	}
	wg.Wait()
	checkLife(t, h, outcomes)
}

func checkLife(t *testing.T, h *house, outcomes []outcome) {
	t.Helper()
	recs := h.log("test:1")
	checkLog(t, recs)
	stored := map[string]int{}
	for _, rec := range recs {
		if rec.Role == llm.User {
			stored[rec.Display()]++
		}
	}
	for _, o := range outcomes {
		answers := o.finals + o.notices
		switch {
		case o.stopped && stored[o.text] > 1, !o.stopped && stored[o.text] != 1:
			t.Errorf("%s is stored %d times (stopped %v)", o.text, stored[o.text], o.stopped)
		case o.finals > 1, !o.stopped && answers == 0:
			t.Errorf("%s got %d finals and %d notices", o.text, o.finals, o.notices)
		}
	}
}

// A reply must not come twice and a stop must not hang, whatever the moment.
func TestStopAtRandomMoments(t *testing.T) {
	t.Parallel()
	h := newHouse(t, randomModel(t, 99), textTool("say", tool.Tool{}, func(ctx context.Context, _ tool.Call, s string) (tool.Result, error) {
		select {
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		case <-time.After(time.Millisecond):
			return tool.Text(s), nil
		}
	}), textTool("look", tool.Tool{ReadOnly: true}, func(context.Context, tool.Call, string) (tool.Result, error) { return tool.Text("x"), nil }))
	h.opts.Turns.Limits.Iterations = 10
	h.start()
	r := rand.New(rand.NewPCG(5, 5))
	for i := range 80 {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		limit := r.IntN(12)
		finals := 0
		for out, err := range h.agent.Ask(ctx, in("1", fmt.Sprint("m", i))) {
			if err != nil {
				break
			}
			if out.Kind == bus.Final {
				finals++
			}
			if n++; n == limit {
				cancel()
			}
		}
		cancel()
		if finals > 1 {
			t.Errorf("m%d: %d finals", i, finals)
		}
	}
	checkLog(t, h.log("test:1"))
}

// Whoever writes to a conversation that another process has is told so, and is
// answered when it is free.
func TestConversationInUse(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.NewScript(t, llmtest.Reply("at last"))).start()
	other, err := session.Open(session.Options{DataDir: h.dir, Store: disk.Open(h.dir, nil), Workspace: h.ws})
	if err != nil {
		t.Fatal(err)
	}
	held, err := other.Acquire(t.Context(), "test:1")
	if err != nil {
		t.Fatal(err)
	}
	told, final := "", ""
	for out, err := range h.agent.Ask(t.Context(), in("1", "hi")) {
		if err != nil {
			t.Fatal(err)
		}
		switch out.Kind {
		case bus.Notice:
			told = out.Text
			if !out.Brief {
				t.Error("the notice stays although it holds only for now")
			}
			if err := held.Release(); err != nil {
				t.Fatal(err)
			}
		case bus.Final:
			final = out.Text
		}
	}
	if !strings.Contains(told, "in use by") || final != "at last" {
		t.Errorf("told %q, answered %q", told, final)
	}
}
