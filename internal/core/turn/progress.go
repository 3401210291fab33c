package turn

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Bounds of what is noted about a turn.
const (
	notedEdits    = 100
	notedDiffs    = 32 << 10 // bytes of all diffs
	notedReceipts = 200
	notedNotices  = 20
	noticeBytes   = 1 << 10
	outsideMost   = 5        // things from outside that a question names
	resultBytes   = 16 << 10 // of what a call returned that is shown while the turn runs
)

// progress shows a turn to its asker while it runs, and notes what people saw of it
// that is not in its messages.
type progress struct {
	turn    string // its id
	key     string // of the session
	begun   time.Time
	route   bus.Route
	meta    map[string]string // of the message
	streams bool              // the asker wants the answer while it is written
	emit    func(bus.Outbound)
	secrets *httpsafe.Registry
	now     func() time.Time
	cost    func(turnID string) (usd float64, billing string) // may be nil
	hint    explain.Hint                                      // describes calls in a few words

	// Only the goroutine of the turn uses these.
	segment int       // number of the visible message being streamed
	used    bus.Usage // by answers of the model that called tools, in all rounds of a goal

	mu       sync.Mutex // tools run side by side
	answered bool       // the message tool answered this chat, and no message came there since
	calls    map[string]ended
	edits    []bus.Edit
	diffs    int
	notices  []session.Notice
	outside  []bus.Read
}

// ended is what is noted about a call that has ended.
type ended struct {
	ms     int64 // it took
	denied bool
}

// ended notes how long a call took, and whether it was not allowed.
func (p *progress) ended(call string, d time.Duration, denied bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[string]ended{}
	}
	p.calls[call] = ended{d.Milliseconds(), denied}
}

// saw notes that a result came from outside; the last ones are kept.
func (p *progress) saw(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outside = append(p.outside, bus.Read{What: what, At: p.now()})
	p.outside = p.outside[max(0, len(p.outside)-outsideMost):]
}

// explain completes what a question says about its call.
func (p *progress) explain(d *bus.Detail) {
	if d == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Outside = slices.Clone(p.outside)
}

// of is what was noted about a call.
func (p *progress) of(call string) ended {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[call]
}

// noticed notes what the person was told.
func (p *progress) noticed(said string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.notices) < notedNotices {
		p.notices = append(p.notices, session.Notice{At: p.now(), Text: text.Cut(said, noticeBytes)})
	}
}

// edited notes changes of files, the first diffs with their text.
func (p *progress) edited(edits []bus.Edit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range edits[:min(len(edits), notedEdits-len(p.edits))] {
		if p.diffs+len(e.Diff) > notedDiffs {
			e.Diff = ""
		}
		p.diffs += len(e.Diff)
		p.edits = append(p.edits, e)
	}
}

// note is what is kept about the turn. What the conversation says anyway, and
// what may be many, is left out.
func (p *progress) note(sum bus.Turn) session.TurnNote {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum.SessionKey, sum.Goal, sum.Tools = "", nil, nil
	sum.Receipts = sum.Receipts[:min(len(sum.Receipts), notedReceipts)]
	return session.TurnNote{Turn: sum, Started: p.begun, Edits: p.edits, Notices: p.notices}
}

// hasAnswered reports whether the message tool has answered. What the model says
// behind it is no second answer: it is neither streamed nor sent, unless it says
// that the turn failed or is not finished.
func (p *progress) hasAnswered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

func (p *progress) setAnswered(answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = answered
}

// price sets what the calls of the turn cost so far.
func (p *progress) price(u *bus.Usage) {
	if p.cost != nil {
		u.CostUSD, u.Billing = p.cost(p.turn)
	}
}

// send shows something in the chat of the message.
func (p *progress) send(o bus.Outbound) {
	o.Route, o.Meta = p.route, p.meta
	p.emit(o)
}

// publish shows what a tool sends while it runs.
func (p *progress) publish(ctx context.Context, o bus.Outbound) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	if o.Kind == bus.Message && o.Route.SameChat(p.route) {
		p.setAnswered(true)
	}
	if o.Kind == bus.ToolOutput {
		o.Route = p.route
	}

	p.edited(o.Edits)
	p.emit(o)
	return nil
}

// streamID names the visible messages of a Turn, counted from 0.
func (p *progress) streamID(segment int) string {
	return p.key + ":" + strconv.FormatInt(p.begun.UnixNano(), 10) + ":" + strconv.Itoa(segment)
}

// hooks show what happens in a run.
func (p *progress) hooks() runner.Hooks {
	h := runner.Hooks{
		Notice:      p.notice,
		BeforeTools: p.beforeTools,
		BeforeTool: func(_ context.Context, c tool.Call) error {
			p.began(c)
			return nil
		},
		AfterTool:  p.afterTool,
		HostedTool: p.hostedTool,
	}
	if p.streams {
		p.stream(&h)
	}
	return h
}

func (p *progress) notice(ctx context.Context, s string, brief bool) {
	// The runner and the model do not know who reads it.
	s = phrase.Recognize(phrase.From(ctx), s)
	if !brief {
		p.noticed(s)
	}
	p.send(bus.Outbound{Kind: bus.Notice, Text: s, Brief: brief})
}

// beforeTools shows what an answer with calls took, its text and its calls.
func (p *progress) beforeTools(_ context.Context, it *runner.Iteration) {
	addUsage(&p.used, it.Usage)
	p.price(&p.used)
	p.send(bus.Outbound{Kind: bus.Used, Turn: &bus.Turn{ID: p.turn, SessionKey: p.key, Usage: p.used}})

	said := strings.TrimSpace(it.Response.Message.Content.String())
	if said != "" && !p.streams {
		p.send(bus.Outbound{Kind: bus.Progress, Text: said})
	}
	p.send(bus.Outbound{Kind: bus.ToolHint, Text: p.hint.Calls(it.Calls)})
}

// addUsage adds what one request took to what the turn took so far.
func addUsage(total *bus.Usage, u llm.Usage) {
	total.Prompt += u.Prompt
	total.Completion += u.Completion
	total.Cached += u.Cached
	total.Estimated = total.Estimated || u.Estimated
}

func (p *progress) began(c tool.Call) {
	p.send(bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{
		CallID: c.ID, Name: c.Name, Phase: "start",
		Arguments: string(c.Input),
		Label:     p.hint.Call(c.Name, string(c.Input)),
	}})
}

func (p *progress) afterTool(_ context.Context, c tool.Call, r tool.Result, took time.Duration) {
	p.ended(c.ID, took, r.IsError && r.Code.Denied())
	said := p.secrets.Redact(r.Content.String()) // before it is cut, which would hide a part of a secret
	ev := &bus.Tool{
		CallID: c.ID, Name: c.Name, Phase: "end", Detail: text.FirstLine(said, 120), DurationMS: took.Milliseconds(),
		Label: p.hint.Call(c.Name, string(c.Input)), Outcome: explain.Outcome(r), Output: explain.FailedOutput(r, said),
		Result: text.Cut(said, resultBytes), Untrusted: r.Untrusted,
	}
	if r.Untrusted {
		p.saw(ev.Label)
	}
	if r.IsError {
		ev.Phase, ev.Denied = "error", r.Code.Denied()
	}
	p.send(bus.Outbound{Kind: bus.ToolEvent, Tool: ev})
}

// hostedTool shows a tool that the provider runs itself.
func (p *progress) hostedTool(_ context.Context, _ *runner.Iteration, c llm.ToolPart) {
	p.send(bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{
		CallID: c.ID, Name: c.Name, Phase: c.Phase, Arguments: c.Arguments, Detail: c.Result,
		Label: strings.TrimSpace(c.Name + " " + c.Arguments), Hosted: true,
	}})
}

// stream adds the hooks that show an answer and its calls while the model writes them.
func (p *progress) stream(h *runner.Hooks) {
	show := func(kind bus.Kind, s string) {
		if s != "" {
			p.send(bus.Outbound{Kind: kind, Text: s, StreamID: p.streamID(p.segment)})
		}
	}

	end := func(o bus.Outbound) {
		if p.hasAnswered() {
			return // no text was shown in this segment
		}
		o.Kind, o.StreamID = bus.DeltaEnd, p.streamID(p.segment)
		p.send(o)
		p.segment++
	}

	h.ToolDelta = (&callStream{secrets: p.secrets, send: p.send}).add
	h.Delta = func(_ context.Context, _ *runner.Iteration, s string) {
		if !p.hasAnswered() {
			show(bus.Delta, s)
		}
	}

	h.Reasoning = func(_ context.Context, _ *runner.Iteration, s string) { show(bus.Reasoning, s) }
	h.DeltaEnd = func(_ context.Context, resuming bool) { end(bus.Outbound{Resuming: resuming}) }
	h.DeltaVoid = func(context.Context) { end(bus.Outbound{Resuming: true, Void: true}) }
}
