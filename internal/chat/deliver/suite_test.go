package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// board is a platform in memory that does all that channels can.
type board struct {
	mu      sync.Mutex
	posts   []chattest.Seen
	touched int
	fail    []error // of the next messages
	inbox   chan chattest.In
	cut     chan struct{}
	marks   map[string]chat.Phase // by chat and message
	acked   map[string]bool
	asked   *bus.Question
	taps    map[string]*bus.Answer // by the id of the message
	typing  map[string]int         // by chat
	idle    int                    // edits that changed nothing
}

func newBoard() *board {
	return &board{
		inbox: make(chan chattest.In, 100),
		cut:   make(chan struct{}, 1),
		marks: map[string]chat.Phase{},
		acked: map[string]bool{},
		taps:  map[string]*bus.Answer{},

		typing: map[string]int{},
	}
}

// with does something under the lock.
func (b *board) with(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}

// member is our account there.
type member struct {
	*board
	d chat.Deps
}

func (m *member) Name() string { return m.d.Name }

func (*member) Caps() chat.Caps {
	return chat.Caps{MaxChars: 2000, EditEvery: time.Millisecond, MaxMedia: 100, Typing: time.Second, Buttons: true, Previewed: func(bus.Route, string) bool { return true }}
}

func (m *member) Run(ctx context.Context, submit chat.Submit) error {
	intake, err := kit.NewIntake(ctx, m.d, func(ctx context.Context, in chattest.In) error { return m.take(ctx, in, submit) })
	if err != nil {
		return err
	}
	defer intake.Wait()
	m.d.Ready("bot", nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.cut:
			m.d.Ready("", errors.New("the line is cut"))
			m.d.Ready("bot", nil)
		case in := <-m.inbox:
			if err := intake.Hold(ctx, in.Chat, in.ID, in); err != nil {
				return err
			}
			m.with(func() { m.acked[in.ID] = true })
		}
	}
}

func (m *member) take(ctx context.Context, in chattest.In, submit chat.Submit) error {
	ids := []string{in.Sender}
	if in.Also != "" {
		ids = append(ids, in.Also)
	}
	pass, ok := m.d.Gate.Admit(ctx, access.Visitor{
		Route: bus.Route{Channel: m.d.Name, ChatID: in.Chat, ThreadID: in.Thread, MessageID: in.ID}, IDs: ids, Direct: !in.Group, Mentioned: in.Mentioned,
	})
	if !ok {
		return nil
	}
	msg := pass.Inbound(in.ID, in.Text)
	msg.Untrusted = false // whoever sent it typed it
	m.with(func() { msg.Answer = m.taps[in.ID] })
	if in.File != "" {
		if f, err := m.d.Media.Save(ctx, in.File, strings.NewReader("content of "+in.File)); err == nil {
			msg.Media = append(msg.Media, f)
		}
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
	post := chattest.Seen{Chat: out.Route.ChatID, Thread: out.Route.ThreadID, Text: out.Text}
	if out.Question != nil {
		m.asked = out.Question
	}
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
		return chat.Permanent(err)
	}
	if m.posts[i].Text == out.Text {
		m.idle++
	}
	m.posts[i].Text = out.Text
	return nil
}

func (m *member) Erase(context.Context, bus.Route, string) error { return errors.ErrUnsupported }

func (m *member) Signal(_ context.Context, to bus.Route, phase chat.Phase) error {
	m.with(func() {
		m.touched++
		if phase == chat.Working {
			m.typing[to.ChatID]++
		}
		if phase != chat.Working {
			m.marks[to.ChatID+"/"+to.MessageID] = phase
		}
	})
	return nil
}

func TestSuite(t *testing.T) {
	t.Parallel()
	chattest.Run(t, func(*testing.T) chattest.Fixture {
		one, two := newBoard(), newBoard()
		f, second := one.fixture(), two.fixture()
		f.Driver = chat.Driver{New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) {
			if d.Name == "test" {
				return &member{one, d}, nil
			}
			return &member{two, d}, nil
		}}
		f.Second = &second
		return f
	})
}

func (b *board) fixture() chattest.Fixture {
	failing := func(err error) { b.with(func() { b.fail = append(b.fail, err) }) }
	return chattest.Fixture{
		Section: func(c chat.Common) json.RawMessage {
			data, _ := json.Marshal(c) // plain data
			return data
		},
		Owner: "7", Stranger: "8", Group: "crowd", Thread: "corner", Chat: func(sender string) string { return "dm" + sender },
		Deliver: func(_ *testing.T, in chattest.In) { b.inbox <- in },
		Seen: func() (out []chattest.Seen) {
			b.with(func() { out = slices.Clone(b.posts) })
			return out
		},
		Idle:    func() (n int) { b.with(func() { n = b.idle }); return n },
		Touched: func() (n int) { b.with(func() { n = b.touched }); return n },
		Limit:   func(after time.Duration) { failing(chat.RateLimited(after, errors.New("too many"))) },
		Break:   func() { failing(errors.New("server error")) },
		Refuse:  func() { failing(chat.Permanent(errors.New("no"))) },
		Cut:     func() { b.cut <- struct{}{} },
		Streams: true, Repeats: true, MediaLimit: true, AnyName: true,
		Marks: func(chatID, id string) (out []string) {
			b.with(func() {
				if phase := b.marks[chatID+"/"+id]; phase != "" {
					out = []string{string(phase)}
				}
			})
			return out
		},
		Tap: func(_ *testing.T, chatID, label string) {
			b.with(func() { b.taps["tap"] = &bus.Answer{QuestionID: b.asked.ID, Option: label} })
			b.inbox <- chattest.In{ID: "tap", Sender: "7", Chat: chatID, Text: label}
		},
		Acked:  func(id string) (ok bool) { b.with(func() { ok = b.acked[id] }); return ok },
		Typing: func(chatID, _ string) (n int, on bool) { b.with(func() { n = b.typing[chatID] }); return n, false },
		Alias:  func(sender string) string { return "alias of " + sender },
		Lacks: map[string]string{
			"Frame":     "a platform in memory has no frames",
			"Pose":      "a platform in memory has no names",
			"Forge":     "a platform in memory has no address",
			"Backlog":   "a platform in memory has no history",
			"Impatient": "a platform in memory has no connection",
		},
	}
}
