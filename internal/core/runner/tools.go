package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const (
	refusedLoop   = "Error: this same call was made before with the same result and is not run again. Change something or answer the user."
	warnLoop      = "\n\n[You made this call %d times with the same result. Do something else or answer the user.]"
	tooManyCalls  = "Your last reply had too many tool calls: the first %d were run, %d were not. Make at most a few at a time."
	skipped       = "Error: not run, because an earlier call of this batch failed."
	sideEffectOdd = "\n\n[It may have taken effect before it failed; check before trying again.]"
)

// prepared is a call that is ready to run, or already has its result.
type prepared struct {
	call  llm.ToolCall
	tool  tool.Tool
	req   tool.Call
	ready *tool.Result // set when the call does not run
}

// runTools records the model's calls, runs them and records each result as it
// finishes.
func (r *run) runTools(ctx context.Context, it *Iteration, resp llm.Response) (next, error) {
	r.closeSegment(ctx, true)
	r.empty = 0
	r.lengths = 0
	r.malformed = 0
	r.fragments = ""
	r.transient = nil
	left := len(resp.Message.ToolCalls) - replyCalls
	if left > 0 {
		r.log.WarnContext(ctx, "a reply has too many tool calls; the rest is left out", "calls", replyCalls+left, "session", r.Call.SessionKey)
		resp.Message.ToolCalls = resp.Message.ToolCalls[:replyCalls]
	}

	r.freshIDs(&resp.Message)
	if resp.Message.Content.Blocks == nil {
		resp.Message.Content.Text = strings.TrimSpace(resp.Message.Content.Text)
	}

	if err := r.record(ctx, r.withoutSecrets(resp.Message)); err != nil {
		return done, err
	}

	it.Calls, it.said = resp.Message.ToolCalls, ""
	r.hooks.beforeTools(ctx, it)

	calls := make([]prepared, len(it.Calls))
	polling := true
	for i, c := range it.Calls {
		calls[i] = r.prepare(c)
		polling = polling && calls[i].tool.Polling
	}

	r.calls.n += len(calls)
	refuse := r.calls.loop.next(signature(it.Calls)) && !polling
	if refuse {
		r.calls.loop.refused++
		for i := range calls {
			calls[i].ready = &tool.Result{Content: llm.Text(refusedLoop), IsError: true, Code: tool.DeniedPolicy}
		}
	}

	results, fatal, err := r.execute(ctx, it, calls)
	if err != nil {
		return done, err
	}
	if ctx.Err() != nil {
		return r.failed(ctx, it, context.Cause(ctx))
	}

	if !refuse {
		r.calls.loop.ran(resultSignature(results))
	}

	switch {
	case fatal != nil:
		return r.fatalTool(ctx, it, fatal)
	case r.calls.loop.refused >= loopEnd:
		r.drains = drainCycles
		msg := phrase.Of(ctx, "I stopped: I made the same call (%s) again and again and got the same result each time. Please tell me how to go on.", it.Calls[0].Name)
		return r.finish(ctx, it, llm.Message{}, msg, LoopDetected)
	}

	for _, c := range calls {
		if c.ready != nil && c.ready.EndTurn {
			r.res.Stop = Completed
			return done, nil
		}
	}

	if !polling && !refuse && r.calls.loop.count >= loopWarn {
		r.transient = []llm.Message{{Role: llm.User, Content: llm.Text(strings.TrimSpace(fmt.Sprintf(warnLoop, r.calls.loop.count)))}}
	}
	if left > 0 {
		r.transient = append(r.transient, llm.Message{Role: llm.User, Content: llm.Text(fmt.Sprintf(tooManyCalls, replyCalls, left))})
	}

	r.drain(ctx)
	return again, nil
}

// freshIDs gives calls without an id, or with one used before in this
// conversation, an id of their own: results are matched and stored by it.
func (r *run) freshIDs(m *llm.Message) {
	if r.calls.ids == nil {
		r.calls.ids = map[string]bool{}
		for _, old := range r.conversation() {
			for _, c := range old.ToolCalls {
				r.calls.ids[c.ID] = true
			}
		}
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		for n := len(r.Messages) + len(r.added); c.ID == "" || r.calls.ids[c.ID]; n++ {
			c.ID = uniqueID(c.ID, n+i)
		}
		r.calls.ids[c.ID] = true
	}
}

// prepare checks a call up to the point where it could run.
func (r *run) prepare(c llm.ToolCall) prepared {
	p := prepared{call: c, req: r.Call}
	t, input, bad := r.Tools.Prepare(c.Name, c.Arguments)
	p.req.ID = c.ID
	p.req.Name = c.Name
	p.req.Input = input
	p.req.MaxChars = r.Limits.ToolResultChars

	if bad != nil {
		p.ready = bad
		return p
	}

	p.tool, p.req.Name = t, t.Name // of which the model may know an older one
	if key := lookupKey(c.Name, input); key != "" {
		if r.calls.lookups[key]++; r.calls.lookups[key] > 2 {
			res := tool.Fail(tool.DeniedPolicy, "this was looked up twice already in this turn; use what you have")
			p.ready = &res
		}
	}
	return p
}

// finished is one result on its way from a worker to the recording loop.
type finished struct {
	i    int
	res  tool.Result
	err  error
	took time.Duration
}

// execute runs the calls batch by batch. Neighbouring calls that are safe side
// by side form one batch; any other call is a batch of its own. Results are
// recorded in the order they finish and returned in call order.
func (r *run) execute(ctx context.Context, it *Iteration, calls []prepared) (results []llm.Message, fatal, err error) {
	msgs := make([]llm.Message, len(calls))
	first := len(r.added)
	for start := 0; start < len(calls); {
		end := start + 1
		if !r.Sequential && calls[start].tool.Concurrent() {
			for end < len(calls) && end-start < parallelTools && calls[end].tool.Concurrent() {
				end++
			}
		}

		if ctx.Err() != nil {
			break // calls that never started are answered by recovery
		}

		if calls[start].tool.Run != nil && !calls[start].tool.ReadOnly && calls[start].ready == nil {
			if err := r.Sync(ctx); err != nil {
				return nil, nil, fmt.Errorf("sync before %s: %w", calls[start].call.Name, err)
			}
		}

		ch := make(chan finished, end-start) // every worker can finish without a reader
		for i := start; i < end; i++ {
			go func() {
				f := finished{i: i, res: tool.Fail(tool.Internal, "%s ended without a result", calls[i].call.Name)}
				f.res.MayHaveRun = !calls[i].tool.ReadOnly
				defer func() { ch <- f }() // also for a tool that ends its goroutine
				f = r.runOne(ctx, i, &calls[i])
			}()
		}

		for range end - start {
			f := <-ch
			m := r.normalise(ctx, calls[f.i], f.res)
			if rerr := r.record(ctx, m); rerr != nil && err == nil {
				err = rerr
			}

			msgs[f.i] = m
			calls[f.i].ready = &f.res
			if f.err != nil && fatal == nil {
				fatal = f.err
			} else if f.res.IsError && r.FailOnToolError && fatal == nil {
				fatal = errors.New(strings.TrimPrefix(text.Cut(f.res.Content.String(), 500), "Error: "))
			}

			r.event(it, calls[f.i], f)
		}

		if err != nil {
			return nil, nil, err
		}

		start = end
		if fatal != nil {
			if err := r.skip(ctx, calls[start:], msgs[start:]); err != nil {
				return nil, nil, err
			}
			break
		}
	}

	// In memory the results stand in call order, whatever order they finished in.
	if len(r.added)-first == len(msgs) {
		copy(r.added[first:], msgs)
	}
	return msgs, fatal, nil
}

// skip answers calls that no longer run.
func (r *run) skip(ctx context.Context, calls []prepared, msgs []llm.Message) error {
	for i, p := range calls {
		msgs[i] = llm.Message{Role: llm.ToolRole, ToolCallID: p.call.ID, Name: p.call.Name, IsError: true, Content: llm.Text(skipped)}
		if err := r.record(ctx, msgs[i]); err != nil {
			return err
		}
	}
	return nil
}

// runOne executes one prepared call.
func (r *run) runOne(ctx context.Context, i int, p *prepared) finished {
	if p.ready != nil {
		return finished{i: i, res: *p.ready}
	}

	if veto := r.hooks.beforeTool(ctx, p.req); veto != nil {
		res := tool.Fail(tool.DeniedApproval, "%v", veto)
		r.hooks.afterTool(ctx, p.req, res, 0) // what was announced is also ended
		return finished{i: i, res: res}
	}

	p.req.Tainted = p.req.Tainted || r.tainted.Load()
	if no := r.begin(ctx, p); no != nil {
		r.end(ctx, p, *no, 0)
		return finished{i: i, res: *no}
	}

	start := time.Now()
	res, err := tool.Execute(ctx, p.tool, p.req, r.log)
	switch _, fatal := errors.AsType[*tool.FatalError](err); {
	case err == nil:
	case ctx.Err() != nil:
		res, err = tool.Fail(tool.Cancelled, "%s was stopped", p.call.Name), nil
		res.MayHaveRun = !p.tool.ReadOnly
	default:
		res = tool.Fail(tool.Internal, "%v", err)
		res.MayHaveRun, res.Untrusted = !p.tool.ReadOnly, !p.tool.Trusted
		if !fatal {
			err = nil // the model reads it
		}
	}

	if res.Untrusted {
		r.tainted.Store(true)
	}

	took := time.Since(start)
	r.end(ctx, p, res, took)
	return finished{i, res, err, took}
}

// begin asks the guard about a call. One that panics has not approved.
func (r *run) begin(ctx context.Context, p *prepared) (no *tool.Result) {
	if r.Guard == nil {
		return nil
	}
	if r.hooks.guard(ctx, "approve", func() { no = r.Guard.Begin(ctx, p.tool, p.req) }) {
		res := tool.Fail(tool.DeniedApproval, "the check of this call failed")
		no = &res
	}
	return no
}

// end tells the hooks and the guard what came of a call that the guard was asked about.
func (r *run) end(ctx context.Context, p *prepared, res tool.Result, took time.Duration) {
	r.hooks.afterTool(ctx, p.req, res, took)
	if r.Guard != nil {
		r.hooks.guard(ctx, "end of a call", func() { r.Guard.End(ctx, p.req, res) })
	}
}

// fatalTool ends the run because a tool failed for good.
func (r *run) fatalTool(ctx context.Context, it *Iteration, fatal error) (next, error) {
	r.res.Err, it.Err = fatal, fatal
	r.hooks.onError(ctx, it, fatal)
	step, err := r.finish(ctx, it, llm.Message{IsError: true}, phrase.Of(ctx, "Error: %v", fatal), ToolError)
	if step == again {
		r.res.Err = nil
	}
	return step, err
}

func (r *run) event(it *Iteration, p prepared, f finished) {
	said := f.res.Content.String()
	e := ToolEvent{CallID: p.call.ID, Name: p.call.Name, OK: !f.res.IsError, Detail: text.Cut(text.FirstLine(said, 0), 120), Receipt: receipt(p, f, len(said))}
	it.Events = append(it.Events, e)
	if f.res.Code == tool.DeniedApproval && f.res.IsError && r.res.Refused == "" {
		why, _, _ := strings.Cut(text.FirstLine(said, 0), ". It was not run")
		r.res.Refused = p.call.Name + ": " + text.Cut(strings.TrimPrefix(why, "Error: "), 400)
	}
	r.res.Tools = append(r.res.Tools, e)
}

// receipt says what really happened to a call.
func receipt(p prepared, f finished, size int) bus.Receipt {
	args := []byte(p.req.Input)
	if args == nil { // it was refused before it had arguments
		args = []byte(p.call.Arguments)
	}

	sum := sha256.Sum256(args)
	rc := bus.Receipt{
		CallID: p.call.ID, Name: p.call.Name, ArgsSHA256: hex.EncodeToString(sum[:]), Status: "ok",
		DurationMS: f.took.Milliseconds(), Bytes: size,
	}
	if f.res.IsError {
		rc.Status, rc.Code = "error", string(f.res.Code)
		if f.res.Code.Denied() {
			rc.Status = "denied"
		}
	}
	return rc
}

// withoutSecrets takes known secrets out of what the model said and of the
// calls it made, for the log and for the next request; what runs is decided
// with the original.
func (r *run) withoutSecrets(m llm.Message) llm.Message {
	if r.Redact == nil {
		return m
	}

	m.Content = r.redact(m.Content)
	for i, c := range m.ToolCalls {
		if clean := r.Redact(c.Arguments); clean != c.Arguments {
			m.ToolCalls = slices.Clone(m.ToolCalls)
			m.ToolCalls[i].Arguments = clean
		}
	}
	return m
}

// redact takes known secrets out of a result.
func (r *run) redact(c llm.Content) llm.Content {
	if r.Redact == nil {
		return c
	}
	if c.Blocks == nil {
		return llm.Text(r.Redact(c.Text))
	}

	blocks := slices.Clone(c.Blocks)
	for i := range blocks {
		blocks[i].Text = r.Redact(blocks[i].Text)
	}
	return llm.Content{Blocks: blocks}
}

// remarked adds a line of ours to a result.
func remarked(c llm.Content, line string) llm.Content {
	if c.Blocks == nil {
		return llm.Text(c.Text + "\n\n" + line)
	}
	return llm.Content{Blocks: append(slices.Clone(c.Blocks), llm.Block{Type: "text", Text: line})}
}

// normalise turns a tool result into the message the model sees: never empty,
// never too long, errors followed by a hint.
func (r *run) normalise(ctx context.Context, p prepared, res tool.Result) llm.Message {
	res.Content = r.redact(res.Content)
	m := llm.Message{Role: llm.ToolRole, ToolCallID: p.call.ID, Name: p.call.Name, Content: res.Content, IsError: res.IsError}
	switch {
	case res.Content.Blank():
		m.Content = llm.Text("(" + p.call.Name + " completed with no output)")
	case !res.Whole:
		m.Content = r.offload(ctx, p, res.Content)
	}

	if res.Untrusted {
		m.Content = Fence(m.Content, p.call.ID, p.call.Name)
	}
	if res.Remark != "" {
		m.Content = remarked(m.Content, "["+res.Remark+"]")
	}

	if res.IsError && m.Content.Blocks == nil {
		suffix := tool.Hint
		if res.MayHaveRun {
			suffix = sideEffectOdd
		}

		if key := targetKey(p.req.Input); res.Code == tool.DeniedPolicy && key != "" {
			if r.calls.boundary[key]++; r.calls.boundary[key] >= 3 {
				suffix = "\n\n[This was refused three times. It is a hard boundary: stop trying and ask the user.]"
			}
		}

		m.Content.Text += suffix
	}

	return m
}
