package turn

import (
	"context"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// inject converts waiting messages into user messages of the running turn.
// Each is kept in the session before the model sees it.
func (t *Turn) inject(ctx context.Context, most int) (out []llm.Message, outside bool) {
	for _, m := range t.around.More(most) {
		if m.In.ID != "" && t.sess.SeenInbound(m.In.ID) {
			m.Sink.Join()
			continue
		}

		rec, msg := t.userMessage(ctx, m.In)
		if err := t.sess.Append(rec); err != nil {
			t.engine.log.ErrorContext(ctx, "keep injected message", "session", t.key, "err", err)
			m.Sink.Done(fmt.Errorf("keep the message: %w", err))
			continue
		}

		m.Sink.Emit(bus.Outbound{Kind: bus.Notice, Route: m.In.Route, Text: phrase.In(m.In.Language, "added to the running turn")})
		m.Sink.Join()
		t.engine.tell(m, RuntimeEvent{Kind: InputAccepted, TurnID: t.id, Began: t.begun})
		out, outside = append(out, msg), outside || transcript.FromOutside(&rec)
	}

	if len(out) > 0 {
		t.progress.setAnswered(false) // these wait for an answer of their own
		if err := t.sess.Sync(ctx); err != nil {
			t.engine.log.ErrorContext(ctx, "sync injected messages", "session", t.key, "err", err)
		}
	}
	return out, outside
}
