package turn

import (
	"context"
	"errors"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

// pruneResults removes long results of tools that no conversation needs any more,
// after a turn that added some.
func (t *Turn) pruneResults(ctx context.Context) {
	says := func(bucket string) ([]string, error) {
		if bucket == text.SafeName(t.key) {
			return wordsOf(t.sess), nil
		}

		all, err := t.engine.opts.Sessions.List(ctx)
		if err != nil {
			return nil, err
		}

		for _, s := range all {
			if bucket != text.SafeName(s.Key) {
				continue
			}

			sess, err := t.engine.opts.Sessions.Peek(s.Key)
			if errors.Is(err, session.ErrNotFound) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			return wordsOf(sess), sess.Release()
		}

		return nil, nil // it is gone, or kept elsewhere
	}

	err := runner.PruneResults(t.engine.place(t.msg.In).Results, t.engine.now(), says)
	if err != nil && ctx.Err() == nil {
		t.engine.log.WarnContext(ctx, "remove long results that are not needed", "err", err)
	}
}

// wordsOf is all that a prompt of a session may show: the summary of what left it,
// what was said in its live part, and the arguments of calls.
func wordsOf(s *session.Session) (words []string) {
	if sum, ok := memory.SummaryOf(s); ok {
		words = append(words, sum.Text)
	}

	for _, r := range s.Messages() {
		words = append(words, r.Content.String())
		for _, c := range r.ToolCalls {
			words = append(words, c.Arguments)
		}
	}
	return words
}
