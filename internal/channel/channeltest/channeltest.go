// Package channeltest holds what every channel must do, whatever its platform:
// let the right people in, lose nothing, say nothing twice, keep order, and
// end in time. A channel brings a fake of its platform as a Fixture and gets
// the whole house around it: a durable queue and the manager.
package channeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime/pprof"
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

	// Thread is a thread of Group that the fake knows; "" is none. In.Thread
	// and Seen.Thread are such ids.
	Thread string
	// MediaLimit says that Section passes maxMediaBytes on.
	MediaLimit bool
	// AnyName says that the fake can deliver files of any name.
	AnyName bool
	// Marks are the marks of ours that a message bears now.
	Marks func(chat, id string) []string
	// Tap taps, as the owner, the button with a label below the last message
	// in a chat that has buttons.
	Tap func(t *testing.T, chat, label string)
	// Acked reports whether the platform was told that a message arrived, so
	// that it would not deliver it again.
	Acked func(id string) bool
	// Frame hands the channel what is not a message: a frame or a body that
	// comes from the platform itself, whatever is in it.
	Frame func(t *testing.T, frame []byte)
	// Forge is Deliver by a sender who does not know the secret.
	Forge func(t *testing.T, in In)
	// Backlog puts a message of this age into the platform's history while the
	// channel is away, if the channel reads that when it comes back.
	Backlog func(t *testing.T, in In, age time.Duration)
	// Serve gets what the gateway's own listener serves, at each start.
	Serve func(h http.Handler)
	// Second is another account on a fake of its own, for a second section.
	Second *Fixture
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
		"threads":      testThreads,
		"long stream":  testLongStream,
		"large file":   testLargeFile,
		"file limit":   testFileLimit,
		"file names":   testFileNames,
		"marks":        testMarks,
		"buttons":      testButtons,
		"durable ack":  testAck,
		"bad frames":   testFrames,
		"forged":       testForged,
		"backlog":      testBacklog,
		"two accounts": testTwoAccounts,
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

	change func(c *channel.Common) // nil: as usual
	later  time.Duration           // how far the queue's clock is ahead

	mu      sync.Mutex
	got     []bus.Inbound
	reply   func(in bus.Inbound) []bus.Outbound // nil: the usual
	full    bool                                // the queue takes nothing in
	refused int                                 // messages that it did not take for that
}

// leaky is the queue, with a disk that may be full.
type leaky struct {
	*journal.Journal
	h *house
}

func (l leaky) Submit(ctx context.Context, in bus.Inbound) error {
	l.h.mu.Lock()
	full := l.h.full
	if full {
		l.h.refused++
	}
	l.h.mu.Unlock()
	if full {
		return errors.New("no space left on device")
	}
	return l.Journal.Submit(ctx, in)
}

// setFull says whether the queue takes anything in.
func (h *house) setFull(full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.full = full
}

func (h *house) begin() {
	h.t.Helper()
	q, err := journal.Open(disk.Open(filepath.Join(h.dir, "bus"), nil), journal.Options{Now: func() time.Time { return time.Now().Add(h.later) }})
	if err != nil {
		h.t.Fatal(err)
	}
	common := func(f *Fixture) json.RawMessage {
		c := channel.Common{Enabled: true, AllowFrom: []string{f.Owner}}
		if h.change != nil {
			h.change(&c)
		}
		return f.Section(c)
	}
	o := channel.Options{
		Queue: leaky{q, h}, Store: disk.Open(h.dir, nil), DataDir: h.dir, MaxRetries: 3, Drivers: map[string]channel.Driver{"test": h.Driver},
		Sections: map[string]json.RawMessage{"test": common(&h.Fixture)},
	}
	if h.Second != nil {
		o.Sections["test.two"] = common(h.Second)
	}
	if h.Options != nil {
		h.Options(&o)
	}
	m, err := channel.NewManager(o)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.Serve != nil {
		h.Serve(m.Handler())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	pprof.Do(ctx, pprof.Labels("house", h.label()), func(ctx context.Context) { // goroutines inherit it
		wg.Go(func() {
			if err := m.Run(ctx); err != nil {
				h.t.Error(err)
			}
		})
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
	h.await("the channels to run", func() bool {
		return !slices.ContainsFunc(m.Status(), func(s channel.Status) bool { return s.State != channel.Running })
	})
}

func (h *house) end() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func (h *house) label() string { return fmt.Sprintf("%p", h) }

// goroutines are those that the manager started and that still run, without
// connections that could be used again.
func (h *house) goroutines() (out []string) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		h.t.Error(err)
	}
	for g := range strings.SplitSeq(b.String(), "\n\n") {
		if strings.Contains(g, `"house":"`+h.label()+`"`) && !strings.Contains(g, "net/http.(*persistConn)") {
			out = append(out, g)
		}
	}
	return out
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
	h.await("an empty queue", func() bool {
		return !slices.ContainsFunc(h.m.Status(), func(s channel.Status) bool { return s.Queue > 0 })
	})
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
