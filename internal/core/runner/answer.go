package runner

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Texts the runner speaks itself. They are either shown to the user or sent to
// the model once and never stored.
const (
	emptyText    = "I worked through the steps but ended up without an answer. Please ask again, perhaps in smaller pieces."
	refusedText  = "The model declined to answer this."
	askAnswer    = "You returned nothing. Write your answer to the user now, in plain text, without calling tools."
	askMalformed = "Your last tool call had no name. Make it again as a proper tool call, or answer in plain text."
	askShorter   = "Your last tool call was cut off by the output limit and was not run. Make it again with shorter arguments; write long files in several parts."
	askWrapUp    = "The limit of steps for this turn is reached. Without calling tools, tell the user briefly what is done and what remains."
)

// textAnswer handles a response that asks for no tools.
func (r *run) textAnswer(ctx context.Context, it *Iteration, resp llm.Response) (next, error) {
	resp.Message.ToolCalls = nil
	final := r.hooks.finalize(ctx, it, resp.Message.Content.String())
	blank := strings.TrimSpace(final) == ""

	if beganAgain(r.fragments, final) {
		if resp.Finish != llm.FinishLength || len(final) > len(r.fragments) {
			r.fragments, it.glue = "", "" // it has all that was said before, and more
		} else {
			final = ""
		}
		if resp.Finish == llm.FinishLength {
			r.res.Cut = true
			return endRepeated(ctx, r, it, final)
		}
	}

	switch {
	case blank && resp.Finish == llm.FinishStop && r.fragments == "":
		return r.emptyAnswer(ctx, it)
	case resp.Finish == llm.FinishLength && r.lengths < lengthRecoveries && (!blank || r.fragments != ""):
		r.res.Cut = true // unless it goes on
		if tail := strings.TrimSpace(final); len(tail) >= anchorChars && strings.Contains(r.fragments, tail) {
			return endRepeated(ctx, r, it, "") // it began again
		}
		if piece, _ := repeats([]byte(r.fragments+it.glue+final), whenCut()); piece > 0 {
			return endRepeated(ctx, r, it, final)
		}

		r.lengths++
		r.fragments += it.glue + final
		r.trail = it.trail
		r.transient = []llm.Message{
			{Role: llm.Assistant, Content: llm.Text(r.fragments)},
			{Role: llm.User, Content: llm.Text(continuePrompt(r.fragments))},
		}
		return again, nil
	}

	if r.fragments != "" {
		final = r.fragments + it.glue + final
		r.fragments, r.transient = "", nil
	}

	stop := Completed
	r.res.Cut = resp.Finish == llm.FinishLength || it.cut
	if resp.Finish == llm.FinishRefusal || resp.Finish == llm.FinishFilter {
		stop = Refused
		if blank {
			final = phrase.Of(ctx, refusedText)
		}
	}

	if strings.TrimSpace(final) == "" {
		return r.emptyAnswer(ctx, it)
	}
	return r.finish(ctx, it, resp.Message, final, stop)
}

// beganAgain reports whether an answer that should go on where the last one was cut
// begins at the same beginning. Joining them would say everything twice.
func beganAgain(before, piece string) bool {
	before, piece = strings.TrimSpace(before), strings.TrimSpace(piece)
	if before == "" {
		return false
	}
	if before == piece {
		return true
	}
	n := min(len(before), anchorChars)
	return n >= beginningChars && strings.HasPrefix(piece, before[:n])
}

// finish records the answer and ends the run, unless new user input arrived.
func (r *run) finish(ctx context.Context, it *Iteration, m llm.Message, final string, stop Stop) (next, error) {
	if m.Content.Blocks == nil || m.Content.String() != final {
		m.Content = llm.Text(final)
	}

	m.Role = llm.Assistant
	if err := r.record(ctx, m); err != nil {
		return done, err
	}

	r.res.Text = final
	r.res.Stop = stop
	r.transient = nil
	r.res.Streamed = it.streamed && r.hooks.streaming

	if !r.Whole && r.drain(ctx) {
		r.closeSegment(ctx, true)
		r.empty, r.lengths = 0, 0
		return again, nil
	}

	r.closeSegment(ctx, false)
	return done, nil
}

// emptyAnswer repeats the request once, then asks in words, then gives up.
func (r *run) emptyAnswer(ctx context.Context, it *Iteration) (next, error) {
	if r.empty++; r.empty < emptyRetries {
		r.closeSegment(ctx, true)
		return again, nil
	}

	if r.empty == emptyRetries {
		r.transient = []llm.Message{{Role: llm.User, Content: llm.Text(askAnswer)}}
		resp, err := r.request(ctx, it, nil, "")
		r.transient = nil
		if err != nil {
			return r.failed(ctx, it, err)
		}
		if s := strings.TrimSpace(r.hooks.finalize(ctx, it, resp.Message.Content.String())); s != "" {
			resp.Message.ToolCalls = nil
			return r.finish(ctx, it, resp.Message, s, Completed)
		}
	}

	it.streamed = false
	return r.finish(ctx, it, llm.Message{}, phrase.Of(ctx, emptyText), EmptyFinal)
}

// cutCalls answers tool calls that were cut by the output limit: they never
// run; the model is asked to make them again, shorter.
func (r *run) cutCalls(ctx context.Context, it *Iteration, resp llm.Response) (next, error) {
	if r.lengths++; r.lengths > lengthRecoveries {
		resp.Message.ToolCalls = nil
		return r.finish(ctx, it, llm.Message{}, phrase.Of(ctx, "The model tried to make a tool call that is longer than its output limit. Raise agents.defaults.maxTokens or ask for smaller steps."), ModelError)
	}

	r.log.WarnContext(ctx, "tool call cut off by the output limit, not run", "session", r.Call.SessionKey)
	r.closeSegment(ctx, true)
	r.transient = nil
	if !resp.Message.Content.Blank() {
		r.transient = append(r.transient, llm.Message{Role: llm.Assistant, Content: resp.Message.Content})
	}

	r.transient = append(r.transient, llm.Message{Role: llm.User, Content: llm.Text(askShorter)})
	return again, nil
}

// malformedCalls handles an answer whose every tool call lacked a name.
func (r *run) malformedCalls(ctx context.Context, it *Iteration) (next, error) {
	if r.malformed++; r.malformed == 1 {
		r.closeSegment(ctx, true)
		r.transient = []llm.Message{{Role: llm.User, Content: llm.Text(askMalformed)}}
		return again, nil
	}
	r.empty = emptyRetries - 1
	return r.emptyAnswer(ctx, it)
}

// failed ends the run after an error of the model call. It keeps the beginning of
// the answer, if there is one.
func (r *run) failed(ctx context.Context, it *Iteration, err error) (next, error) {
	if errors.Is(err, errTurnTime) {
		return done, r.stopBudget(context.WithoutCancel(ctx), it, "time", r.Limits.Time.Round(time.Second).String())
	}

	r.closeSegment(ctx, false)
	said := r.unfinished(it)
	if ctx.Err() != nil {
		r.res.Stop, r.res.Err, r.res.Text = Cancelled, context.Cause(ctx), said
		it.Err = r.res.Err
		return done, nil //nolint:nilerr // a stop is an ordinary end
	}

	r.res.Stop = ModelError
	r.res.Err = err
	it.Err = err
	r.hooks.onError(ctx, it, err)

	// A short placeholder keeps the history alternating; the raw error never enters it.
	// It is marked, so that it is not taken for an answer.
	if r.last().Role != llm.Assistant {
		if rerr := r.record(ctx, llm.Message{Role: llm.Assistant, IsError: true, Content: llm.Text(cmp.Or(said, NoAnswer))}); rerr != nil {
			return done, rerr
		}
	}

	if r.res.Text = said; r.hooks.streaming {
		r.res.Text = "" // it was shown
	}

	if !r.Whole && r.drain(ctx) {
		r.res.Err = nil
		return again, nil
	}
	return done, nil
}

// unfinished returns the beginning of an answer that has no end, and forgets it.
func (r *run) unfinished(it *Iteration) string {
	said := strings.TrimSpace(r.fragments + it.glue + it.said)
	r.fragments, r.transient = "", nil
	return said
}

// NoAnswer stands in the history where an answer should be.
const NoAnswer = "[No answer: the model call failed.]"

// exhausted ends a run that used up its iterations with a summary by the model
// or, if that fails, with a fixed text; without both if another run goes on.
func (r *run) exhausted(ctx context.Context) error {
	if r.transient = nil; ctx.Err() == nil && r.hooks.continues(ctx) {
		r.res.Stop = MaxIterations
		return nil
	}

	it := &Iteration{Number: r.iteration + 1, run: r}
	r.transient = []llm.Message{{Role: llm.User, Content: llm.Text(askWrapUp)}}
	final := ""
	if resp, err := r.request(ctx, it, nil, ""); err == nil && len(resp.Message.ToolCalls) == 0 {
		final = strings.TrimSpace(r.hooks.finalize(ctx, it, resp.Message.Content.String()))
	}

	r.transient = nil
	if ctx.Err() != nil {
		_, err := r.failed(ctx, it, ctx.Err())
		return err
	}

	if final == "" {
		it.streamed = false
		final = phrase.Of(ctx, "I stopped after %d steps without finishing. Say \"continue\" to go on, or split the task into smaller parts.", r.Limits.Iterations)
	}

	r.drains = drainCycles // what arrives now waits for the next turn
	_, err := r.finish(ctx, it, llm.Message{}, final, MaxIterations)
	return err
}

// overBudget stops the run before a model call that a budget forbids.
func (r *run) overBudget(ctx context.Context, it *Iteration) (bool, error) {
	used := r.res.Usage.Prompt + r.res.Usage.Completion
	switch {
	case r.Limits.Tokens > 0 && used >= r.Limits.Tokens:
		return true, r.stopBudget(ctx, it, "token", phrase.Of(ctx, "%d tokens", r.Limits.Tokens))
	case r.Limits.ToolCalls > 0 && r.calls.n >= r.Limits.ToolCalls:
		return true, r.stopBudget(ctx, it, "tool call", phrase.Of(ctx, "%d calls", r.Limits.ToolCalls))
	case errors.Is(context.Cause(ctx), errTurnTime):
		return true, r.stopBudget(context.WithoutCancel(ctx), it, "time", r.Limits.Time.String())
	}

	return false, nil
}

func (r *run) stopBudget(ctx context.Context, it *Iteration, what, limit string) error {
	r.drains = drainCycles
	msg := phrase.Of(ctx, "I stopped because this turn's %s budget (%s) is used up. Say \"continue\" to go on with a new turn.", phrase.Of(ctx, what), limit)
	it.streamed = false

	if said := r.unfinished(it); said != "" {
		r.delta(ctx, it, "\n\n"+msg)
		msg = said + "\n\n" + msg
	}

	if err := r.answerOpenCalls("not run: the turn's budget is used up", func(m llm.Message) error { return r.record(ctx, m) }); err != nil {
		return err
	}

	_, err := r.finish(ctx, it, llm.Message{}, msg, OverBudget)
	return err
}

// answerOpenCalls gives every unanswered call of the last assistant message a result.
func (r *run) answerOpenCalls(why string, keep func(llm.Message) error) error {
	i := len(r.added) - 1
	answered := map[string]bool{}
	for ; i >= 0 && r.added[i].Role == llm.ToolRole; i-- {
		answered[r.added[i].ToolCallID] = true
	}

	if i < 0 || r.added[i].Role != llm.Assistant {
		return nil
	}

	for _, c := range r.added[i].ToolCalls {
		if !answered[c.ID] {
			if err := keep(llm.Message{Role: llm.ToolRole, ToolCallID: c.ID, Name: c.Name, IsError: true, Content: llm.Text("Error: " + why)}); err != nil {
				return err
			}
		}
	}

	return nil
}

func continuePrompt(sofar string) string {
	tail := sofar
	if n := utf8.RuneCountInString(tail); n > anchorChars {
		tail = text.CutEnd(tail, anchorChars)
	}
	return "Your answer was cut off by the output limit. Continue exactly where it ended, without repeating anything. It ended with:\n" + tail
}
