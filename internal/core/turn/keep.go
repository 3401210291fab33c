package turn

import (
	"context"
	"errors"
	"strings"

	"github.com/nanobot-go/nanobot/internal/core/explain"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// record keeps messages of the turn the moment they exist.
func (t *Turn) record(_ context.Context, msgs ...llm.Message) error {
	recs := make([]session.Record, len(msgs))
	for i, m := range msgs {
		failure := ""
		if m.Role == llm.Assistant && m.IsError {
			failure, m.IsError = t.failure(m), false
		}
		recs[i] = t.stored(m)
		recs[i].Failure = failure
	}

	return t.sess.Append(recs...)
}

// failure is what the person reads instead of an answer, from the message that
// stands for it in the history. It is stored with that message: the process may
// end before the person has read it.
func (t *Turn) failure(m llm.Message) string {
	said := m.Content.String()
	if _, fatal := errors.AsType[*tool.FatalError](t.err); fatal || t.err == nil {
		return said
	}
	if said == runner.NoAnswer {
		said = ""
	}
	return strings.TrimSpace(said + "\n\n" + t.explain(t.err))
}

// explain says in words for the person why the turn failed.
func (t *Turn) explain(err error) string {
	say := explain.Kept
	if t.msg.In.Stateless || t.msg.In.Event != "" { // there is no conversation to go on with, or it is another one
		say = explain.In
	}
	return say(t.msg.Reader(), err, t.rt.Display)
}

// stored is a message of the turn as it is kept.
func (t *Turn) stored(m llm.Message) session.Record {
	rec := session.Record{Message: transcript.Storable(m)}
	if m.Role == llm.ToolRole {
		c := t.progress.of(m.ToolCallID)
		rec.LatencyMS, rec.Denied = c.ms, c.denied
	}
	if t.frame.described && m.Role == llm.Assistant { // nothing else in the log says it
		rec.Runtime = &session.RuntimeContext{Version: 1, Sources: []string{memory.SourceForeign}}
	}
	return rec
}
