package turn

import (
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Outgoing is the door that everything passes which is said to the asker of one
// message. It takes secrets out of all that people may see, also of a secret that lies
// across pieces of a text. Only ToolDelta has its pieces cleaned before, by callStream,
// which knows when the model begins a call again. It is safe for concurrent use.
type Outgoing struct {
	secrets *httpsafe.Registry

	mu      sync.Mutex
	flowing []*flow
}

// flow is a text that comes in pieces.
type flow struct {
	kind  bus.Kind
	id    string       // of the stream, or of the call whose command prints
	last  bus.Outbound // its last piece, which says where the rest belongs
	clean *httpsafe.Stream
}

// NewOutgoing makes the door for one message.
func NewOutgoing(secrets *httpsafe.Registry) *Outgoing { return &Outgoing{secrets: secrets} }

// Pass returns what goes out in place of something that is said: nothing while it may be
// the beginning of a secret, and what was held back before it.
func (d *Outgoing) Pass(o bus.Outbound) []bus.Outbound {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch o.Kind {
	case bus.Delta, bus.Reasoning:
		return d.piece(o, o.StreamID)
	case bus.ToolOutput:
		return d.piece(o, o.Tool.CallID)
	case bus.DeltaEnd:
		return append(d.rest(func(f *flow) bool { return f.kind != bus.ToolOutput && f.id == o.StreamID }), Redacted(d.secrets, o))
	case bus.Final:
		return append(d.rest(func(f *flow) bool { return f.kind != bus.ToolOutput }), Redacted(d.secrets, o))
	case bus.ToolEvent:
		if o.Tool != nil && o.Tool.Phase != "start" { // its result says what the last piece would
			d.flowing = slices.DeleteFunc(d.flowing, func(f *flow) bool { return f.kind == bus.ToolOutput && f.id == o.Tool.CallID })
		}
	}

	return []bus.Outbound{Redacted(d.secrets, o)}
}

// piece passes on what is certain of a text so far. The caller holds mu.
func (d *Outgoing) piece(o bus.Outbound, id string) []bus.Outbound {
	at := slices.IndexFunc(d.flowing, func(f *flow) bool { return f.kind == o.Kind && f.id == id })
	if at < 0 {
		at = len(d.flowing)
		d.flowing = append(d.flowing, &flow{kind: o.Kind, id: id, clean: d.secrets.Stream()})
	}

	f := d.flowing[at]
	f.last = o
	if o.Text = f.clean.Push(o.Text); o.Text == "" {
		return nil
	}
	return []bus.Outbound{o}
}

// rest ends texts and returns what was held back of them: thoughts come before words.
// The caller holds mu.
func (d *Outgoing) rest(ends func(*flow) bool) (out []bus.Outbound) {
	for _, kind := range []bus.Kind{bus.Reasoning, bus.Delta} {
		for _, f := range d.flowing {
			if f.kind != kind || !ends(f) {
				continue
			}
			last := f.last
			if last.Text = f.clean.Flush(); last.Text != "" {
				out = append(out, last)
			}
		}
	}

	d.flowing = slices.DeleteFunc(d.flowing, ends)
	return out
}

// Redacted is something that is said, without secrets in what people may see of it. What
// programs read again stays: routes, ids, and the paths of files that are sent.
func Redacted(secrets *httpsafe.Registry, o bus.Outbound) bus.Outbound {
	clean := secrets.Redact
	o.Text = clean(o.Text)
	o.Media = slices.Clone(o.Media)
	for i := range o.Media {
		o.Media[i].Name = clean(o.Media[i].Name)
	}

	if o.Tool != nil {
		t := *o.Tool
		for _, s := range []*string{&t.Name, &t.Arguments, &t.Detail, &t.Label, &t.Outcome, &t.Output, &t.Result} {
			*s = clean(*s)
		}
		o.Tool = &t
	}

	if o.Question != nil {
		q := redactedQuestion(secrets, *o.Question)
		o.Question = &q
	}

	o.Edits = slices.Clone(o.Edits)
	for i := range o.Edits {
		o.Edits[i].Path, o.Edits[i].Diff = clean(o.Edits[i].Path), clean(o.Edits[i].Diff)
	}

	o.Goal = redactedGoal(secrets, o.Goal)
	o.Turn = redactedTurn(secrets, o.Turn)
	return o
}

// redactedQuestion is a question without secrets.
func redactedQuestion(secrets *httpsafe.Registry, q bus.Question) bus.Question {
	q.Text = secrets.Redact(q.Text)
	q.Options = slices.Clone(q.Options)
	for i := range q.Options {
		q.Options[i] = secrets.Redact(q.Options[i])
	}

	if q.Detail != nil {
		d := *q.Detail
		for _, s := range []*string{&d.Command, &d.Folder, &d.Diff, &d.Host, &d.Reason, &d.Covers} {
			*s = secrets.Redact(*s)
		}

		d.Arguments = secrets.RedactJSON(d.Arguments)
		d.Paths = slices.Clone(d.Paths)
		for i := range d.Paths {
			d.Paths[i] = secrets.Redact(d.Paths[i])
		}

		d.Outside = slices.Clone(d.Outside)
		for i := range d.Outside {
			d.Outside[i].What = secrets.Redact(d.Outside[i].What)
		}
		q.Detail = &d
	}

	if q.Outcome != nil {
		o := *q.Outcome
		o.Option, o.Remark = secrets.Redact(o.Option), secrets.Redact(o.Remark)
		q.Outcome = &o
	}
	return q
}

// redactedGoal is a goal without secrets, nil for nil.
func redactedGoal(secrets *httpsafe.Registry, g *bus.Goal) *bus.Goal {
	if g == nil {
		return nil
	}
	clean := *g
	clean.Objective = secrets.Redact(clean.Objective)
	clean.Summary = secrets.Redact(clean.Summary)
	clean.Recap = secrets.Redact(clean.Recap)
	return &clean
}

// redactedTurn is the summary of a turn without secrets, nil for nil.
func redactedTurn(secrets *httpsafe.Registry, t *bus.Turn) *bus.Turn {
	if t == nil {
		return nil
	}
	clean := *t
	clean.Error, clean.Refused = secrets.Redact(clean.Error), secrets.Redact(clean.Refused)
	clean.Goal = redactedGoal(secrets, clean.Goal)
	return &clean
}
