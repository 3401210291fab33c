package subject

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Bounds of a replay.
const (
	replaySteps = 2000
	replayText  = 300       // characters of a message or of arguments
	replaySlack = time.Hour // that subagents of a turn may go on behind its end
)

// replayed is a turn step by step, from its messages, its note and the record of
// model calls.
type replayed struct {
	*turned

	Started string  `json:"began_at"` // to the millisecond
	Steps   []*step `json:"steps"`    // in order of time
	Cut     bool    `json:"cut,omitempty"`
}

// step is one thing that happened in a turn. One of its parts is set.
type step struct {
	At         string     `json:"at"` // when it began
	DurationMS int64      `json:"duration_ms"`
	Model      *modelStep `json:"model,omitempty"`
	Tool       *toolStep  `json:"tool,omitempty"`
	Wait       *waitStep  `json:"wait,omitempty"` // for a person
	Said       *saidStep  `json:"said,omitempty"`

	start time.Time
}

type modelStep struct {
	Model      string         `json:"model"`
	Provider   string         `json:"provider"`
	Source     string         `json:"source"` // what caused the call: user, subagent
	FirstMS    int64          `json:"first_token_ms,omitempty"`
	Prompt     int            `json:"prompt_tokens"`
	Completion int            `json:"completion_tokens"`
	Cached     int            `json:"cached_tokens,omitempty"`
	Billing    ledger.Billing `json:"billing"`
	USD        float64        `json:"cost_usd"`
	Outcome    string         `json:"outcome"` // ok, cancelled, or the kind of the error
}

type toolStep struct {
	CallID    string   `json:"call_id"`
	Name      string   `json:"name"`
	Arguments string   `json:"arguments"` // their beginning, on one line
	IsError   bool     `json:"is_error,omitempty"`
	Untrusted bool     `json:"untrusted,omitempty"`
	Bytes     int      `json:"bytes"` // of the result
	Edits     []edited `json:"edits,omitempty"`
}

type waitStep struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

type saidStep struct {
	Index int      `json:"index"`
	Role  llm.Role `json:"role"`
	Text  string   `json:"text"` // its beginning, on one line
}

// Replay is what happened in one turn, step by step.
type Replay struct{ Now Source }

// Routes implements web.Subject.
func (y Replay) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"sessions/{key}/turns/{id}": y.read}}
}

// read finds a turn, which takes longer the older it is.
func (y Replay) read(ctx context.Context, r *http.Request) (any, error) {
	now, err := y.Now(ctx)
	if err != nil {
		return nil, err
	}

	v, err := session.OpenView(ctx, now.Sessions, r.PathValue("key"))
	if err != nil {
		return nil, err
	}

	defer v.Close() //nolint:errcheck // only read from
	p := &player{now: now, key: r.PathValue("key"), id: r.PathValue("id")}
	if err := p.find(ctx, v); err != nil {
		return nil, err
	}
	if !p.found {
		return nil, web.Refuse(http.StatusNotFound, "there is no such turn in this conversation")
	}
	if err := p.calls(ctx); err != nil {
		return nil, err
	}
	return p.result(), nil
}

// player collects the steps of a turn.
type player struct {
	now     *Program
	key, id string

	found bool
	turn  string // as the log names it
	note  *session.TurnNote
	steps []*step
	cut   bool
	open  map[string]*step // tool results whose call was not read yet
}

// find goes back from the end until it has read the turn. Clients name a turn as
// they named the message that began it, or one that came during it.
func (p *player) find(ctx context.Context, v *session.View) error {
	for it, err := range v.Backward(ctx, v.Len()) {
		if err != nil {
			return err
		}

		turn := it.Record.TurnID
		var note *session.TurnNote
		if it.Note != nil {
			note = &session.TurnNote{}
			if json.Unmarshal(it.Note, note) != nil {
				continue
			}
			turn = note.ID
		}

		if turn == "" {
			continue // between turns
		}

		if turn != p.turn {
			if p.found {
				return nil
			}
			*p = player{now: p.now, key: p.key, id: p.id, turn: turn, found: turn == p.id, open: map[string]*step{}}
		}

		if note != nil {
			p.note = note
			continue
		}

		p.found = p.found || it.Record.InboundID == p.key+"/"+p.id
		p.addRecord(&it)
	}
	return nil
}

// addRecord appends what a record says; later ones were taken before.
func (p *player) addRecord(it *session.Item) {
	r := &it.Record
	switch {
	case r.Role == llm.ToolRole:
		said, fenced := runner.Unfence(r.Content)
		s := &step{start: r.Time.Add(-time.Duration(r.LatencyMS) * time.Millisecond), DurationMS: r.LatencyMS}
		s.Tool = &toolStep{CallID: r.ToolCallID, Name: r.Name, IsError: r.IsError, Untrusted: fenced, Bytes: len(said)}
		p.open[r.ToolCallID] = s
		p.add(s)
		return

	case r.Event == "answer":
		p.add(&step{start: r.Time.Add(-time.Duration(r.LatencyMS) * time.Millisecond), DurationMS: r.LatencyMS, Wait: &waitStep{Answer: p.line(r.Display())}})
		return
	case r.Event == "question":
		// A question without an answer precedes the next one, which has its answer.
		if n := len(p.steps); n > 0 && p.steps[n-1].Wait != nil && p.steps[n-1].Wait.Question == "" {
			p.steps[n-1].Wait.Question = p.line(r.Display())
		}
		return
	}

	for _, c := range r.ToolCalls {
		s := p.open[c.ID]
		if s == nil { // it never returned
			s = &step{start: r.Time, Tool: &toolStep{CallID: c.ID, IsError: true}}
			p.add(s)
		}
		s.Tool.Name, s.Tool.Arguments = c.Name, p.line(c.Arguments)
	}

	if visible(it) && strings.TrimSpace(r.Display()) != "" {
		p.add(&step{start: r.Time, Said: &saidStep{Index: it.Index, Role: r.Role, Text: p.line(r.Display())}})
	}
}

func (p *player) add(s *step) {
	if len(p.steps) >= replaySteps {
		p.cut = true
		return
	}
	p.steps = append(p.steps, s)
}

// line returns the beginning of a text, credentials taken out.
func (p *player) line(s string) string {
	return text.Label(p.now.Secrets.Redact(head(s, 4*replayText)), replayText)
}

// calls adds the calls of models, those of subagents too.
func (p *player) calls(ctx context.Context) error {
	if p.now.Ledger == nil {
		return nil
	}

	q := ledger.Query{Turn: p.turn, Since: p.began()}
	if p.note != nil && !p.note.Started.IsZero() {
		q.Until = p.note.Started.Add(time.Duration(p.note.DurationMS)*time.Millisecond + replaySlack)
	}

	for e, err := range p.now.Ledger.Entries(ctx, q) {
		if err != nil {
			return err
		}
		p.add(&step{
			start: e.Time.Add(-time.Duration(e.DurationMS) * time.Millisecond), DurationMS: e.DurationMS,
			Model: &modelStep{
				Model:      e.Model,
				Provider:   e.Provider,
				Source:     e.Source,
				FirstMS:    e.TTFTMS,
				Prompt:     e.Prompt,
				Completion: e.Completion,
				Cached:     e.Cached,
				Billing:    e.Billing,
				USD:        e.USD,
				Outcome:    e.Outcome,
			},
		})
	}

	return nil
}

// began returns when the turn began, or its first record.
func (p *player) began() (at time.Time) {
	if p.note != nil {
		at = p.note.Started
	}
	for _, s := range p.steps {
		if at.IsZero() || s.start.Before(at) {
			at = s.start
		}
	}
	return at
}

func (p *player) result() *replayed {
	t := &turned{TurnID: p.id, note: p.note}
	if p.note != nil {
		t.fill(p.now.Secrets)
	}

	slices.SortStableFunc(p.steps, func(a, b *step) int { return a.start.Compare(b.start) })
	edits := map[string][]edited{}
	for _, e := range t.Edits {
		e.Diff = ""
		edits[e.CallID] = append(edits[e.CallID], e)
	}

	t.Edits = nil
	for _, s := range p.steps {
		s.At = s.start.UTC().Format(stampMilli)
		if s.Tool != nil {
			s.Tool.Edits = edits[s.Tool.CallID]
		}
	}
	return &replayed{turned: t, Started: p.began().UTC().Format(stampMilli), Steps: append([]*step{}, p.steps...), Cut: p.cut}
}
