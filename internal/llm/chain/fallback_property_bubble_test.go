package chain_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/chain"
)

// oracle predicts which links a request visits, from the table of verdicts and
// a plain reading of the rules. It shares no code with the chain.
type oracle struct {
	windows []int
	turn    map[string]int
}

// move is what a link does when it is asked.
type move struct {
	step
	next  bool // another link is asked, going by the table
	kind  llm.Kind
	limit int
}

// visit returns the letters of the links asked, the events seen, and whether
// there was an answer.
func (o *oracle) visit(turn string, moves []move) (asked, events string, ok bool) {
	n := len(moves)
	need := 0     // the window that was too small
	void := false // something shown must be taken back before the next link speaks
	for k := range n {
		i := (o.turn[turn] + k) % n
		m := moves[i]
		if need > 0 && o.windows[i] <= need {
			continue
		}
		if void {
			events += "R"
		}
		asked += string(rune('A' + i))
		if m.thought != "" {
			events += "t"
		}
		if m.text != "" {
			events += "T"
		}
		if m.err == nil {
			if i == 0 {
				delete(o.turn, turn)
			} else {
				o.turn[turn] = i
				events += "W"
			}
			return asked, events + "D", true
		}
		void = m.text != "" || m.thought != ""
		switch {
		case m.kind == llm.ContextLength && !void:
			size := o.windows[i]
			if m.limit > 0 {
				size = m.limit
			}
			if size == 0 && need == 0 {
				return asked, events, false
			}
			need = max(need, size)
		case !m.next:
			return asked, events, false
		case m.text != "" && m.kind != llm.Timeout && m.kind != llm.StreamTruncated:
			return asked, events, false
		}
	}
	return asked, events, false
}

func randomMove(rnd *rand.Rand) move {
	var m move
	if rnd.IntN(3) == 0 {
		return m // an answer
	}
	if rnd.IntN(6) == 0 {
		m.thought = "hm"
	}
	if rnd.IntN(5) == 0 {
		m.text = "he"
	}
	v := verdicts()[rnd.IntN(len(verdicts()))]
	e := *v.err
	if e.Kind == llm.ContextLength && rnd.IntN(2) == 0 {
		e.ContextLimit = 1000 * (1 + rnd.IntN(4))
	}
	m.err, m.next, m.kind, m.limit = &e, v.next, e.Kind, e.ContextLimit
	return m
}

// Over random scripts the attempts are those of the table, each link at most
// once per request, and the stream keeps the contract of Model.
func TestFallbackProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(120) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		n := 1 + rnd.IntN(4)
		models := make([]*scripted, n)
		o := oracle{turn: map[string]int{}}
		for i := range models {
			models[i] = &scripted{}
			o.windows = append(o.windows, 1000*rnd.IntN(5))
		}
		links := links(models...)
		for i := range links {
			links[i].Window = o.windows[i]
		}
		m := chain.Fallback(links, chain.FallbackOptions{})
		for r := range 12 {
			moves := make([]move, n)
			var before []int
			for i := range moves {
				moves[i] = randomMove(rnd)
				before = append(before, len(models[i].calls))
				models[i].steps = append(models[i].steps[:len(models[i].calls):len(models[i].calls)], moves[i].step)
			}
			turn := fmt.Sprint(r / 4)
			start := o.turn[turn]
			// A session of its own per request, so that every switch is told.
			asked, events, ok := o.visit(turn, moves)
			got, _, err := play(t.Context(), m, llm.Request{TurnID: turn, SessionKey: fmt.Sprint(r)})
			var count strings.Builder
			for k := range n {
				i := (start + k) % n
				for range len(models[i].calls) - before[i] {
					count.WriteString(links[i].Name)
				}
			}
			if count.String() != asked || got != events || (err == nil) != ok {
				t.Fatalf("seed %d, request %d: asked %s, events %s, error %v; want %s, %s, answer %v\nmoves %+v, windows %v",
					seed, r, count.String(), got, err, asked, events, ok, moves, o.windows)
			}
		}
	}
}

// The same with breakers: what a person gets does not depend on them beyond
// skipped links, no link is asked twice, and an error is final only when every
// link was asked or the table says so.
func TestFallbackPropertyWithBreakers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 13))
			n := 1 + rnd.IntN(3)
			set := chain.NewBreakers(chain.BreakersOptions{})
			models := make([]*scripted, n)
			for i := range models {
				models[i] = &scripted{}
			}
			links := links(models...)
			for i := range links {
				links[i].Breaker = set.At(links[i].Name)
			}
			m := chain.Fallback(links, chain.FallbackOptions{})
			for r := range 40 {
				time.Sleep(time.Duration(rnd.IntN(40)) * time.Second)
				down, before := make([]bool, n), make([]int, n)
				open := map[string]bool{}
				for _, p := range set.Paused(t.Context()) {
					open[p.ID] = true
				}
				answers := false
				for i := range models {
					before[i] = len(models[i].calls)
					down[i] = rnd.IntN(3) > 0
					st := step{}
					if down[i] {
						st.err = overloaded()
					}
					answers = answers || !down[i] && (!open[links[i].Name] || len(open) == n)
					models[i].steps = append(models[i].steps[:before[i]:before[i]], st)
				}
				_, _, err := play(t.Context(), m, llm.Request{TurnID: fmt.Sprint(r)})
				if (err == nil) != answers {
					t.Fatalf("seed %d, request %d: error %v, want an answer: %v (down %v, open %v)", seed, r, err, answers, down, open)
				}
				for i := range models {
					asked := len(models[i].calls) - before[i]
					if asked > 1 || asked == 1 && open[links[i].Name] && len(open) < n {
						t.Errorf("seed %d, request %d: link %s asked %d times, open %v", seed, r, links[i].Name, asked, open)
					}
				}
			}
		})
	}
}

func TestFallbackForgetsOldTurns(t *testing.T) {
	t.Parallel()
	a, b := &attempts{errs: []error{overloaded()}, forever: true}, fails()
	m := chain.Fallback([]chain.Link{{Name: "A", Model: a}, {Name: "B", Model: b}}, chain.FallbackOptions{})
	ask := func(turn int) int {
		before := len(a.calls)
		_, _, _ = play(t.Context(), m, llm.Request{TurnID: fmt.Sprint(turn)})
		return len(a.calls) - before
	}
	var got []int
	ask(0)
	got = append(got, ask(0)) // remembered
	for i := range 2000 {
		ask(1 + i)
	}
	got = append(got, ask(2000), ask(0))
	if d := cmp.Diff([]int{0, 0, 1}, got); d != "" {
		t.Errorf("calls of the first link differ: %s", d)
	}
}
