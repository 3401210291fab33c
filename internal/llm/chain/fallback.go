// Package chain hides what happens between a request and the endpoints that may
// answer it: repetitions, change of keys, waiting for a slot, and the choice of
// another model. Each decorator is an llm.Model around an llm.Model: Retry, Rotate
// (several keys), Throttle (slots and rate) and Fallback (several models, with
// Breakers for endpoints that are down). Fallback documents their order.
package chain

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// rememberedTurns bounds the turns and sessions whose link is remembered.
const rememberedTurns = 512

// Link is one model of a fallback chain.
type Link struct {
	// Model answers; it does its own retries.
	Model llm.Model
	// Name is how the user knows the model, such as "openai/gpt-5".
	Name string
	// Adjust puts the model name, token limit, temperature and effort of this
	// link into a copy of the request; nil leaves it as it is. It must not
	// modify what the request points to.
	Adjust func(llm.Request) llm.Request
	// Window is the context window in tokens; 0 means unknown.
	Window int
	// Attempt bounds the wall clock of one attempt; 0 means no bound. A stream
	// that has begun to flow has twice the time. Waiting for a slot, or before
	// another attempt, does not count; as nothing says when a wait is over, an
	// attempt after one may take up to 30 s more. When the time is over the link
	// has failed with a Timeout and the next one is asked.
	Attempt time.Duration
	// Breaker is asked before the model is; nil lets every request through.
	Breaker *Breaker
}

// FallbackOptions tune Fallback.
type FallbackOptions struct {
	Log *slog.Logger // nil: no log
}

// Fallback makes one model of several: the first link answers, and when it
// fails in a way that another model may not, the next one is asked, each at
// most once per request. FallsBack is the decision. A prompt too long for one
// link goes only to links with a larger window; without any, the error is
// returned for the caller to shorten the prompt. Once text was shown, only a
// timeout or a cut stream is answered by another link, after a Restarted event.
//
// A turn that had to leave a link does not return to it before its end, unless
// all others fail too: a switch loses the vendor's cache and signed thinking.
// The user hears about a switch by one Waiting event just before Done, and not
// again until the first link answered in between. When all links fail, the
// error is the last one, with the chain named.
//
// Links whose Breaker is open are skipped. When that leaves none, a request
// that a person waits for is tried all the same; background work is refused.
//
// The order of decorators, from the wire outwards:
//
//	Meter(driver)    counts and budgets each single attempt
//	Throttle(...)    slots and rate of one endpoint or key
//	Rotate(keys)     one of the above per key
//	Retry(...)       standard mode
//	Link{Breaker}    one per endpoint and its keys
//	Fallback(links)
//	Retry(...)       only in persistent mode: it repeats the whole chain
func Fallback(links []Link, o FallbackOptions) llm.Model {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &fallback{links: slices.Clone(links), log: o.Log, turns: recent.New[string, int](rememberedTurns), announced: recent.New[string, int](rememberedTurns)}
}

type fallback struct {
	links     []Link
	log       *slog.Logger
	turns     *recent.Map[string, int] // TurnID -> the link that answered
	announced *recent.Map[string, int] // SessionKey -> the link the user heard of
}

// FallsBack reports whether another model may succeed where one failed with e.
// The first rule that fits decides. ContextLength is no: whether a larger
// window exists is known only to the chain.
func FallsBack(e *llm.Error) bool {
	switch e.Kind {
	case llm.Billing, llm.Auth, llm.Permission:
		return true
	case llm.ContentFilter, llm.Refused, llm.ContextLength, llm.InvalidRequest:
		return false
	case llm.NotFound: // this endpoint lacks the model, another has its own
		return true
	case llm.Connection:
		// Nothing came back, so the verdict below is ours and is about asking
		// the same host again: an unknown name, a bad certificate.
		return true
	}

	switch {
	case e.Status == 401 || e.Status == 403:
		return true
	case e.ShouldRetry != nil && !*e.ShouldRetry:
		return false
	case e.Status == 400 || e.Status == 404 || e.Status == 422:
		return false
	case e.ShouldRetry != nil:
		return true
	case e.Status == 408 || e.Status == 409 || e.Status == 429 || e.Status >= 500:
		return true
	}

	switch e.Kind {
	case llm.Timeout, llm.ServerError, llm.RateLimited, llm.Overloaded, llm.StreamTruncated, llm.Empty:
		return true
	}
	return false
}

// attended reports whether a person waits for the answer.
func attended(req llm.Request) bool {
	switch req.Source {
	case "", "user", "api", "subagent":
		return true
	}
	return llm.IsGuest(req.Source)
}

// Stream implements Model.
func (f *fallback) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		run := fallbackRun{f: f, req: req, yield: yield}
		order := f.order(req.TurnID)
		finished, err := run.chain(ctx, order, false)
		if !finished && len(run.asked) == 0 && attended(req) {
			slices.SortStableFunc(order, func(a, b int) int { return run.paused[a].Until.Compare(run.paused[b].Until) })
			finished, err = run.chain(ctx, order, true)
		}
		if !finished {
			err = run.final()
		}
		if err != nil {
			yield(llm.Event{}, err)
		}
	}
}

// order lists the links as they are tried: from the one this turn is on to the
// end, then the earlier ones.
func (f *fallback) order(turn string) []int {
	first, _ := f.turns.Get(turn)
	out := make([]int, len(f.links))
	for i := range out {
		out[i] = (first + i) % len(f.links)
	}
	return out
}

// fallbackRun is one request on its way along the chain.
type fallbackRun struct {
	f        *fallback
	req      llm.Request
	yield    func(llm.Event, error) bool
	shown    llm.EventKind // the most visible delta that left and is not void
	asked    []int         // links in the order they were asked
	failures map[int]*llm.Error
	paused   map[int]pause // links that were skipped
	last     *llm.Error
	overflow *llm.Error // a prompt that was too long, on its way to a larger window
	need     int        // the window that was too small
}

// chain asks the links in order. finished means that the stream is over: an answer,
// a caller that stopped reading, or the returned error. Otherwise final has the
// error.
func (run *fallbackRun) chain(ctx context.Context, order []int, force bool) (finished bool, err error) {
	for _, i := range order {
		link := run.f.links[i]
		if run.overflow != nil && link.Window <= run.need {
			continue
		}

		p, refused := link.Breaker.enter(ctx, force)
		if refused.ID != "" {
			if run.paused == nil {
				run.paused = map[int]pause{}
			}
			run.paused[i] = refused
			continue
		}

		if run.shown != 0 {
			run.shown = 0
			if !run.yield(llm.Event{Kind: llm.Restarted}, nil) {
				p.report(ctx, errAbandoned)
				return true, nil
			}
		}

		done, err := run.ask(ctx, i, p)
		if done {
			return true, nil
		}
		if ctx.Err() != nil {
			return true, ctx.Err()
		}

		e, ok := errors.AsType[*llm.Error](err)
		if !ok {
			return true, err
		}
		if !run.next(ctx, i, e) {
			return true, run.final()
		}
	}
	return false, nil
}

var (
	errAbandoned = errors.New("the caller stopped reading")
	errOutOfTime = errors.New("the attempt took too long")
)

// ask makes the call of one link and hands on its events. done means that the
// answer is complete or the caller stopped reading.
func (run *fallbackRun) ask(ctx context.Context, i int, p *pass) (done bool, err error) {
	link := run.f.links[i]
	outcome := errAbandoned
	defer func() { p.report(context.WithoutCancel(ctx), outcome) }()
	actx, clock := startClock(ctx, link.Attempt)
	defer clock.stop()
	req := run.req
	if link.Adjust != nil {
		req = link.Adjust(req)
	}

	for ev, err := range link.Model.Stream(actx, req) {
		if err != nil {
			if ctx.Err() == nil && errors.Is(context.Cause(actx), errOutOfTime) {
				err = &llm.Error{Kind: llm.Timeout, Provider: link.Name, Message: fmt.Sprintf("no complete answer within %s", clock.limit), Err: errOutOfTime}
			}
			if e, ok := errors.AsType[*llm.Error](err); ok && ctx.Err() == nil {
				outcome = e
			}
			return false, err
		}

		switch ev.Kind {
		case llm.TextDelta:
			run.shown = llm.TextDelta
			clock.flows()
		case llm.ReasoningDelta, llm.ToolDelta, llm.HostedTool:
			if run.shown == 0 {
				run.shown = llm.ReasoningDelta
			}
			clock.flows()

		case llm.Restarted:
			run.shown = 0
			clock.again(0)
		case llm.Waiting:
			clock.again(heartbeat)
		case llm.Done:
			outcome = nil
			if !run.announceLink(ctx, i) {
				return true, nil
			}

			if i > 0 && ev.Response != nil {
				r := *ev.Response // the driver's own
				r.FallbackModel = link.Name
				ev.Response = &r
			}
		}

		if !run.yield(ev, nil) || ev.Kind == llm.Done {
			return true, nil
		}
	}

	e := &llm.Error{Kind: llm.StreamTruncated, Provider: link.Name, Message: "the stream ended without an answer"}
	outcome = e
	return false, e
}

// next records the failure of a link and decides whether another one is asked.
func (run *fallbackRun) next(ctx context.Context, i int, e *llm.Error) bool {
	run.last = e
	run.asked = append(run.asked, i)
	if run.failures == nil {
		run.failures = map[int]*llm.Error{}
	}

	run.failures[i] = e
	link := run.f.links[i]
	switch {
	case e.Kind == llm.ContextLength && run.shown == 0:
		size := link.Window
		if e.ContextLimit > 0 {
			size = e.ContextLimit
		}
		if size > 0 {
			run.overflow, run.need = e, max(run.need, size)
		}

		if run.overflow == nil || !slices.ContainsFunc(run.f.links, func(l Link) bool { return l.Window > run.need }) {
			return false
		}

	case !FallsBack(e):
		return false
	case run.shown == llm.TextDelta && e.Kind != llm.Timeout && e.Kind != llm.StreamTruncated:
		return false
	}

	run.f.log.WarnContext(ctx, "model failed, trying the next one", "model", link.Name, "kind", e.Kind, "session", run.req.SessionKey, "turn", run.req.TurnID, "err", e)
	return true
}

// announceLink remembers which link answered and tells the user if that is news;
// false means that the caller stopped reading.
func (run *fallbackRun) announceLink(ctx context.Context, i int) bool {
	who := run.req.SessionKey
	if who == "" {
		who = run.req.TurnID
	}

	if i == 0 {
		run.f.turns.Delete(run.req.TurnID)
		run.f.announced.Delete(who)
		return true
	}

	if run.req.TurnID != "" {
		run.f.turns.Put(run.req.TurnID, i)
	}

	if known, ok := run.f.announced.Get(who); ok && known == i {
		return true
	}

	if who != "" {
		run.f.announced.Put(who, i)
	}
	return run.yield(llm.Event{Kind: llm.Waiting, Text: run.notice(ctx, i)}, nil)
}

// notice tells who answered, and what the trouble with the first link was.
func (run *fallbackRun) notice(ctx context.Context, i int) string {
	answered := "Answered by " + run.f.links[i].Name
	for _, j := range run.f.order("") {
		if e := run.failures[j]; e != nil {
			return fmt.Sprintf("%s, because %s %s.", answered, run.f.links[j].Name, complaint(e.Kind))
		}
		if p, ok := run.paused[j]; ok {
			return fmt.Sprintf("%s, because %s %s; it is tried again after %s.", answered, run.f.links[j].Name, complaint(p.Kind), phrase.Clock(ctx, p.Until))
		}
	}

	return answered + "."
}

// complaint returns what the user hears about a failed model, after its name.
func complaint(k llm.Kind) string {
	switch k {
	case llm.Timeout:
		return "did not answer in time"
	case llm.Connection:
		return "cannot be reached"
	case llm.RateLimited:
		return "limits the rate"
	case llm.Overloaded:
		return "is overloaded"
	case llm.Auth:
		return "rejected the key"
	case llm.Permission:
		return "does not allow the request"
	case llm.Billing:
		return "is out of credit"
	case llm.NotFound:
		return "does not know the model"
	case llm.ContextLength:
		return "has too small a window"
	case llm.StreamTruncated:
		return "broke off its answer"
	case llm.Empty:
		return "answered with nothing"
	}
	return "has a problem"
}

// final returns the error of a request that no link answered.
func (run *fallbackRun) final() error {
	e := run.last
	switch {
	case e == nil && len(run.paused) == 0:
		return &llm.Error{Kind: llm.Configuration, Message: "no model is configured"}
	case e == nil:
		return run.refusal()
	case run.overflow != nil:
		e = run.overflow // the caller can shorten the prompt, and then all is well
	}

	if len(run.f.links) < 2 || len(run.asked) < 2 && len(run.paused) == 0 {
		return e
	}

	cp := *e
	if note := " (tried " + run.story() + ")"; len([]rune(note)) < 400 {
		cp.Message = text.Ellipsis(e.Message, 500-len([]rune(note))) + note
	}
	return &cp
}

// story lists what became of each link.
func (run *fallbackRun) story() string {
	parts := make([]string, 0, len(run.f.links))
	for _, i := range run.asked {
		parts = append(parts, fmt.Sprintf("%s: %s", run.f.links[i].Name, run.failures[i].Kind))
	}

	for i, l := range run.f.links {
		if _, ok := run.paused[i]; ok && run.failures[i] == nil {
			parts = append(parts, l.Name+": paused")
		}
	}
	return strings.Join(parts, ", ")
}

// refusal returns the error of background work while all endpoints are left alone.
// It is the kind of trouble that caused the pause that ends first.
func (run *fallbackRun) refusal() *llm.Error {
	var first pause
	name := ""
	for i, l := range run.f.links {
		if p, ok := run.paused[i]; ok && (name == "" || p.Until.Before(first.Until)) {
			first, name = p, l.Name
		}
	}

	no := false
	return &llm.Error{
		Kind: first.Kind, Provider: name, ShouldRetry: &no, RetryAfter: max(first.Until.Sub(wall()), time.Second),
		Message: "not asked, because it failed repeatedly; it is tried again after " + first.Until.Local().Format(time.TimeOnly),
	}
}
