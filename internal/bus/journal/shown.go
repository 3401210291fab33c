package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// shown holds what shows a growing answer.
type shown struct {
	ids []string // of the platform's messages
	at  time.Time
}

// shownAnswers are the messages that show growing answers, by route. Callers
// hold Journal.mu.
type shownAnswers struct {
	most int
	now  func() time.Time
	by   map[bus.Route]shown
}

// Shown keeps which messages show an answer; see bus.Outbox.
func (j *Journal) Shown(_ context.Context, to bus.Route, ids []string) error {
	if to.MessageID == "" {
		return nil
	}

	ids = slices.Clone(ids)
	now := j.opts.Now()
	var b bytes.Buffer
	if err := shownLine(&b, to, ids, now); err != nil {
		return err
	}

	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return bus.ErrClosed
	}
	if _, known := j.shown.by[to]; !known && len(ids) == 0 {
		j.mu.Unlock()
		return nil
	}

	// It is known at once: lines come into the file in the same order, and
	// what is not in the file yet may be in a rewritten one twice.
	if delete(j.shown.by, to); len(ids) > 0 {
		j.shown.by[to] = shown{ids, now}
		j.shown.bound()
	}

	c := j.join(b.Bytes())
	j.mu.Unlock()
	return j.flush(c)
}

// Showing gives back what Shown kept; see bus.Outbox.
func (j *Journal) Showing(_ context.Context, to bus.Route) ([]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()

	if j.closed {
		return nil, bus.ErrClosed
	}

	s, ok := j.shown.by[to]
	if !ok || j.opts.Now().Sub(s.at) > bus.ShownFor {
		return nil, nil
	}
	return slices.Clone(s.ids), nil
}

// bound forgets the oldest if there are too many.
func (s *shownAnswers) bound() {
	if len(s.by) <= s.most {
		return
	}
	// An eighth at once, so that it costs little per answer.
	routes := s.routes()
	for _, to := range routes[:len(routes)-s.most+s.most/8] {
		delete(s.by, to)
	}
}

// routes returns the routes with something shown, the oldest first.
func (s *shownAnswers) routes() []bus.Route {
	routes := slices.Collect(maps.Keys(s.by))
	slices.SortStableFunc(routes, func(a, b bus.Route) int {
		return cmp.Or(s.by[a].at.Compare(s.by[b].at), cmp.Compare(a.ChatID, b.ChatID), cmp.Compare(a.MessageID, b.MessageID))
	})
	return routes
}

// forget forgets what shows the answer for a route and adds the line that
// says so, if there is something.
func (s *shownAnswers) forget(b *bytes.Buffer, to bus.Route) {
	if _, ok := s.by[to]; ok {
		delete(s.by, to)
		_ = shownLine(b, to, nil, s.now()) // strings can always be encoded
	}
}

// forgetUnanswered does the same if none of the answers takes its place.
func (s *shownAnswers) forgetUnanswered(b *bytes.Buffer, to bus.Route, answers []*outEntry) {
	if !slices.ContainsFunc(answers, func(e *outEntry) bool { return e.out.Kind == bus.Final && e.out.Route == to }) {
		s.forget(b, to)
	}
}

func shownLine(b *bytes.Buffer, to bus.Route, ids []string, at time.Time) error {
	if ids == nil {
		ids = []string{}
	}

	begin := b.Len()
	b.WriteString(`{"shown":`)
	if err := encode(b, ids); err != nil {
		return err
	}

	b.WriteString(`,"at":`)
	b.Write(strconv.AppendInt(nil, at.UnixMilli(), 10))
	b.WriteString(`,"route":`)
	if err := encode(b, to); err != nil {
		return err
	}

	sealLine(b, begin)
	return nil
}

// snapshot writes what is not too old.
func (s *shownAnswers) snapshot(b *bytes.Buffer) error {
	limit := s.now().Add(-bus.ShownFor)
	maps.DeleteFunc(s.by, func(_ bus.Route, e shown) bool { return e.at.Before(limit) })
	for _, to := range s.routes() {
		if err := shownLine(b, to, s.by[to].ids, s.by[to].at); err != nil {
			return err
		}
	}
	return nil
}

// restore takes up what an earlier opening knew. What cannot be read is
// no loss: an answer is sent once more.
func (s *shownAnswers) restore(lines map[string]line) {
	for _, l := range lines {
		var to bus.Route
		if json.Unmarshal(l.Route, &to) == nil {
			s.by[to] = shown{l.Shown, time.UnixMilli(l.At)}
		}
	}
	s.bound()
}
