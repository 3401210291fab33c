package bustest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
)

const childEnv = "NANOBOT_BUSTEST_CHILD"

// Numbers of the processes that are killed.
const (
	killChats = 6
	killLines = 60 // a process is killed after at most so many lines
)

// Child does the work of a process that will be killed. The implementation's
// tests have a test that calls only this; it skips itself otherwise.
func Child(t *testing.T, open Open) {
	t.Helper()
	ctx := t.Context()
	round, dir, ok := strings.Cut(os.Getenv(childEnv), "|")
	if !ok {
		t.Skip("only runs as a process to be killed")
	}

	q, _ := open(t, dir)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) }
	for chat := range killChats {
		go func() {
			for i := 0; ; i++ {
				in := inbound(fmt.Sprint(chat), fmt.Sprintf("%s-%d-%d", round, chat, i))
				if q.Submit(ctx, in) != nil {
					return
				}
				say("accepted %s", in.ID)
			}
		}()
	}

	go func() {
		for d, err := range q.Outgoing(ctx, "c") {
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			say("delivered %s", d.ID)
			_ = q.Delivered(ctx, d.ID)
		}
	}()
	for {
		in, err := q.Receive(ctx)
		if err != nil {
			t.Fatalf("receive: %v", err)
		}

		to := shownFor(in.Route.ChatID, in.ID)
		if err := q.Shown(ctx, to, []string{"m" + in.ID}); err != nil {
			t.Fatalf("shown: %v", err)
		}

		say("shown %s", in.ID)
		answer := bus.Outbound{ID: in.ID, Kind: bus.Final, Route: in.Route, Text: in.Text}
		if forgotten(in.ID) {
			answer.Route = to
		}
		if err := q.Complete(ctx, in.ID, answer); err != nil {
			t.Fatalf("complete: %v", err)
		}
	}
}

func shownFor(chat, id string) bus.Route {
	return bus.Route{Channel: "c", ChatID: chat, MessageID: id}
}

// forgotten says whether the answer to a message makes the queue forget what
// shows it; for the others none ever does.
func forgotten(id string) bool { return strings.HasSuffix(id, "1") || strings.HasSuffix(id, "3") }

// RunKill kills processes that use a queue, again and again, and looks that
// every message one of them was told is safe got its answer, that the order of
// each chat held, that what they said is shown is remembered until it is of no
// use, and that hardly anything came twice. childTest is the name of
// the test that calls Child.
func RunKill(t *testing.T, open Open, childTest string, rounds int) {
	t.Helper()
	dir := t.TempDir()
	w := &witness{accepted: map[string]bool{}, shown: map[string]bool{}, delivered: map[string]int{}, last: map[string]mark{}}
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers in every run
	for round := range rounds {
		env := fmt.Sprintf("%s=%d|%s", childEnv, round, dir)
		storetest.RunChild(t, childTest, env, 1+rng.IntN(killLines), func(line string) { w.record(t, line) })
		if t.Failed() {
			return
		}
	}

	q, shut := open(t, dir)
	defer shut()
	w.drain(t, q)

	for id := range w.accepted {
		if w.delivered[id] == 0 {
			t.Errorf("%s was accepted and never answered", id)
		}
	}

	for id := range w.shown {
		ids, err := q.Showing(t.Context(), shownFor(strings.Split(id, "-")[1], id))
		if kept := len(ids) == 1 && ids[0] == "m"+id; err != nil || kept == forgotten(id) {
			t.Errorf("%s is shown by %q, %v; to be forgotten: %v", id, ids, err, forgotten(id))
		}
	}

	twice := 0
	for _, n := range w.delivered {
		twice += n - 1
	}

	t.Logf("%d accepted, %d shown, %d answered, %d answered twice, in %d processes", len(w.accepted), len(w.shown), len(w.delivered), twice, rounds)
	if twice > rounds*2 {
		t.Errorf("%d answers came twice, want at most two for each of %d kills", twice, rounds)
	}
}

type mark struct{ round, n int }

// witness writes down what the processes say.
type witness struct {
	accepted  map[string]bool
	shown     map[string]bool
	delivered map[string]int
	last      map[string]mark // by chat
}

func (w *witness) record(t *testing.T, line string) {
	t.Helper()
	what, id, _ := strings.Cut(line, " ")
	switch what {
	case "accepted":
		w.accepted[id] = true
	case "shown":
		w.shown[id] = true
	case "delivered":
		w.answered(t, id)
	default:
		t.Errorf("the process said %q", line)
	}
}

func (w *witness) answered(t *testing.T, id string) {
	t.Helper()
	w.delivered[id]++
	if w.delivered[id] > 1 {
		return
	}

	f := strings.Split(id, "-")
	round, _ := strconv.Atoi(f[0])
	n, _ := strconv.Atoi(f[2])
	before, now := w.last[f[1]], mark{round, n}
	if now.round < before.round || (now.round == before.round && now.n < before.n) {
		t.Errorf("chat %s: answer %v came after %v", f[1], now, before)
	}
	w.last[f[1]] = now
}

// drain does all that is left.
func (w *witness) drain(t *testing.T, q bus.Queue) {
	t.Helper()
	end := inbound("end", "end")
	must(t, q.Submit(t.Context(), end))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := q.Receive(t.Context())
			if err != nil {
				t.Error(err)
				return
			}

			answer := bus.Outbound{ID: in.ID, Kind: bus.Final, Route: in.Route}
			if forgotten(in.ID) {
				answer.Route = shownFor(in.Route.ChatID, in.ID)
			}
			if err := q.Complete(t.Context(), in.ID, answer); err != nil {
				t.Error(err)
			}

			if in.ID == end.ID {
				return
			}
		}
	})

	for d, err := range q.Outgoing(t.Context(), "c") {
		must(t, err)
		if d.ID == end.ID {
			break
		}
		w.answered(t, d.ID)
		must(t, q.Delivered(t.Context(), d.ID))
	}

	wg.Wait()
}
