package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// asking is what web clients see of questions, and the record of answers.
type asking struct {
	state   *state
	answers *subject.Answers
	redact  func(string) string
	topics  *publisher
	log     *slog.Logger
}

func newAsking(s *state, kept store.Store, redact func(string) string, topics *publisher, log *slog.Logger) *asking {
	return &asking{state: s, answers: &subject.Answers{Store: kept}, redact: redact, topics: topics, log: log}
}

// explain says what would happen to a call.
func (q *asking) explain(ctx context.Context, tool string, arguments json.RawMessage, tainted bool) (any, string, error) {
	a, err := q.state.current(ctx)
	if err != nil {
		return nil, "", err
	}
	v, wrong := app.Explain(ctx, a, tool, string(arguments), tainted)
	if v.Detail != nil {
		v.Detail.Diff = q.redact(v.Detail.Diff) // it shows the file as it is
	}
	return v, q.redact(strings.TrimPrefix(wrong, "Error: ")), nil
}

// record stores how a question was closed.
func (q *asking) record(ev turn.RuntimeEvent) {
	o := ev.Question.Outcome
	if o.Option == "" && !o.Expired || temporary(ev.Route) {
		return // its turn ended, or its chat is kept nowhere
	}

	a := subject.Answered{
		Key: ev.SessionKey, Channel: ev.Route.Channel, What: q.redact(ev.Question.Text), Option: o.Option, Remark: q.redact(o.Remark), Expired: o.Expired, At: ev.At,
	}
	if d := ev.Question.Detail; d != nil {
		a.Tool, a.Reason, a.What = d.Tool, d.Reason, what(d)
	}
	if err := q.answers.Add(context.Background(), a); err != nil {
		q.log.Warn("an answer cannot be recorded", "session", a.Key, "err", err)
	}
	q.topics.Publish(web.TopicQuestions, nil)
}

// what is a call in one text.
func what(d *bus.Detail) string {
	said := cmp.Or(d.Command, strings.Join(d.Paths, " "), string(d.Arguments))
	if d.Host != "" {
		said = d.Host + ": " + said
	}
	return said
}
