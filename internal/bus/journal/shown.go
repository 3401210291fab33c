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

// shown is what shows a growing answer.
type shown struct {
	ids []string // of the platform's messages
	at  time.Time
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
	if _, known := j.shown[to]; !known && len(ids) == 0 {
		j.mu.Unlock()
		return nil
	}
	// It is known at once: lines come into the file in the same order, and
	// what is not in the file yet may be in a rewritten one twice.
	if delete(j.shown, to); len(ids) > 0 {
		j.shown[to] = shown{ids, now}
		j.boundShown()
	}
	c := j.join(b.Bytes())
	j.mu.Unlock()
	return j.finish(c)
}

// Showing gives back what Shown kept; see bus.Outbox.
func (j *Journal) Showing(_ context.Context, to bus.Route) ([]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, bus.ErrClosed
	}
	s, ok := j.shown[to]
	if !ok || j.opts.Now().Sub(s.at) > bus.ShownFor {
		return nil, nil
	}
	return slices.Clone(s.ids), nil
}

// boundShown forgets the oldest if there are too many. The caller holds the lock.
func (j *Journal) boundShown() {
	if len(j.shown) <= j.opts.MaxShown {
		return
	}
	// An eighth at once, so that it costs little per answer.
	routes := j.shownRoutes()
	for _, to := range routes[:len(routes)-j.opts.MaxShown+j.opts.MaxShown/8] {
		delete(j.shown, to)
	}
}

// shownRoutes are the routes with something shown, the oldest first. The caller
// holds the lock.
func (j *Journal) shownRoutes() []bus.Route {
	routes := slices.Collect(maps.Keys(j.shown))
	slices.SortFunc(routes, func(a, b bus.Route) int {
		return cmp.Or(j.shown[a].at.Compare(j.shown[b].at), cmp.Compare(a.ChatID, b.ChatID), cmp.Compare(a.MessageID, b.MessageID))
	})
	return routes
}

// forgetShown forgets what shows the answer for a route and adds the line that
// says so, if there is something. The caller holds the lock.
func (j *Journal) forgetShown(b *bytes.Buffer, to bus.Route) {
	if _, ok := j.shown[to]; ok {
		delete(j.shown, to)
		_ = shownLine(b, to, nil, j.opts.Now()) // strings can always be encoded
	}
}

// forgetUnanswered does the same if none of the answers takes its place.
func (j *Journal) forgetUnanswered(b *bytes.Buffer, to bus.Route, answers []*outEntry) {
	if !slices.ContainsFunc(answers, func(e *outEntry) bool { return e.out.Kind == bus.Final && e.out.Route == to }) {
		j.forgetShown(b, to)
	}
}

func shownLine(b *bytes.Buffer, to bus.Route, ids []string, at time.Time) error {
	if ids == nil {
		ids = []string{}
	}
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
	b.WriteString("}\n")
	return nil
}

// snapshotShown writes what is not too old. The caller holds the lock.
func (j *Journal) snapshotShown(b *bytes.Buffer) error {
	limit := j.opts.Now().Add(-bus.ShownFor)
	maps.DeleteFunc(j.shown, func(_ bus.Route, s shown) bool { return s.at.Before(limit) })
	for _, to := range j.shownRoutes() {
		if err := shownLine(b, to, j.shown[to].ids, j.shown[to].at); err != nil {
			return err
		}
	}
	return nil
}

// restoreShown takes up what an earlier opening knew. What cannot be read is
// no loss: an answer is sent once more.
func (j *Journal) restoreShown(lines map[string]line) {
	for _, l := range lines {
		var to bus.Route
		if json.Unmarshal(l.Route, &to) == nil {
			j.shown[to] = shown{l.Shown, time.UnixMilli(l.At)}
		}
	}
	j.boundShown()
}
