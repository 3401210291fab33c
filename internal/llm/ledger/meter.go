package ledger

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// MeterOptions say what the calls of a model are counted as.
type MeterOptions struct {
	Ledger   *Ledger
	Prices   *Prices // nil: the built-in table
	Provider string  // as in the configuration
	// Billing is Free for models on the user's own machine and Subscription
	// for accounts with a flat fee; "" looks the price up.
	Billing Billing
	// Window is how many tokens a request of this model can have; 0 is unknown.
	Window int
}

// Meter makes a model whose calls are counted and kept within the limits of a
// ledger: what a call may cost at most is set aside before it, the answer is
// shortened to what is left, and the real cost takes the place of the
// reservation afterwards. A call that a limit forbids fails with a
// BudgetExceeded error and never reaches the model. Notices for the user are
// Waiting events.
func Meter(m llm.Model, o MeterOptions) llm.Model {
	if o.Prices == nil {
		o.Prices = NewPrices("", nil)
	}
	return &meter{model: m, o: o, known: map[string]*tariff{}}
}

type meter struct {
	model llm.Model
	o     MeterOptions

	mu    sync.Mutex
	known map[string]*tariff
}

// tariff holds what a meter knows about one wire name.
type tariff struct {
	price Price
	scale text.Calibration
	// perToken is the most a token cost on average in a call, as the vendor
	// reported it, in nano dollars. It stands in for a price that is unknown.
	perToken atomic.Int64
	// over is how many times what was reserved the dearest call was billed, as the
	// bits of a number; 0 is never more.
	over    atomic.Uint64
	doubted atomic.Bool // the user was told of a report that cannot be
}

// expected is the price to reserve with.
func (t *tariff) expected() Price {
	n := t.perToken.Load()
	if t.price.Billing != Unknown || n == 0 {
		p := t.price
		p.Rate *= t.factor()
		return p
	}
	v := fromNano(n) * 1e6
	return Price{Billing: Priced, In: v, Out: v, CacheRead: v, CacheWrite: v, Currency: usd, Rate: 1}
}

// reported learns from a cost that the vendor named.
func (t *tariff) reported(u llm.Usage) {
	if tokens := u.Prompt + u.Completion; tokens > 0 {
		n := toNano(u.Cost / float64(tokens))
		for {
			if old := t.perToken.Load(); n <= old || t.perToken.CompareAndSwap(old, n) {
				return
			}
		}
	}
}

func (m *meter) tariff(model string) *tariff {
	m.mu.Lock()
	defer m.mu.Unlock()

	t := m.known[model]
	if t == nil {
		t = &tariff{price: Price{Billing: m.o.Billing}}
		if m.o.Billing == "" {
			t.price = m.o.Prices.Lookup(m.o.Provider, model)
		}
		m.known[model] = t
	}

	return t
}

// Stream implements llm.Model.
func (m *meter) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		c := m.begin(req)
		c.mostPrompt, c.window = m.mostPrompt(req, c.tariff.scale.Apply(c.prompt)), m.o.Window
		h, notices, err := m.o.Ledger.reserve(ctx, ask{
			source:   c.entry.Source,
			turn:     req.TurnID,
			price:    c.tariff.expected(),
			prompt:   c.mostPrompt,
			answer:   req.MaxTokens,
			session:  req.SessionKey,
			provider: m.o.Provider,
			model:    req.Model,
		})
		if err != nil {
			yield(llm.Event{}, err)
			return
		}

		c.hold = h
		req.MaxTokens = h.answer
		defer c.abandon() // the caller left, or the model panicked
		if !tell(yield, notices) {
			return
		}

		c.sent = true
		for ev, err := range m.model.Stream(ctx, req) {
			if err != nil {
				c.failed(ctx, err)
				yield(llm.Event{}, err)
				return
			}

			c.saw(ev)
			if ev.Kind == llm.Done {
				if tell(yield, c.done(ev.Response)) {
					yield(ev, nil)
				}
				return
			}

			if !yield(ev, nil) {
				return
			}
		}

		c.failed(ctx, &llm.Error{Kind: llm.StreamTruncated})
	}
}

// tell sends notices; false means that the caller stopped reading.
func tell(yield func(llm.Event, error) bool, notices []string) bool {
	for _, n := range notices {
		if !yield(llm.Event{Kind: llm.Waiting, Text: n}, nil) {
			return false
		}
	}
	return true
}

// call is one request under way.
type call struct {
	l      *Ledger
	tariff *tariff
	hold   hold
	entry  Entry
	prompt int // tokens of the request, estimated and not corrected
	// mostPrompt is how many tokens were reserved for the request, and window how many
	// a request of the model can have; 0 is unknown.
	mostPrompt, window int
	answer             int // tokens that came so far, estimated
	start              time.Time
	sent               bool
	settled            bool
	doubted            bool // its provider reported what cannot be
}

func (m *meter) begin(req llm.Request) *call {
	source := req.Source
	if source == "" {
		source = "user"
	}
	return &call{
		l: m.o.Ledger, tariff: m.tariff(req.Model), prompt: estimate(req), start: m.o.Ledger.now(),
		entry: Entry{Turn: req.TurnID, Session: req.SessionKey, Source: source, Provider: m.o.Provider, Model: req.Model},
	}
}

// saw notes a piece of the answer.
func (c *call) saw(ev llm.Event) {
	switch ev.Kind {
	case llm.TextDelta, llm.ReasoningDelta, llm.ToolDelta:
		c.answer += text.Tokens(ev.Text)
	case llm.Done:
	default:
		return
	}
	if c.entry.TTFTMS == 0 {
		c.entry.TTFTMS = max(1, c.l.now().Sub(c.start).Milliseconds())
	}
}

// done settles a complete answer. A vendor that counted nothing is estimated.
func (c *call) done(resp *llm.Response) []string {
	u := resp.Usage
	if !c.isBelievable(u) {
		u = c.worst()
		resp.Usage = u // what the turn took must be a figure that can be believed
		c.doubted = true
		return append(c.disbelief(), c.settle(u, OutcomeOK)...)
	}

	if u.Prompt == 0 && u.Completion == 0 {
		n := text.Tokens(resp.Message.Content.String()) + text.Tokens(resp.Message.Reasoning)
		for _, call := range resp.Message.ToolCalls {
			n += text.Tokens(call.Name) + text.Tokens(call.Arguments)
		}
		u = llm.Usage{Prompt: c.tariff.scale.Apply(c.prompt), Completion: max(n, c.answer), Cost: u.Cost, Estimated: true}
	} else if !u.Estimated {
		c.tariff.scale.Observe(c.prompt, u.Prompt)
	}

	return c.settle(u, OutcomeOK)
}

// failed settles a call without an answer. What came before the failure was
// worked for and is paid for, so it is counted with our own estimate. A call
// that the vendor refused costs nothing; one that we gave up before its first
// word costs its prompt.
func (c *call) failed(ctx context.Context, err error) {
	outcome := string(llm.Connection)
	if e, ok := errors.AsType[*llm.Error](err); ok {
		outcome = string(e.Kind)
	}
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		outcome = OutcomeCancelled
	}
	c.settle(c.partial(outcome), outcome)
}

func (c *call) abandon() {
	if !c.settled {
		c.settle(c.partial(OutcomeCancelled), OutcomeCancelled)
	}
}

func (c *call) partial(outcome string) llm.Usage {
	given := outcome == OutcomeCancelled || outcome == string(llm.Timeout) || outcome == string(llm.StreamTruncated)
	if c.answer == 0 && (!given || !c.sent) {
		return llm.Usage{}
	}
	return llm.Usage{Prompt: c.tariff.scale.Apply(c.prompt), Completion: c.answer, Estimated: true}
}

func (c *call) settle(u llm.Usage, outcome string) []string {
	c.settled = true
	e := &c.entry
	e.Prompt = u.Prompt
	e.Completion = u.Completion
	e.Cached = u.Cached
	e.CacheWrite = u.CacheWrite
	e.Reasoning = u.Reasoning
	e.Estimated, e.Outcome = u.Estimated, outcome
	e.DurationMS = c.l.now().Sub(c.start).Milliseconds()
	p := c.tariff.price
	e.Billing = p.Billing

	switch {
	case u.Cost > 0 && (p.Billing == Priced || p.Billing == Unknown):
		e.Billing = Reported
		e.Cost = u.Cost
		e.USD = u.Cost
		e.Currency = usd
		c.tariff.reported(u)

	case c.doubted && c.hold.Nano > 0:
		e.Billing = Priced
		e.USD = fromNano(c.hold.Nano)
		e.Currency = usd
		e.Cost = e.USD

	case p.Billing == Priced:
		e.Cost, e.USD = p.Cost(u)
		e.Currency = p.Currency
	}

	c.tariff.billed(c.hold, e)
	notices := c.l.settle(c.hold, e)
	if c.l.watch != nil {
		c.l.watch(*e)
	}
	return notices
}

// mostPrompt returns how many tokens a vendor can count for a request: no
// tokenizer makes more of them than there are bytes, and no model takes more
// than its window. The estimate is what it will be about.
func (m *meter) mostPrompt(req llm.Request, estimate int) int {
	n := len(req.System) + framing
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema) + framing
	}

	for i := range req.Messages {
		msg := &req.Messages[i]
		n += framing + len(msg.Content.Text) + len(msg.Reasoning) + len(msg.ReasoningDetails)
		for _, b := range msg.Content.Blocks {
			if b.Type == "image_url" {
				n += largeImage
				continue
			}
			n += len(b.Text) + len(b.Raw)
		}

		for _, raw := range msg.Thinking {
			n += len(raw)
		}

		for _, c := range msg.ToolCalls {
			n += len(c.Name) + len(c.Arguments) + framing
		}
	}

	if m.o.Window > 0 {
		n = min(n, max(m.o.Window, 2*estimate))
	}
	return max(n, estimate)
}

const (
	framing    = 16   // tokens around a message
	largeImage = 6400 // tokens of the largest images
)

// imageTokens is the count for an image of usual size.
const imageTokens = 1600

// estimate says about how many tokens a request has.
func estimate(req llm.Request) int {
	if req.Estimate > 0 {
		return req.Estimate // counting again would cost more the longer the history is
	}

	n := text.Tokens(req.System)
	for _, t := range req.Tools {
		n += text.Tokens(t.Name) + text.Tokens(t.Description) + len(t.Schema)/4 + 8
	}

	for i := range req.Messages {
		m := &req.Messages[i]
		n += 4 + text.Tokens(m.Content.Text) + text.Tokens(m.Reasoning) + len(m.ReasoningDetails)/4
		for _, b := range m.Content.Blocks {
			if b.Type == "image_url" {
				n += imageTokens
				continue
			}
			n += text.Tokens(b.Text) + len(b.Raw)/4
		}

		for _, raw := range m.Thinking {
			n += len(raw) / 4
		}

		for _, c := range m.ToolCalls {
			n += text.Tokens(c.Name) + text.Tokens(c.Arguments) + 8
		}
	}

	return n
}
