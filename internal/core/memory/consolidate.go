package memory

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

//go:embed prompts
var prompts embed.FS

// Numbers of consolidation.
const (
	// Source names requests of consolidation in the ledger.
	Source = "memory"

	maxRounds      = 5
	maxWholeRounds = 20
	maxAttempts    = 3
	summaryChars   = 8000
	rawChars       = 16000
	keepMessages   = 8 // stay visible when a whole conversation was taken in
	answerTokens   = 4096
)

// Keys in the metadata of a session.
const (
	keyProgress = "_memory"
	keySummary  = "_last_summary"
)

// backoff returns how long to wait after a failure, in minutes 1 and 5.
func backoff(attempts int) time.Duration {
	if attempts <= 1 {
		return time.Minute
	}
	return 5 * time.Minute
}

// Engine is the model that summarises, with what a request needs.
type Engine struct {
	Model       llm.Model
	Name        string // wire name
	MaxTokens   int
	Temperature *float64
	Effort      string
	Input       int     // most tokens of a prompt; 0 is unknown
	Scale       float64 // corrects token estimates; 0 means 1
}

// Prompt is a conversation as its next request would send it. Asking for a
// summary behind the same words lets the vendor's prompt cache serve them.
type Prompt struct {
	System   string
	Tools    []llm.ToolDef
	Messages []llm.Message
	Tokens   []int // estimate per message
	Origin   []int // session index of each message's first record
	Head     int   // estimate of system prompt and tools
}

// Task is one conversation to be looked after.
type Task struct {
	// With gives access to the session for a short time: at once where the
	// caller holds it, else by acquiring it. No model is called inside.
	With   func(ctx context.Context, fn func(*session.Session) error) error
	Engine Engine
	// Prompt says how the conversation is sent now; it is called inside With.
	// Without it, and for Whole, summaries are made from a transcript.
	Prompt func(*session.Session) (Prompt, error)
	// Budget is the most a prompt may have, in tokens, and Trigger the share of
	// it above which something is done.
	Budget  int
	Trigger float64
	// Whole takes in everything instead of making a prompt fit; KeepTurn leaves
	// the last turn out.
	Whole, KeepTurn bool
}

// ConsolidatorOptions configure a Consolidator. History is required.
type ConsolidatorOptions struct {
	History *History
	Ratio   float64             // share of the budget that is left; default 0.5
	Redact  func(string) string // takes secrets out; nil leaves texts alone
	Took    func(err error)     // told when a conversation was taken in, or could not be; may be nil
	Log     *slog.Logger
	Now     func() time.Time
}

// Consolidator turns old parts of conversations into history entries.
type Consolidator struct {
	o ConsolidatorOptions
}

// NewConsolidator makes a Consolidator.
func NewConsolidator(o ConsolidatorOptions) (*Consolidator, error) {
	if o.History == nil {
		return nil, errors.New("a consolidator needs a history")
	}

	if o.Ratio <= 0 || o.Ratio >= 1 {
		o.Ratio = 0.5
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Took == nil {
		o.Took = func(error) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Consolidator{o: o}, nil
}

// History returns where the entries go.
func (c *Consolidator) History() *History { return c.o.History }

// BackgroundTrigger returns the share of a budget above which a conversation is
// looked after between turns, before a turn has to wait for it.
func (c *Consolidator) BackgroundTrigger() float64 { return (1 + c.o.Ratio) / 2 }

// Summary holds what a session keeps of what was taken in last.
type Summary struct {
	Text       string `json:"text"`
	LastActive string `json:"last_active"`
	Tainted    bool   `json:"tainted,omitempty"`
	// Home says that words of the owner's own scope are in it.
	Home bool `json:"home,omitempty"`
}

// SummaryOf returns the summary of a session, if it has one.
func SummaryOf(s *session.Session) (Summary, bool) {
	var sum Summary
	ok := s.Meta(keySummary, &sum) && sum.Text != ""
	return sum, ok
}

// Inherit gives a conversation that begins with what another said the summary
// of the other, if words from outside are in it: what was said with it in view
// may repeat them.
func Inherit(meta map[string]json.RawMessage, to *session.Session) error {
	if !TaintedSummary(meta) {
		return nil
	}
	return to.SetMeta(keySummary, meta[keySummary])
}

// TaintedSummary reports whether words from outside may be in the summary of a
// conversation with this metadata.
func TaintedSummary(meta map[string]json.RawMessage) bool {
	var sum Summary
	return meta[keySummary] != nil && (json.Unmarshal(meta[keySummary], &sum) != nil || sum.Tainted)
}

// progress is kept in the session while attempts fail.
type progress struct {
	Attempts int   `json:"attempts,omitempty"`
	Next     int64 `json:"next,omitempty"` // unix ms before which nothing is tried
}

// errMoved says that the session is not what it was when the summary was begun.
var errMoved = errors.New("the conversation changed meanwhile")

// Run takes in as much of a conversation as the task asks for and reports
// whether anything was taken in. A provider that fails is asked again on later
// runs, after a while; the third failure keeps the words themselves. Only the
// end of ctx and errors of the disk are returned.
func (c *Consolidator) Run(ctx context.Context, t Task) (changed bool, err error) {
	if t.Engine.Scale <= 0 {
		t.Engine.Scale = 1
	}

	rounds := maxRounds
	if t.Whole {
		rounds = maxWholeRounds
	}

	for range rounds {
		more, err := c.round(ctx, t)
		if errors.Is(err, errMoved) {
			return changed, nil // another process was faster, or the conversation was started again
		}
		if err != nil {
			return changed, err
		}

		changed = changed || more
		if !more {
			break
		}
	}

	return changed, nil
}

// round takes in one passage.
func (c *Consolidator) round(ctx context.Context, t Task) (more bool, err error) {
	var job work
	err = t.With(ctx, func(s *session.Session) (err error) {
		job, err = c.plan(ctx, s, t)
		return err
	})
	if err != nil || job.to == 0 {
		return false, err
	}

	entries, err := c.summarise(ctx, job, t.Engine)
	summarised := err == nil
	if !summarised {
		var final bool
		entries, final, err = c.recordFailure(ctx, t, job, err)
		if err != nil || !final {
			return false, err // tried again on a later run
		}
		// The last attempt failed as well: the words themselves are kept, shortened.
	}

	// What was paid for is kept although the caller may have given up.
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	err = t.With(keep, func(s *session.Session) error { return c.commit(keep, s, job, entries) })
	return err == nil && summarised, err
}

const keepWithin = 30 * time.Second

// work is a passage with what is needed to summarise it.
type work struct {
	passage
	whole bool
	own   *Prompt // the beginning of the session's own prompt, up to the passage's end
	count int     // messages of own that belong to the passage
}

// plan decides what to take in; a passage that ends at 0 means nothing.
func (c *Consolidator) plan(ctx context.Context, s *session.Session, t Task) (work, error) {
	var p progress
	if s.Meta(keyProgress, &p) && p.Next > c.o.Now().UnixMilli() {
		return work{}, nil
	}

	v := viewOf(s)
	w := work{whole: t.Whole}
	to, begun, err := v.begun(ctx, c.o.History)
	if err != nil {
		return w, err
	}

	if t.Whole {
		if !begun {
			to = v.wholeEnd(t.Engine, !t.KeepTurn && v.complete())
		}
	} else {
		prompt, err := t.Prompt(s)
		if err != nil {
			return w, err
		}

		fit := v.fitEnd(prompt, s.Len()-len(v.live), t, c.o.Ratio)
		if fit == 0 {
			return w, nil
		}

		if !begun {
			to = fit
			if w.own, w.count = v.ownPrompt(prompt, s.Len()-len(v.live), to, t.Engine); w.own == nil {
				to = min(to, v.wholeEnd(t.Engine, false)) // what a transcript has room for
			}
		}
	}

	if to > v.from {
		w.passage = v.passage(to)
	}
	return w, nil
}

// wholeEnd returns how far a whole conversation can be taken in at once: all
// of it, or as many turns as a transcript has room for. last says whether the
// last turn may be taken in, too.
func (v view) wholeEnd(e Engine, last bool) int {
	ends := v.boundaries()
	if last && len(v.live) > v.from {
		ends = append(ends, len(v.live))
	}

	room := e.room()
	to := 0
	at := v.from
	used := 0
	for _, end := range ends {
		for ; at < end; at++ {
			if worthKeeping(&v.live[at]) {
				used += text.Tokens(line(&v.live[at]))
			}
		}

		if to > 0 && used > room {
			break
		}
		to = end
	}

	return to
}

// room returns how many tokens of transcript a request of the engine can take.
func (e Engine) room() int {
	if e.Input <= 0 {
		return 16000
	}
	return max(int(float64(e.Input)/e.Scale*0.8)-1200, 200)
}

// fitEnd chooses the first cut that makes the next prompt small enough, else
// the last one there is; 0 when the prompt is small enough or cannot be cut.
func (v view) fitEnd(p Prompt, first int, t Task, ratio float64) int {
	size := func(n int) int { return int(float64(n) * t.Engine.Scale) }
	total := p.Head
	for _, n := range p.Tokens {
		total += n
	}

	if t.Budget <= 0 || size(total) <= int(float64(t.Budget)*t.Trigger) {
		return 0
	}

	target := int(float64(t.Budget) * ratio)
	ends := v.boundaries()
	removed := 0
	at := 0
	to := 0
	for _, end := range ends {
		for at < len(p.Messages) && p.Origin[at] < first+end {
			removed += p.Tokens[at]
			at++
		}
		to = end
		if size(total-removed) <= target {
			break
		}
	}

	return to
}

// ownPrompt returns the session's prompt up to the end of a passage. It is nil when
// the passage has to be taken apart, does not begin and end at messages, or
// would not fit together with the request.
func (v view) ownPrompt(p Prompt, first, to int, e Engine) (own *Prompt, count int) {
	parts := v.passage(to).parts()
	if len(parts) != 1 || parts[0].tainted || (passage{view: view{live: v.live}, to: to}).outside() {
		return nil, 0
	}

	m := 0
	begin := -1
	used := p.Head
	for m < len(p.Messages) && p.Origin[m] < first+to {
		if begin < 0 && p.Origin[m] >= first+v.from {
			begin = m
		}
		used += p.Tokens[m]
		m++
	}

	if begin < 0 || m == len(p.Messages) || p.Messages[m-1].Role == llm.User || p.Origin[begin] > first+v.firstShown() {
		return nil, 0
	}
	if e.Input > 0 && int(float64(used+700)*e.Scale) > e.Input {
		return nil, 0
	}

	p.Messages = p.Messages[:m:m]
	return &p, m - begin
}

// firstShown returns the index of the first record not taken in that a prompt shows,
// unless it was left out of the prompt already.
func (v view) firstShown() int {
	i := v.from
	for i < len(v.live) && (v.live[i].Command || v.live[i].Role == llm.System) {
		i++
	}
	return i
}

// outside reports whether content from outside is anywhere before the end.
func (p passage) outside() bool { return outside(p.live[:p.to]) }

// summarise asks for the entries of a passage. Parts that are in the history
// already are not asked for again, those worth nothing yield no entry.
func (c *Consolidator) summarise(ctx context.Context, w work, e Engine) (out []Entry, err error) {
	defer func() {
		if ctx.Err() == nil {
			c.o.Took(err)
		}
	}()

	out = []Entry{}
	for _, p := range w.parts() {
		entry := c.entry(w.passage, p)
		if _, there, err := c.o.History.has(ctx, entry.Range); err != nil || there {
			if err != nil {
				return nil, err
			}
			continue
		}

		s, err := c.ask(ctx, w, p, e)
		if err != nil {
			return nil, err
		}

		if s != "" {
			entry.Content = s
			out = append(out, entry)
		}
	}

	return out, nil
}

// entry returns the frame of a part's entry.
func (c *Consolidator) entry(p passage, pt part) Entry {
	e := Entry{Session: p.key, Scope: pt.scope, Tainted: pt.tainted, Derived: pt.derived, Sender: strings.Join(pt.senders, ", "), Range: p.rng + "/" + pt.id()}
	if !pt.when.IsZero() {
		e.Time = pt.when.Local().Format(timeLayout)
	}
	return e
}

// source returns what the work on a part is accounted under: guests pay for what
// they said from their own share.
func (p part) source() string {
	if p.scope == "" {
		return Source
	}
	return llm.GuestSource(text.SafeName(p.scope))
}

// ask makes one request and returns the summary, "" when nothing matters.
func (c *Consolidator) ask(ctx context.Context, w work, p part, e Engine) (string, error) {
	req := llm.Request{
		Model: e.Name, MaxTokens: e.MaxTokens, Temperature: e.Temperature, Effort: e.Effort,
		SessionKey: w.key, Source: p.source(), TurnID: "memory-" + w.rng[:12],
	}
	if req.MaxTokens <= 0 || req.MaxTokens > answerTokens {
		req.MaxTokens = answerTokens
	}

	if w.own != nil {
		req.System, req.Tools = w.own.System, w.own.Tools
		if len(req.Tools) > 0 {
			req.ToolChoice = "none"
		}
		say := strings.ReplaceAll(prompt("own"), "{{count}}", fmt.Sprint(w.count))
		req.Messages = append(w.own.Messages, llm.Message{Role: llm.User, Content: llm.Text(say)})
	} else {
		req.System = prompt("text")
		if p.tainted {
			req.System = prompt("outside")
		}
		body := runner.Fence(llm.Text(p.body(e.room())), w.rng, "conversation")
		req.Messages = []llm.Message{{Role: llm.User, Content: body}}
	}

	resp, err := llm.Collect(ctx, e.Model, req)
	if err != nil {
		return "", err
	}

	s := c.o.Redact(tidy(resp.Message.Content.String(), summaryChars))
	switch {
	case len(resp.Message.ToolCalls) > 0 || resp.Finish != llm.FinishStop:
		return "", fmt.Errorf("the model ended its summary with %q", resp.Finish)
	case strings.TrimSpace(s) == "":
		return "", errors.New("the model wrote an empty summary")
	case isNothing(s):
		return "", nil
	}

	return strings.TrimSpace(s), nil
}

// prompt returns an embedded text with the shared instruction filled in.
func prompt(name string) string {
	read := func(name string) string {
		b, err := prompts.ReadFile("prompts/" + name + ".md")
		if err != nil {
			panic(err) // the folder is embedded
		}
		return strings.TrimSpace(string(b))
	}
	return strings.ReplaceAll(read(name), "{{summary}}", read("summary"))
}

// isNothing recognises the agreed word for "nothing matters".
func isNothing(s string) bool {
	return strings.EqualFold(strings.Trim(s, " \t\n`'\"*-()."), "nothing")
}

// recordFailure counts a failed summary. final reports that this was the last
// attempt; then the entries are the words themselves, shortened.
func (c *Consolidator) recordFailure(ctx context.Context, t Task, w work, cause error) (entries []Entry, final bool, err error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, false, context.Cause(ctx)
	}

	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	var p progress
	err = t.With(keep, func(s *session.Session) error {
		s.Meta(keyProgress, &p)
		p.Attempts++
		p.Next = c.o.Now().Add(backoff(p.Attempts)).UnixMilli()
		if p.Attempts >= maxAttempts {
			return nil
		}
		if err := s.SetMeta(keyProgress, p); err != nil {
			return err
		}
		return s.SaveMeta()
	})
	if err != nil {
		return nil, false, err
	}

	c.o.Log.WarnContext(ctx, "summary failed", "session", w.key, "attempt", p.Attempts, "err", cause)
	if p.Attempts < maxAttempts {
		return nil, false, nil
	}

	entries, err = c.raw(keep, w.passage)
	return entries, true, err
}

// raw makes entries of the words themselves, shortened.
func (c *Consolidator) raw(ctx context.Context, p passage) ([]Entry, error) {
	out := []Entry{}
	for _, pt := range p.parts() {
		e := c.entry(p, pt)
		if _, there, err := c.o.History.has(ctx, e.Range); err != nil || there {
			if err != nil {
				return nil, err
			}
			continue
		}

		e.Content = c.o.Redact(text.CutMiddle(pt.raw(), rawChars))
		out = append(out, e)
	}

	return out, nil
}

// commit writes the entries and then notes in the session that the passage was
// taken in. Dying in between is harmless: the next plan finds the entries.
func (c *Consolidator) commit(ctx context.Context, s *session.Session, w work, entries []Entry) error {
	now := viewOf(s)
	n := w.to - w.from
	if !now.born.Equal(w.born) || now.from+n > len(now.live) || now.passage(now.from+n).rng != w.rng {
		return errMoved
	}

	for _, e := range entries {
		if _, err := c.o.History.Append(ctx, e); err != nil {
			return err
		}
	}

	if sum, ok := summaryOf(entries, now.live[:now.from+n]); ok {
		if err := s.SetMeta(keySummary, sum); err != nil {
			return err
		}
	}

	first := s.Len() - len(now.live)
	to := now.from + n
	replay := to
	if w.whole {
		replay = min(to, session.SuffixStart(now.live, keepMessages))
	}

	err := errors.Join(s.SetMeta(keyProgress, nil), s.SetLastConsolidated(first+to), s.SetReplay(first+replay))
	if err != nil {
		return err
	}
	return s.SaveMeta()
}

// summaryOf joins the entries of a passage into the session's summary. A raw
// dump is none.
func summaryOf(entries []Entry, recs []session.Record) (Summary, bool) {
	var texts []string
	sum := Summary{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Content, "[RAW]") {
			texts = append(texts, e.Content)
			sum.Tainted = sum.Tainted || e.Tainted && !e.Derived // else it would never end
			sum.Home = sum.Home || e.Scope == ""
		}
	}

	if len(texts) == 0 {
		return sum, false
	}

	sum.Text = strings.Join(texts, "\n")
	if len(recs) > 0 {
		sum.LastActive = recs[len(recs)-1].Time.Local().Format("2006-01-02T15:04:05")
	}
	return sum, true
}
