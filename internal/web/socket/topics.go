package socket

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/web"
)

const (
	evChanged = "changed"
	evResync  = "resync"

	topicPause = 50 * time.Millisecond // changes of a topic within it are one event
	topicRoom  = 64                    // events with data that wait for one connection
)

// feed is what a connection is told about topics. Guarded by hub.mu.
type feed struct {
	topics  []string
	changed map[string]bool // changes without data that are yet to be told
	data    []topicData
	dropped bool
	n       int64
}

// topicData is a change that carries something.
type topicData struct {
	topic string
	data  json.RawMessage
}

// Publish tells the clients that subscribe to a topic that something of it has
// changed. Without data, changes that come close together are one event. With
// data, every one is an event of its own, as long as the client keeps up.
func (c *Channel) Publish(topic string, data any) {
	var raw json.RawMessage
	if data != nil {
		var err error
		if raw, err = json.Marshal(data); err != nil {
			c.d.Log.Error("an event cannot be written", "topic", topic, "err", err)
			return
		}
	}
	c.hub.publish(topic, raw)
}

func (h *hub) publish(topic string, data json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.peers {
		if !slices.Contains(s.feed.topics, topic) {
			continue
		}

		switch {
		case data == nil:
			if s.feed.changed == nil {
				s.feed.changed = map[string]bool{}
			}
			s.feed.changed[topic] = true
			h.later()
			continue

		case len(s.feed.data) >= topicRoom:
			s.feed.dropped = true
		default:
			s.feed.data = append(s.feed.data, topicData{topic, data})
		}

		s.poke()
	}
}

// later wakes the writers when the pause is over. The caller holds mu.
func (h *hub) later() {
	if h.pausing {
		return
	}

	h.pausing = true
	time.AfterFunc(topicPause, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pausing = false
		for s := range h.peers {
			if len(s.feed.changed) > 0 {
				s.poke()
			}
		}
	})
}

// collect returns the events for the client. Paused keeps back what may still be joined.
func (f *feed) collect(batch []outgoing, paused bool) []outgoing {
	if f.dropped {
		f.dropped, f.data, f.changed = false, nil, nil
		return append(batch, outgoing{data: newFrame(evResync, "", 0).end()})
	}

	for _, d := range f.data {
		f.n++
		batch = append(batch, outgoing{data: newFrame(evChanged, "", len(d.data)+64).text("topic", d.topic).number("n", f.n).raw("data", d.data).end()})
	}

	f.data = nil
	if paused {
		return batch
	}

	for _, topic := range slices.Sorted(maps.Keys(f.changed)) {
		f.n++
		batch = append(batch, outgoing{data: newFrame(evChanged, "", 64).text("topic", topic).number("n", f.n).end()})
	}

	f.changed = nil
	return batch
}

// subscribe takes the topics that a client wants to hear of, instead of
// those before.
func subscribe(r *receiver, e *envelope) {
	var want []string
	switch {
	case !r.proven:
		r.problem("access_denied", "topics are for clients that are connected with the token", e)
		return
	case json.Unmarshal(e.Topics, &want) != nil:
		r.problem("invalid topics", "topics must be a list of names", e)
		return
	}

	known := web.Topics()
	want = slices.DeleteFunc(want, func(t string) bool { return !slices.Contains(known, t) }) // a newer client may know more
	slices.Sort(want)
	want = slices.Compact(want)
	r.c.hub.mu.Lock()
	r.feed.topics = want
	r.c.hub.mu.Unlock()
	r.reply(newFrame("subscribed", "", 128).list("topics", want))
}
