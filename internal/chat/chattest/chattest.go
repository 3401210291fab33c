// Package chattest holds what every channel must do, whatever its platform:
// let the right people in, lose nothing, say nothing twice, keep order, and
// end in time. A channel brings a fake of its platform as a Fixture and gets
// the whole house around it: a durable queue and the manager.
package chattest

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

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// timeout is how long something that must happen may take.
const timeout = 10 * time.Minute

// In is a person who writes. The fake turns it into what its platform sends.
type In struct {
	ID, Sender, Chat, Thread, Text string
	Group, Mentioned               bool
	File                           string // name of an attached file with the content "content of NAME"
	Also                           string // another id of the sender that the platform tells with it; see Fixture.Alias
}

// Seen is a message as people on the platform see it now, after all edits.
type Seen struct {
	Chat, Thread, Text string
	Files              []string
}

// Run checks a channel. Each test gets a fixture of its own.
func Run(t *testing.T, fixture func(t *testing.T) Fixture) {
	t.Run("fixture", func(t *testing.T) {
		f := fixture(t)
		f.check(t)
	})
	for name, test := range map[string]func(*testing.T, *house){
		"answers":      testAnswers,
		"order":        testOrder,
		"stranger":     testStranger,
		"borrowed id":  testBorrowedID,
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
		"growth":       testGrowth,
		"idle edits":   testIdleEdits,
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
		"typing":       testTyping,
		"aliases":      testAliases,
		"half open":    testHalfOpen,
		"silent end":   testSilentEnd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &house{t: t, Fixture: fixture(t), dir: t.TempDir()}
			t.Cleanup(h.wire.end)
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
	m    *deliver.Manager
	stop func()

	wire   wire
	change func(c *chat.Common)               // nil: as usual
	wrap   func(ch chat.Channel) chat.Channel // what a channel becomes; nil: itself
	later  time.Duration                      // how far the queue's clock is ahead

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
		c := chat.Common{Enabled: true, Lists: access.Lists{AllowFrom: []string{f.Owner}}}
		if h.change != nil {
			h.change(&c)
		}
		return f.Section(c)
	}

	o := deliver.Options{
		Queue: leaky{q, h}, Store: disk.Open(h.dir, nil), DataDir: h.dir, MaxRetries: 3, Drivers: map[string]chat.Driver{"test": h.driver()},
		Sections: map[string]json.RawMessage{"test": common(&h.Fixture)},
		Client:   func(string) (*http.Client, error) { return h.wire.client(), nil },
		Fetch:    func() (*http.Client, error) { return h.wire.client(), nil },
	}
	if h.Second != nil {
		o.Sections["test.two"] = common(h.Second)
	}
	if h.Options != nil {
		h.Options(&o)
	}

	m, err := deliver.NewManager(o)
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
		return !slices.ContainsFunc(m.Status(), func(s deliver.Status) bool { return s.State != deliver.Running })
	})
}

// driver returns the one of the fixture, with what the case changes.
func (h *house) driver() chat.Driver {
	d := h.Driver
	made := d.New
	d.New = func(deps chat.Deps, section json.RawMessage) (chat.Channel, error) {
		ch, err := made(deps, section)
		if err != nil {
			return nil, err
		}

		if h.Hasten != nil {
			h.Hasten(ch)
		}
		if h.wrap != nil {
			ch = h.wrap(ch)
		}
		return ch, nil
	}
	return d
}

func (h *house) end() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

func (h *house) label() string { return fmt.Sprintf("%p", h) }

// goroutines returns those that the manager started and that still run, without
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
	h.within(timeout, what, ok)
}

// try is await for another goroutine than that of the test.
func (h *house) try(what string, ok func() bool) bool {
	h.t.Helper()
	if h.becomes(time.Minute, ok) {
		return true
	}
	h.t.Errorf("waited in vain for %s; seen %.300q, status %+v", what, h.texts(""), h.m.Status())
	return false
}

// within is await with another limit.
func (h *house) within(limit time.Duration, what string, ok func() bool) {
	h.t.Helper()
	if !h.becomes(limit, ok) {
		h.t.Fatalf("waited in vain for %s; seen %q, status %+v", what, h.texts(""), h.m.Status())
	}
}

// becomes reports whether something becomes true in time.
func (h *house) becomes(limit time.Duration, ok func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()

	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}

	return true
}

func (h *house) received() []bus.Inbound {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// texts returns what people see in a chat, "" for all.
func (h *house) texts(chatID string) []string {
	out := []string{}
	for _, s := range h.Seen() {
		if chatID == "" || s.Chat == chatID {
			out = append(out, strings.TrimSpace(s.Text))
		}
	}
	return out
}

// need skips a case if the platform lacks what it is about.
func (h *house) need(fields ...string) {
	h.t.Helper()
	for _, name := range fields {
		if h.empty(name) {
			h.t.Skip(h.Lacks[name])
		}
	}
}

// setReply says what the agent answers from now on.
func (h *house) setReply(reply func(in bus.Inbound) []bus.Outbound) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reply = reply
}

func (h *house) write(n int, text string) {
	h.t.Helper()
	h.Deliver(h.t, In{ID: fmt.Sprint(1000 + n), Sender: h.Owner, Chat: h.Chat(h.Owner), Text: text})
}

// settled waits until nothing is left to be sent.
func (h *house) settled() {
	h.t.Helper()
	h.await("an empty queue", func() bool {
		return !slices.ContainsFunc(h.m.Status(), func(s deliver.Status) bool { return s.Queue > 0 })
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
