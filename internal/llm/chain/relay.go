package chain

import (
	"context"
	"errors"
	"iter"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// relay passes on the events of one call; answered runs before the last one.
// shown is the kind of the most visible delta that was passed on and not taken
// back; done means that the answer is complete or the reader has gone.
func relay(stream iter.Seq2[llm.Event, error], provider string, yield func(llm.Event, error) bool, answered func()) (shown llm.EventKind, done bool, err error) {
	for ev, err := range stream {
		if err != nil {
			return shown, false, err
		}

		switch {
		case ev.Kind == llm.TextDelta:
			shown = llm.TextDelta
		case (ev.Kind == llm.ReasoningDelta || ev.Tool != nil) && shown == 0:
			shown = llm.ReasoningDelta
		case ev.Kind == llm.Restarted:
			shown = 0
		case ev.Kind == llm.Done:
			answered()
		}

		if !yield(ev, nil) || ev.Kind == llm.Done {
			return shown, true, nil
		}
	}
	return shown, false, &llm.Error{Kind: llm.StreamTruncated, Provider: provider, Message: "the stream ended without an answer"}
}

// failure returns the error of a call if another attempt may be made; final is the
// error to return otherwise.
func failure(ctx context.Context, err error) (e *llm.Error, final error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return nil, err
	}
	return e, nil
}
