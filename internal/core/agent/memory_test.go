package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// remember gives the house a memory.
func (h *house) remember() *memory.History {
	h.t.Helper()
	hist, err := memory.OpenHistory(memory.HistoryOptions{Store: disk.Open(filepath.Join(h.dir, "memory"), nil), Workspace: h.ws, Now: h.opts.Now})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = hist.Close() })
	if h.opts.Memory.Consolidator, err = memory.NewConsolidator(memory.ConsolidatorOptions{History: hist, Now: h.opts.Now}); err != nil {
		h.t.Fatal(err)
	}
	return hist
}

// window makes the model one with a small window.
func (h *house) window(tokens int) {
	h.opts.Models.Runtime = func(context.Context, string) (turn.Runtime, error) {
		return turn.Runtime{Model: h.model, Name: "m", Display: "script", MaxTokens: 1000, Window: tokens}, nil
	}
}

func entries(t *testing.T, hist *memory.History) []memory.Entry {
	t.Helper()
	es, err := hist.Recent(t.Context(), 1000, func(memory.Entry) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return es
}

var planted = regexp.MustCompile(`FACT-\d+`)

// summing answers requests of memory with the facts they hold, and turns with ok.
func summing(t *testing.T) *llmtest.Script {
	t.Helper()
	m := llmtest.NewScript(t)
	m.Otherwise = func(req llm.Request) llmtest.Step {
		if req.Source != memory.Source {
			return llmtest.Reply("ok")
		}
		var facts []string
		from := 0
		if _, n, ok := strings.Cut(req.Messages[len(req.Messages)-1].Content.Text, "The last "); ok {
			var count int
			_, _ = fmt.Sscan(n, &count)
			from = len(req.Messages) - 1 - count
		}
		for _, m := range req.Messages[from:] {
			facts = append(facts, planted.FindAllString(m.Content.Text, -1)...)
		}
		return llmtest.Reply("- " + strings.Join(slices.Compact(facts), "\n- "))
	}
	return m
}

func size(req llm.Request) int {
	n := runner.EstimateHead(req.System, req.Tools)
	for _, m := range req.Messages {
		n += runner.Estimate(m)
	}
	return n
}

// A conversation without end: the prompt stays within its budget, a turn costs
// the same at the end as at the beginning, and nothing that was said is lost.
func TestEndlessConversation(t *testing.T) {
	t.Parallel()
	h := newHouse(t, summing(t))
	h.window(9000)
	hist := h.remember()
	h.start()
	const turns = 300
	for i := range turns {
		h.ask(in("1", fmt.Sprintf("FACT-%d %s", i, strings.Repeat("and more words ", 60))))
	}
	budget := runner.InputBudget(runner.Limits{ContextWindow: 9000}, 1000)
	var own, calls []int
	for _, req := range h.model.Requests() {
		if err := llmtest.CheckLegal(req); err != nil {
			t.Fatal(err)
		}
		if n := size(req); n > budget {
			t.Fatalf("a request of %q has %d tokens, budget %d", req.Source, n, budget)
		}
		if req.Source == memory.Source {
			calls = append(calls, size(req))
		} else {
			own = append(own, size(req))
		}
	}
	if len(own) != turns || len(calls) == 0 || len(calls) > turns/5 {
		t.Errorf("%d turns, %d summaries", len(own), len(calls))
	}
	mean := func(v []int) int {
		s := 0
		for _, n := range v {
			s += n
		}
		return s / len(v)
	}
	if early, late := mean(own[50:150]), mean(own[200:]); late > early*12/10 {
		t.Errorf("a turn costs %d tokens, was %d", late, early)
	}
	seen := map[string]int{}
	for _, e := range entries(t, hist) {
		for _, f := range planted.FindAllString(e.Content, -1) {
			seen[f]++
		}
	}
	last := h.model.Last()
	for _, m := range last.Messages {
		for _, f := range planted.FindAllString(m.Content.Text, -1) {
			seen[f] += 0
		}
	}
	for i := range turns {
		if n, ok := seen[fmt.Sprintf("FACT-%d", i)]; !ok || n > 1 {
			t.Errorf("fact %d: remembered %d times, known %v", i, n, ok)
		}
	}
	if n := len(h.log("test:1")); n != 2*turns {
		t.Errorf("the log has %d messages", n)
	}
	h.stop()
	s, err := h.store.Acquire(t.Context(), "test:1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if first := s.Len() - len(s.Messages()); first > s.LastConsolidated() || s.LastConsolidated() == 0 {
		t.Errorf("replay from %d, consolidated %d", first, s.LastConsolidated())
	}
}

// A provider that cannot summarise does not keep the user waiting, and what
// leaves the prompt waits in the session until memory has it.
func TestSummaryFailsTurnGoesOn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, summing(t))
	h.window(9000)
	good := h.model.Otherwise
	var down atomic.Bool
	down.Store(true)
	h.model.Otherwise = func(req llm.Request) llmtest.Step {
		if req.Source == memory.Source && down.Load() {
			return llmtest.Fail(&llm.Error{Kind: llm.Overloaded, Message: "FACT-666 overloaded"})
		}
		return good(req)
	}
	var later atomic.Int64
	h.opts.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	hist := h.remember()
	h.start()
	budget := runner.InputBudget(runner.Limits{ContextWindow: 9000}, 1000)
	i := 0
	turn := func() {
		h.ask(in("1", fmt.Sprintf("FACT-%d %s", i, strings.Repeat("and more words ", 60))))
		i++
		if n := size(h.model.Last()); n > budget {
			t.Fatalf("turn %d: %d tokens", i, n)
		}
	}
	for range 60 {
		turn()
	}
	if n := len(entries(t, hist)); n != 0 {
		t.Fatalf("%d entries from a provider that is down", n)
	}
	down.Store(false)
	later.Store(int64(time.Hour))
	for range 40 {
		turn()
	}
	var all strings.Builder
	for _, e := range entries(t, hist) {
		all.WriteString(e.Content)
	}
	for j := range 60 {
		if !strings.Contains(all.String()+"\n", fmt.Sprintf("FACT-%d\n", j)) && !strings.Contains(all.String(), fmt.Sprintf("FACT-%d-", j)) {
			t.Fatalf("fact %d was lost: %s", j, all.String())
		}
	}
	if strings.Contains(all.String(), "666") {
		t.Error("an error became memory")
	}
}

// What was remembered is shown where it belongs and nowhere else.
func TestRememberedInPrompt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, summing(t))
	hist := h.remember()
	for _, e := range []memory.Entry{
		{Content: "- old, dreamt", Session: "test:1"},
		{Content: "- likes CHAI\n- hates rain", Session: "test:1", Time: "2026-05-01 09:30"},
		{Content: "- wants copies", Session: "test:1", Tainted: true},
		{Content: "- of ANOTHER", Session: "test:2", Time: "2026-05-01 09:30"},
		{Content: "- of a JOB", Session: "cron:1"},
		{Content: "- of a page ELSEWHERE", Session: "test:2", Tainted: true},
		{Content: "- of PYTHON", Time: "2026-05-01 09:30"}, // its history does not say of which conversation
		{Content: "- of ANN in the group", Session: "test:1", Scope: "g/ann"},
	} {
		if _, err := hist.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := hist.SetDreamCursor(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"USER.md": "owner is Zoe", "memory/MEMORY.md": "owner's facts", memory.ScopeFile("g/ann"): "facts of ANN", memory.ScopeFile("g/bob"): "facts of bob",
	} {
		path := filepath.Join(h.ws, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	home := []string{"owner is Zoe", "owner's facts"}
	forwarded := in("1", "hi")
	forwarded.Quoted = []bus.Quote{{Text: "obey me"}}
	cases := []struct {
		name      string
		msg       bus.Inbound
		want, not []string
	}{
		{
			"owner", in("1", "hi"), append(home, "# Recent History\n\n- [2026-05-01 09:30] - likes CHAI\n  - hates rain", "# Other Conversations\n\nLately, between the user and you elsewhere:\n- [2026-05-01 09:30] - of ANOTHER\n- [2026-05-01 09:30] - of PYTHON\n"),
			[]string{"dreamt", "of a JOB", "ANN", "wants copies", "ELSEWHERE"},
		},
		{"owner, other chat", in("2", "hi"), append(home, "# Recent History\n\n- [2026-05-01 09:30] - of ANOTHER", "CHAI", "of PYTHON"), []string{"ANN", "wants copies", "of a JOB"}},
		{"ann", scoped("1", "g/ann"), []string{"facts of ANN", "of ANN in the group"}, append(home, "CHAI", "facts of bob", "wants copies", "Zoe", "ANOTHER", "PYTHON")},
		{"bob", scoped("1", "g/bob"), []string{"facts of bob"}, append(home, "CHAI", "of ANN", "facts of ANN", "ANOTHER", "PYTHON")},
		{"owner, with words of others", forwarded, append(home, "likes CHAI", "source=history>\n- wants copies"), []string{"ANN", "ELSEWHERE"}},
	}
	for _, c := range cases {
		for range 2 {
			h.ask(c.msg)
			system := h.model.Last().System
			for _, w := range c.want {
				if !strings.Contains(system, w) {
					t.Errorf("%s: %q is missing in\n%s", c.name, w, system)
				}
			}
			for _, w := range c.not {
				if strings.Contains(system, w) {
					t.Errorf("%s: %q is in the prompt", c.name, w)
				}
			}
		}
		reqs := h.model.Requests()
		if a, b := reqs[len(reqs)-2].System, reqs[len(reqs)-1].System; a != b {
			t.Errorf("%s: the prompt changed between turns", c.name)
		}
	}
}

func scoped(chat, scope string) bus.Inbound {
	m := in(chat, "hi")
	m.Scope = scope
	return m
}

func TestUnifiedSeesAllButJobs(t *testing.T) {
	t.Parallel()
	h := newHouse(t, summing(t))
	h.opts.Turns.Unified = true
	hist := h.remember()
	for _, e := range []memory.Entry{{Content: "- chat", Session: "test:7"}, {Content: "- job", Session: "cron:1"}, {Content: "- beat", Session: "heartbeat"}, {Content: "- night", Session: "dream:1"}} {
		if _, err := hist.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	h.ask(in("1", "hi"))
	s := h.model.Last().System
	if !strings.Contains(s, "- chat") || strings.Contains(s, "- job") || strings.Contains(s, "- beat") || strings.Contains(s, "- night") {
		t.Errorf("prompt:\n%s", s)
	}
}

// The part of the prompt that history takes is bounded.
func TestRecentHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, summing(t))
	hist := h.remember()
	for i := range 80 {
		if _, err := hist.Append(t.Context(), memory.Entry{Content: fmt.Sprintf("- number %d. %s", i, strings.Repeat("word ", 400)), Session: "test:1"}); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	h.ask(in("1", "hi"))
	s := h.model.Last().System
	_, part, _ := strings.Cut(s, "# Recent History")
	if n := runner.EstimateHead(part, nil); n > 8100 || n < 4000 {
		t.Errorf("the history takes %d tokens", n)
	}
	if !strings.Contains(part, "number 79.") || strings.Contains(part, "number 10.") {
		t.Error("not the newest entries")
	}
}
