package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/channeltest"
)

// board is a platform in memory that does all that channels can.
type board struct {
	mu      sync.Mutex
	posts   []channeltest.Seen
	touched int
	fail    []error // of the next messages
	inbox   chan channeltest.In
	cut     chan struct{}
}

// member is our account there.
type member struct {
	*board
	d channel.Deps
}

func (*member) Name() string { return "test" }

func (*member) Caps() channel.Caps {
	return channel.Caps{MaxChars: 2000, EditEvery: time.Millisecond, MaxMedia: 100, Typing: time.Second}
}

func (m *member) Run(ctx context.Context, submit channel.Submit) error {
	m.d.Ready("bot", nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.cut:
			m.d.Ready("", errors.New("the line is cut"))
			m.d.Ready("bot", nil)
		case in := <-m.inbox:
			if err := m.take(ctx, in, submit); err != nil {
				return err
			}
		}
	}
}

func (m *member) take(ctx context.Context, in channeltest.In, submit channel.Submit) error {
	pass, ok := m.d.Gate.Admit(ctx, channel.Visitor{
		Route: bus.Route{Channel: "test", ChatID: in.Chat, ThreadID: in.Thread, MessageID: in.ID}, IDs: []string{in.Sender}, Direct: !in.Group, Mentioned: in.Mentioned,
	})
	if !ok {
		return nil
	}
	msg := pass.Inbound(in.ID, in.Text)
	msg.Untrusted = false // whoever sent it typed it
	if in.File != "" {
		f, err := m.d.Media.Save(ctx, in.File, strings.NewReader("content of "+in.File))
		if err != nil {
			return err
		}
		msg.Media = append(msg.Media, f)
	}
	return submit(ctx, msg)
}

func (m *member) Send(_ context.Context, out bus.Outbound) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.fail) > 0 {
		err := m.fail[0]
		m.fail = m.fail[1:]
		return "", err
	}
	post := channeltest.Seen{Chat: out.Route.ChatID, Thread: out.Route.ThreadID, Text: out.Text}
	for _, f := range out.Media {
		post.Files = append(post.Files, f.Name)
	}
	m.posts = append(m.posts, post)
	return strconv.Itoa(len(m.posts) - 1), nil
}

func (m *member) Edit(_ context.Context, out bus.Outbound, id string, _ bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := strconv.Atoi(id)
	if err != nil {
		return channel.Permanent(err)
	}
	m.posts[i].Text = out.Text
	return nil
}

func (m *member) Erase(context.Context, bus.Route, string) error { return errors.ErrUnsupported }

func (m *member) Signal(context.Context, bus.Route, channel.Phase) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.touched++
	return nil
}

func TestSuite(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(*testing.T) channeltest.Fixture {
		b := &board{inbox: make(chan channeltest.In, 100), cut: make(chan struct{}, 1)}
		failing := func(err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.fail = append(b.fail, err)
		}
		return channeltest.Fixture{
			Driver: channel.Driver{New: func(d channel.Deps, _ json.RawMessage) (channel.Channel, error) { return &member{b, d}, nil }},
			Section: func(c channel.Common) json.RawMessage {
				data, _ := json.Marshal(c) // plain data
				return data
			},
			Owner: "7", Stranger: "8", Group: "crowd", Chat: func(sender string) string { return "dm" + sender },
			Deliver: func(_ *testing.T, in channeltest.In) { b.inbox <- in },
			Seen: func() []channeltest.Seen {
				b.mu.Lock()
				defer b.mu.Unlock()
				return append([]channeltest.Seen{}, b.posts...)
			},
			Touched: func() int { b.mu.Lock(); defer b.mu.Unlock(); return b.touched },
			Limit:   func(after time.Duration) { failing(channel.RateLimited(after, errors.New("too many"))) },
			Break:   func() { failing(errors.New("server error")) },
			Refuse:  func() { failing(channel.Permanent(errors.New("no"))) },
			Cut:     func() { b.cut <- struct{}{} },
			Streams: true, Repeats: true,
		}
	})
}
