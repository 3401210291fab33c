package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// yearWindow is the context window of the simulated model.
const yearWindow = 32000

// simulatedYear is what a year of conversation came to.
type simulatedYear struct {
	turns, dreams           int
	early, late             time.Duration // median time of a turn near the 100th and at the end
	budget, largest         int           // tokens of a prompt: allowed, and the largest sent
	memory                  int           // bytes of MEMORY.md
	lost, stale             []string      // facts that should be known and are not, and the other way round
	found                   int           // facts that had to be searched for
	wall                    time.Duration
	facts, corrected, ended int
	looked                  time.Time // when Dream last had something to read
	course                  []time.Duration
}

// note is a fact the simulated user states.
type note struct {
	text    string // what holds now, "" when it no longer does
	old     []string
	expires time.Time // zero: never
}

// simulateYear lets a scripted person talk with the whole product for a year:
// facts appear, are corrected and expire, a scripted model summarises and
// dreams. The clock is simulated, the disk is real.
func simulateYear(ctx context.Context, dir string, turns int) (y simulatedYear, err error) {
	began := time.Now()
	w := &world{now: time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC), notes: map[int]*note{}, gap: max(turns/250, 1)}
	a, err := app.New(ctx, app.Options{
		UseModel: w, Now: w.clock, Workspace: filepath.Join(dir, "ws"), Env: []string{"HOME=" + dir, "NANOBOT_HOME=" + dir},
		Config: config.Options{Home: dir, Overrides: []config.Override{
			{Path: "agents.defaults.contextWindowTokens", Value: strconv.Itoa(yearWindow)},
			{Path: "agents.defaults.maxTokens", Value: "4000"},
			{Path: "agents.defaults.budget.dailyUsd", Value: "0"},
			{Path: "agents.defaults.budget.unpricedDailyTokens", Value: "0"},
			{Path: "agents.defaults.idleCompactAfterMinutes", Value: "0"},
			{Path: "agents.defaults.timezone", Value: "UTC"},
		}},
	})
	if err != nil {
		return y, err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	a.Agent.Open(running)
	go func() { done <- a.Agent.Run(running) }()
	defer func() { stop(); err = errors.Join(err, <-done, a.Close()) }()

	took := make([]time.Duration, 0, turns)
	step := 365 * 24 * time.Hour / time.Duration(turns)
	day := -1
	for i := range turns {
		at := w.advance(step)
		if d := int(at.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Hours() / 24); d != day {
			day = d
			if err := y.dream(ctx, a, w.clock()); err != nil {
				return y, fmt.Errorf("day %d: %w", d, err)
			}
		}
		start := time.Now()
		if err := say(ctx, a, i, w.speak(i), at); err != nil {
			return y, fmt.Errorf("turn %d: %w", i, err)
		}
		took = append(took, time.Since(start))
	}
	// What was said last is still in the conversation itself. Small talk of
	// some days moves it on, so that the check finds all in the memory.
	for i := range 400 {
		at := w.advance(step)
		if err := say(ctx, a, turns+i, "Nothing new today. "+strings.Repeat("We talked about the weather. ", 12), at); err != nil {
			return y, fmt.Errorf("small talk: %w", err)
		}
	}
	for range 40 { // the memory work that is still waiting
		if err := y.dream(ctx, a, w.clock()); err != nil {
			return y, err
		}
	}
	near := min(100, turns/4)
	y.turns, y.early, y.late = turns, median(took[near:near+min(100, turns/4)]), median(took[max(0, turns-100):])
	for part := range slices.Chunk(took, max(1, turns/10)) {
		y.course = append(y.course, median(part))
	}
	y.budget, y.largest = yearWindow-4000, w.largest
	err = y.check(ctx, a, w)
	y.wall = time.Since(began)
	return y, err
}

// say sends one message and waits for the reply.
func say(ctx context.Context, a *app.App, i int, text string, at time.Time) error {
	in := bus.Inbound{ID: fmt.Sprint("year-", i), Route: bus.Route{Channel: "cli", ChatID: "year"}, SenderID: "user", Text: text, At: at}
	for out, err := range a.Agent.Ask(ctx, in) {
		if err != nil {
			return err
		}
		if out.Kind == bus.Final && out.Turn != nil && out.Turn.Error != "" {
			return errors.New(out.Turn.Error)
		}
	}
	return nil
}

// dream lets Dream read what is new.
func (y *simulatedYear) dream(ctx context.Context, a *app.App, now time.Time) error {
	rep, err := a.Dream.Run(ctx, true)
	if err != nil {
		return err
	}
	if rep.Entries > 0 {
		y.dreams++
		y.looked = now
	}
	return nil
}

// check looks for every fact.
func (y *simulatedYear) check(ctx context.Context, a *app.App, w *world) error {
	data, err := os.ReadFile(filepath.Join(a.Workspace, "memory", "MEMORY.md"))
	if err != nil {
		return err
	}
	y.memory = len(data)
	kept := string(data)
	for id, n := range w.notes {
		y.facts++
		if len(n.old) > 0 {
			y.corrected++
		}
		for _, old := range n.old {
			if strings.Contains(kept, old) {
				y.stale = append(y.stale, fmt.Sprintf("note %d was corrected: %s", id, old))
			}
		}
		over := !n.expires.IsZero() && n.expires.Add(24*time.Hour).Before(y.looked)
		switch known := strings.Contains(kept, n.text); {
		case over:
			y.ended++
			if known {
				y.stale = append(y.stale, fmt.Sprintf("note %d has expired: %s", id, n.text))
			}
		case known:
		default:
			hit, err := searchFor(ctx, a, n.text)
			if err != nil {
				return err
			}
			if hit {
				y.found++
			} else {
				y.lost = append(y.lost, fmt.Sprintf("note %d: %s", id, n.text))
			}
		}
	}
	if y.memory > memory.MaxFile {
		y.stale = append(y.stale, fmt.Sprintf("MEMORY.md has %d bytes", y.memory))
	}
	return nil
}

// searchFor looks for a fact in everything that was ever said.
func searchFor(ctx context.Context, a *app.App, fact string) (bool, error) {
	index, err := search.Open(search.Options{
		Path: datadir.Index.In(a.Config.DataDir, "year.db"), Sessions: a.Sessions.Dir(), Workspace: a.Workspace,
		History: filepath.Join(a.History.Dir(), "history.jsonl"),
	})
	if err != nil {
		return false, err
	}
	defer index.Close() // only read
	res, err := index.Search(ctx, search.Query{Text: strings.NewReplacer(":", " ", ".", " ", "-", " ").Replace(fact), Wait: true})
	if err != nil {
		return false, err
	}
	return len(res.Hits) > 0, nil
}

// world is the scripted person and the scripted model in one.
type world struct {
	mu      sync.Mutex
	now     time.Time
	notes   map[int]*note
	gap     int // turns between two facts
	largest int
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
	return w.now
}

// speak is what the person says in a turn.
func (w *world) speak(turn int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	filler := fmt.Sprintf("This is small talk number %d about the weather and the garden, with enough words in it to fill a line or two of the conversation, as people do when they chat through the day.", turn)
	if turn%w.gap != 0 {
		return filler
	}
	id := turn / w.gap
	switch {
	case id%5 == 4 && w.notes[id-2] != nil && w.notes[id-2].expires.IsZero():
		n := w.notes[id-2]
		n.old = append(n.old, n.text)
		n.text = fmt.Sprintf("Note %d: box %d weighs %d grams.", id-2, id-2, 50000+id)
		return filler + " Correction. " + n.text
	case id%5 == 3:
		until := w.now.Add(30 * 24 * time.Hour)
		w.notes[id] = &note{text: fmt.Sprintf("Note %d: badge %d is red until %s.", id, id, until.Format("2006-01-02")), expires: until}
	default:
		w.notes[id] = &note{text: fmt.Sprintf("Note %d: box %d weighs %d grams.", id, id, 1000+id)}
	}
	return filler + " " + w.notes[id].text
}

var (
	noteForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`Note (\d+): [^.\n]+\.`) })
	untilForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`until (\d{4}-\d\d-\d\d)`) })
	countForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`The last (\d+) messages`) })
)

// Stream implements llm.Model.
func (w *world) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	w.mu.Lock()
	w.largest = max(w.largest, req.Estimate)
	w.mu.Unlock()
	msg := llm.Message{Role: llm.Assistant}
	switch {
	case req.Source == "dream" && len(req.Tools) > 0:
		msg = carryOut(req)
	case req.Source == "dream":
		msg.Content = llm.Text(w.findings(req.Messages[len(req.Messages)-1].Content.String()))
	case req.Source == memory.Source:
		msg.Content = llm.Text(summarise(req))
	default:
		msg.Content = llm.Text("Understood, thank you for telling me; I will keep it in mind and come back to it whenever it is of use to you.")
	}
	finish := llm.FinishStop
	if len(msg.ToolCalls) > 0 {
		finish = llm.FinishToolCalls
	}
	return func(yield func(llm.Event, error) bool) {
		yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Message: msg, Finish: finish}}, nil)
	}
}

// summarise names the facts in the messages that leave the conversation.
func summarise(req llm.Request) string {
	msgs := req.Messages
	if m := countForm().FindStringSubmatch(msgs[len(msgs)-1].Content.String()); m != nil {
		n, _ := strconv.Atoi(m[1]) // digits only
		msgs = msgs[max(0, len(msgs)-1-n) : len(msgs)-1]
	}
	var lines []string
	for _, m := range msgs {
		for _, fact := range noteForm().FindAllString(m.Content.String(), -1) {
			lines = append(lines, "- [durable] "+fact)
		}
	}
	if len(lines) == 0 {
		return "(nothing)"
	}
	return strings.Join(lines, "\n")
}

// findings is the first phase of Dream.
func (w *world) findings(question string) string {
	history, files, _ := strings.Cut(question, "## Current Date")
	latest := map[string]string{}
	var order []string
	for _, m := range noteForm().FindAllStringSubmatch(history, -1) {
		if _, seen := latest[m[1]]; !seen {
			order = append(order, m[1])
		}
		latest[m[1]] = m[0]
	}
	over := func(fact string) bool {
		u := untilForm().FindStringSubmatch(fact)
		if u == nil {
			return false
		}
		until, err := time.Parse("2006-01-02", u[1])
		return err == nil && until.Before(w.clock())
	}
	var out []string
	for _, id := range order {
		if strings.Contains(files, latest[id]) || over(latest[id]) {
			continue
		}
		if strings.Contains(files, "Note "+id+": ") {
			out = append(out, "[MEMORY-REMOVE] Note "+id+": was corrected")
		}
		out = append(out, "[MEMORY] "+latest[id])
	}
	for _, m := range noteForm().FindAllStringSubmatch(files, -1) {
		if over(m[0]) {
			out = append(out, "[MEMORY-REMOVE] Note "+m[1]+": is over")
		}
	}
	if len(out) == 0 {
		return "[SKIP]"
	}
	return strings.Join(out, "\n")
}

// carryOut is the second phase of Dream.
func carryOut(req llm.Request) llm.Message {
	if req.Messages[len(req.Messages)-1].Role == llm.ToolRole {
		return llm.Message{Role: llm.Assistant, Content: llm.Text("Done.")}
	}
	order := req.Messages[0].Content.String()
	result, files, _ := strings.Cut(order, "## Files you may edit")
	var calls []llm.ToolCall
	edit := func(old, text string) {
		args := fmt.Sprintf(`{"path":"memory/MEMORY.md","old_text":%q,"new_text":%q}`, old, text)
		calls = append(calls, llm.ToolCall{ID: fmt.Sprint("edit", len(calls)), Name: "edit_file", Arguments: args})
	}
	removed := map[string]bool{}
	for line := range strings.Lines(result) {
		id := strings.TrimPrefix(line, "[MEMORY-REMOVE] Note ")
		if id == line {
			continue
		}
		id, _, _ = strings.Cut(id, ":")
		if i := slices.IndexFunc(strings.Split(files, "\n"), func(s string) bool { return strings.HasPrefix(s, "- Note "+id+": ") }); i >= 0 {
			edit(strings.Split(files, "\n")[i]+"\n", "")
			removed[id] = true
		}
	}
	for _, m := range noteForm().FindAllString(result, -1) {
		if !strings.Contains(m, "was corrected") && !strings.Contains(m, "is over") {
			edit("", "- "+m+"\n")
		}
	}
	if len(calls) == 0 {
		return llm.Message{Role: llm.Assistant, Content: llm.Text("Nothing to do.")}
	}
	return llm.Message{Role: llm.Assistant, ToolCalls: calls}
}

// year is the benchmark: a year of 10,000 turns.
func (b *bench) year() error {
	turns := b.times(10000, 1000)
	y, err := simulateYear(context.Background(), filepath.Join(b.dir, "year"), turns)
	if err != nil {
		return err
	}
	r := ratio(y.late, y.early)
	b.add(fmt.Sprintf("a simulated year: time per turn at turn %d against turn 100", turns), fmt.Sprintf("%s, %.2fx", ms(y.late), r), ms(y.early), "<= 1.2x", r <= 1.2)
	b.add("a simulated year: largest prompt, tokens", strconv.Itoa(y.largest), strconv.Itoa(y.budget)+" allowed", "within", y.largest <= y.budget)
	b.add(fmt.Sprintf("a simulated year: %d facts, %d corrected, %d expired", y.facts, y.corrected, y.ended),
		fmt.Sprintf("%d lost, %d stale, %d by search; MEMORY.md %d bytes", len(y.lost), len(y.stale), y.found, y.memory), "",
		"none lost, none stale", len(y.lost)+len(y.stale) == 0)
	b.add(fmt.Sprintf("a simulated year: wall time with %d dreams", y.dreams), fmt.Sprintf("%s, peak RSS %.1f MiB", y.wall.Round(time.Second), float64(peakRSS())/(1<<20)), "", "", true)
	return nil
}
