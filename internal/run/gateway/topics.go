package gateway

import (
	"cmp"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/socket"
)

// publisher tells the pages what has changed. docs/reference/websocket.md lists the topics.
type publisher struct {
	directory *deliver.Directory
	keyOf     func(bus.Inbound) string // of the conversation of a message
	unread    func(key string)         // counts an answer
	asked     func()                   // a turn waits for an answer

	mu     sync.Mutex
	coming map[bus.Route]*arrival // messages that the queue is taking
}

func newPublisher(d *deliver.Directory, keyOf func(bus.Inbound) string, unread func(key string), asked func()) *publisher {
	return &publisher{directory: d, keyOf: keyOf, unread: unread, asked: asked, coming: map[bus.Route]*arrival{}}
}

// arrival is a message whose turn may begin before its submission returned. What
// is said in that turn is held back until the message was shown.
type arrival struct {
	submissions int
	held        []func()
}

// submit takes a message into the queue and shows it before anything of its turn.
func (p *publisher) submit(in *bus.Inbound, take func() error) error {
	p.mu.Lock()
	a := p.coming[in.Route]
	if a == nil {
		a = &arrival{}
		p.coming[in.Route] = a
	}

	a.submissions++
	p.mu.Unlock()

	err := take()
	if err == nil {
		p.submitted(in)
	}

	p.mu.Lock()
	a.submissions--
	p.mu.Unlock()
	for p.release(in.Route, a) {
	}
	return err
}

// release shows what was held back for an arrival, and reports whether there may
// be more by now.
func (p *publisher) release(r bus.Route, a *arrival) bool {
	p.mu.Lock()
	if a.submissions > 0 || len(a.held) == 0 {
		if a.submissions == 0 {
			delete(p.coming, r)
		}
		p.mu.Unlock()
		return false
	}

	held := a.held
	a.held = nil
	p.mu.Unlock()

	for _, show := range held {
		show()
	}
	return true
}

// afterArrival calls show, once the message that it belongs to was shown.
func (p *publisher) afterArrival(r bus.Route, show func()) {
	p.mu.Lock()
	if a := p.coming[r]; a != nil {
		a.held = append(a.held, show)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	show()
}

// Publish tells the clients that subscribe to a topic. It does not wait for them.
func (p *publisher) Publish(topic string, data any) { publish(p.directory, topic, data) }

// publish tells the clients of the socket, if there is one.
func publish(d *deliver.Directory, topic string, data any) {
	if c := socketOf(d); c != nil {
		c.Publish(topic, data)
	}
}

// socketOf is the channel that carries the conversations of pages, nil if there is none.
func socketOf(d *deliver.Directory) *socket.Channel {
	c, _ := d.Channel(socketName).(*socket.Channel)
	return c
}

// soon is Publish for callers that hold locks.
func (p *publisher) soon(topic string) { go p.Publish(topic, nil) }

// submitted tells that a message came.
func (p *publisher) submitted(in *bus.Inbound) {
	if in.Stateless {
		return
	}

	p.Publish(web.TopicSessions, nil)
	if in.Event != "" {
		p.Publish(web.TopicAutomations, nil)
		return
	}

	if c := p.elsewhere(in.Route); c != nil {
		c.Heard(p.keyOf(*in), in)
	}
}

// elsewhere is the socket if a message is not one of its own, which it has anyway.
func (p *publisher) elsewhere(r bus.Route) *socket.Channel {
	if r.Channel == socketName {
		return nil
	}
	return socketOf(p.directory)
}

// temporary reports whether a chat is kept nowhere.
func temporary(r bus.Route) bool {
	return r.Channel == socketName && strings.HasPrefix(r.ChatID, "temp-")
}

// publishOutbound publishes what the agent sends while it works.
func (p *publisher) publishOutbound(out *bus.Outbound) {
	if out.Kind == bus.Ask || out.Kind == bus.Gone {
		p.Publish(web.TopicQuestions, nil)
	}

	key := cmp.Or(out.Session, p.keyOf(bus.Inbound{Route: out.Route}))
	if c := p.elsewhere(out.Route); c != nil {
		heard := *out
		p.afterArrival(out.Route, func() { c.Overheard(key, heard) })
	}
	if out.Kind == bus.Message && out.Text != "" && !temporary(out.Route) {
		p.unread(key)
	}
	if out.Kind == bus.Ask {
		p.asked()
	}
}

// completed tells that a message was worked on.
func (p *publisher) completed(outs []bus.Outbound) {
	for i := range outs {
		p.publishOutbound(&outs[i])
		if t := outs[i].Turn; outs[i].Kind == bus.Final && t != nil && outs[i].Text != "" && !temporary(outs[i].Route) {
			p.unread(t.SessionKey)
		}
	}
	for _, topic := range []string{web.TopicSessions, web.TopicBudget, web.TopicAutomations, web.TopicMemory} {
		p.Publish(topic, nil)
	}
}
