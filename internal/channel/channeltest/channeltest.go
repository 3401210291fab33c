// Package channeltest holds what every channel must do, whatever its platform:
// let the right people in, lose nothing, say nothing twice, keep order, and
// end in time. A channel brings a fake of its platform as a Fixture and gets
// the whole house around it: a durable queue and the manager.
package channeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/store/disk"
)

// timeout is how long something that must happen may take.
const timeout = time.Minute

// In is somebody who writes. The fake turns it into what its platform sends.
type In struct {
	ID, Sender, Chat, Thread, Text string
	Group, Mentioned               bool
	File                           string // name of an attached file with the content "content of NAME"
}

// Seen is a message as people on the platform see it now, after all edits.
type Seen struct {
	Chat, Thread, Text string
	Files              []string
}

// Fixture is a channel and a fake of its platform. Funcs that are nil are
// things the platform does not have; tests that need them are left out.
type Fixture struct {
	Driver channel.Driver
	// Section is the configuration for the fake with these common settings.
	Section func(c channel.Common) json.RawMessage
	// Options changes what the manager gets, such as the HTTP client.
	Options func(o *channel.Options)
	// Owner is a sender who is let in by AllowFrom, Stranger one who is not.
	// Direct chats have the ids that Chat makes of a sender.
	Owner, Stranger string
	Chat            func(sender string) string
	Group           string // id of a chat of several people; "" is none

	Deliver func(t *testing.T, in In)
	Seen    func() []Seen
	// Touched counts what the platform was asked to do for messages besides
	// handing them over: receipts, typing, downloads.
	Touched func() int
	Limit   func(after time.Duration) // the next message is refused: too many
	Break   func()                    // the next message meets an error of the server
	Refuse  func()                    // the next message is refused for good
	Cut     func()                    // the connection is lost once
	Streams bool                      // shows texts that grow
	Repeats bool                      // may deliver a message with the same id again
}

// Run checks a channel. Each test gets a fixture of its own.
func Run(t *testing.T, fixture func(t *testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, *house){
		"answers":      testAnswers,
		"order":        testOrder,
		"stranger":     testStranger,
		"group":        testGroup,
		"long text":    testLongText,
		"rate limit":   testLimit,
		"server error": testBreak,
		"refusal":      testRefuse,
		"lost line":    testCut,
		"restart":      testRestart,
		"stream":       testStream,
		"files":        testFiles,
		"end":          testEnd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &house{t: t, Fixture: fixture(t), dir: t.TempDir()}
			h.begin()
			defer func() { h.end() }()
			test(t, h)
		})
	}
}

// house is everything around a channel, with an agent that says "re: TEXT".
type house struct {
	Fixture
	t    *testing.T
	dir  string
	q    *journal.Journal
	m    *channel.Manager
	stop func()

	mu    sync.Mutex
	got   []bus.Inbound
	reply func(in bus.Inbound) []bus.Outbound // nil: the usual
}

func (h *house) begin() {
	h.t.Helper()
	q, err := journal.Open(disk.Open(filepath.Join(h.dir, "bus"), nil), journal.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	o := channel.Options{
		Queue: q, Store: disk.Open(h.dir, nil), DataDir: h.dir, MaxRetries: 3, Drivers: map[string]channel.Driver{"test": h.Driver},
		Sections: map[string]json.RawMessage{"test": h.Section(channel.Common{Enabled: true, AllowFrom: []string{h.Owner}})},
	}
	if h.Options != nil {
		h.Options(&o)
	}
	m, err := channel.NewManager(o)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			h.t.Error(err)
		}
	})
	wg.Go(func() { h.agent(ctx, q) })
	h.q, h.m = q, m
	h.stop = func() {
		cancel()
		wg.Wait()
		if err := q.Close(); err != nil {
			h.t.Error(err)
		}
	}
	h.await("the channel to run", func() bool { return m.Status()[0].State == channel.Running })
}

func (h *house) end() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// agent answers every message.
func (h *house) agent(ctx context.Context, q bus.Queue) {
	for {
		in, err := q.Receive(ctx)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.got = append(h.got, in)
		reply := h.reply
		h.mu.Unlock()
		outs := []bus.Outbound{{Text: "re: " + in.Text}}
		if reply != nil {
			outs = reply(in)
		}
		var finals []bus.Outbound
		for _, out := range outs {
			if out.Kind == "" {
				out.Kind, out.ID = bus.Final, "final:"+in.ID
			}
			out.Route, out.ReplyTo, out.Meta = in.Route, in.Route.MessageID, in.Meta
			if out.Kind == bus.Final {
				finals = append(finals, out)
			} else if err := q.Publish(ctx, out); err != nil {
				return
			}
		}
		if err := q.Complete(ctx, in.ID, finals...); err != nil {
			h.t.Error(err)
		}
	}
}

// await waits for something that must become true.
func (h *house) await(what string, ok func() bool) {
	h.t.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			h.t.Fatalf("waited in vain for %s; seen %q, status %+v", what, h.texts(""), h.m.Status())
		}
	}
}

func (h *house) received() []bus.Inbound {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// texts are what people see in a chat, "" for all.
func (h *house) texts(chat string) []string {
	out := []string{}
	for _, s := range h.Seen() {
		if chat == "" || s.Chat == chat {
			out = append(out, strings.TrimSpace(s.Text))
		}
	}
	return out
}

func (h *house) write(n int, text string) {
	h.t.Helper()
	h.Deliver(h.t, In{ID: fmt.Sprint(1000 + n), Sender: h.Owner, Chat: h.Chat(h.Owner), Text: text})
}

// settled waits until nothing is left to be sent.
func (h *house) settled() {
	h.t.Helper()
	h.await("an empty queue", func() bool { s := h.m.Status()[0]; return s.Queue == 0 })
}

// expect waits for these texts in the owner's chat and looks that no more come.
func (h *house) expect(want ...string) {
	h.t.Helper()
	h.await(fmt.Sprintf("%q", want), func() bool { return len(h.texts(h.Chat(h.Owner))) >= len(want) })
	h.settled()
	if got := h.texts(h.Chat(h.Owner)); !slices.Equal(got, want) {
		h.t.Fatalf("people see %q, want %q", got, want)
	}
}
