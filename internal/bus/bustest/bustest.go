// Package bustest holds what every bus.Queue must pass: Run for what it
// promises to callers, RunKill for what is left when its process is killed.
//
//nolint:thelper // the cases are tests themselves: a failure belongs to the line in the case
package bustest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// Open opens the queue kept in a directory; calling it again after shut opens
// the same one.
type Open func(tb testing.TB, dir string) (q bus.Queue, shut func())

// Run checks an implementation of bus.Queue.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, *place){
		"order":             testOrder,
		"duplicates":        testDuplicates,
		"same id at once":   testSameIDAtOnce,
		"redelivery":        testRedelivery,
		"answers":           testAnswers,
		"answers to nobody": testAnswersToNobody,
		"delivery":          testDelivery,
		"published twice":   testPublishedTwice,
		"survives JSON":     testSurvivesJSON,
		"deltas join":       testDeltasJoin,
		"shown":             testShown,
		"shown forgotten":   testShownForgotten,
		"readers":           testReaders,
		"contexts":          testContexts,
		"closed":            testClosed,
		"many at once":      testManyAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &place{open: open, dir: t.TempDir()}
			p.reopen(t)
			defer func() { p.shut() }()
			test(t, p)
		})
	}
}

// place is a queue that can be closed and opened again.
type place struct {
	bus.Queue
	open Open
	dir  string
	shut func()
}

func (p *place) reopen(t *testing.T) {
	t.Helper()
	if p.shut != nil {
		p.shut()
	}
	p.Queue, p.shut = p.open(t, p.dir)
}

func inbound(chat, id string) bus.Inbound {
	return bus.Inbound{ID: id, Route: bus.Route{Channel: "c", ChatID: chat}, SenderID: "u", Text: "text of " + id}
}

func final(id, text string) bus.Outbound {
	return bus.Outbound{ID: id, Kind: bus.Final, Route: bus.Route{Channel: "c", ChatID: "a"}, Text: text}
}

func (p *place) submit(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := p.Submit(t.Context(), inbound("a", id)); err != nil {
			t.Fatalf("Submit %s: %v", id, err)
		}
	}
}

// receive expects these messages and then none.
func (p *place) receive(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for range want {
		in, err := p.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, in.ID)
	}

	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("received (-want +got):\n%s", d)
	}

	ctx, cancel := context.WithTimeout(t.Context(), quiet)
	defer cancel()
	if in, err := p.Receive(ctx); err == nil {
		t.Fatalf("received %q, want nothing", in.ID)
	}
}

// quiet is how long nothing must come before it counts as nothing.
const quiet = 5 * time.Millisecond

// outgoing reads n messages of channel c, and looks that no more come.
func (p *place) outgoing(t *testing.T, n int) []bus.Delivery {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []bus.Delivery
	if n == 0 {
		time.AfterFunc(quiet, cancel)
	}

	for d, err := range p.Outgoing(ctx, "c") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, d); len(got) == n {
			time.AfterFunc(quiet, cancel)
		}
	}

	if len(got) != n {
		t.Fatalf("%d messages go out, want %d: %+v", len(got), n, got)
	}
	return got
}

func gist(ds []bus.Delivery) (s []string) {
	for _, d := range ds {
		s = append(s, fmt.Sprintf("%s %s %d", d.ID, d.Text, d.Parts))
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testOrder(t *testing.T, p *place) {
	p.submit(t, "1", "2", "3")
	p.receive(t, "1", "2", "3")
}

func testDuplicates(t *testing.T, p *place) {
	if err := p.Submit(t.Context(), bus.Inbound{Text: "no id"}); err == nil {
		t.Error("a message without an id was accepted")
	}

	p.submit(t, "1", "1")
	p.receive(t, "1")
	p.submit(t, "1")
	p.receive(t)
	p.reopen(t)
	p.submit(t, "1", "2")
	p.receive(t, "1", "2")
	must(t, p.Complete(t.Context(), "1"))
	must(t, p.Complete(t.Context(), "2"))
	p.submit(t, "1")
	p.reopen(t)
	p.submit(t, "2", "1")
	p.receive(t)
	p.reopen(t)
	if k, ok := p.Queue.(bus.Knower); ok && (!k.Known("1") || !k.Known("2") || k.Known("3")) {
		t.Errorf("Known 1, 2, 3: %t, %t, %t; 1 and 2 were accepted before", k.Known("1"), k.Known("2"), k.Known("3"))
	}

	p.submit(t, "2", "1", "3")
	p.receive(t, "3")
}

func testSameIDAtOnce(t *testing.T, p *place) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := p.Submit(t.Context(), inbound("a", "1")); err != nil {
				t.Error(err)
			}
		})
	}

	wg.Wait()
	p.receive(t, "1")
	p.reopen(t)
	p.receive(t, "1")
}

func testRedelivery(t *testing.T, p *place) {
	p.submit(t, "1", "2", "3", "4")
	p.receive(t, "1", "2", "3", "4")
	must(t, p.Complete(t.Context(), "3"))
	must(t, p.Complete(t.Context(), "1"))
	p.reopen(t)
	p.submit(t, "5")
	p.receive(t, "2", "4", "5")
	p.reopen(t)
	p.receive(t, "2", "4", "5")
}

func testAnswers(t *testing.T, p *place) {
	p.submit(t, "1", "2")
	p.receive(t, "1", "2")
	must(t, p.Complete(t.Context(), "2", final("o2", "two")))
	must(t, p.Complete(t.Context(), "1", final("", "one"), final("", "more"), bus.Outbound{Kind: bus.Notice, Route: bus.Route{Channel: "c"}}))
	first := p.outgoing(t, 3)
	if first[1].ID == "" || first[1].ID == first[2].ID {
		t.Errorf("ids %q and %q were made up", first[1].ID, first[2].ID)
	}

	p.reopen(t)
	p.receive(t)
	if d := cmp.Diff(gist(first), gist(p.outgoing(t, 3))); d != "" {
		t.Errorf("after opening again (-before +after):\n%s", d)
	}

	for _, o := range first {
		must(t, p.Delivered(t.Context(), o.ID))
	}

	p.outgoing(t, 0)
	p.reopen(t)
	p.outgoing(t, 0)
}

func testAnswersToNobody(t *testing.T, p *place) {
	must(t, p.Complete(t.Context(), "unknown", final("o", "x")))
	p.submit(t, "1")
	p.receive(t, "1")
	must(t, p.Complete(t.Context(), "1", final("o1", "x")))
	must(t, p.Complete(t.Context(), "1", final("o2", "x")))
	if got := p.outgoing(t, 1); got[0].ID != "o1" {
		t.Errorf("goes out: %q, want only the first answer", got[0].ID)
	}

	must(t, p.Delivered(t.Context(), "unknown"))
	must(t, p.Sent(t.Context(), "unknown", 1))
}

func testDelivery(t *testing.T, p *place) {
	for _, id := range []string{"1", "2", "3"} {
		o := final(id, id)
		o.Streamed = true
		must(t, p.Publish(t.Context(), o))
	}

	if got := p.outgoing(t, 3); !got[0].Streamed {
		t.Error("Streamed was lost on the way")
	}

	must(t, p.Sent(t.Context(), "1", 1))
	must(t, p.Sent(t.Context(), "3", 1))
	must(t, p.Sent(t.Context(), "3", 2))
	must(t, p.Delivered(t.Context(), "2"))

	for range 2 {
		got := p.outgoing(t, 2) // a new reader starts over
		if d := cmp.Diff([]string{"1 1 1", "3 3 2"}, gist(got)); d != "" {
			t.Errorf("goes out (-want +got):\n%s", d)
		}
		if got[0].Streamed {
			t.Error("a message handed out again says that its text was shown")
		}
		p.reopen(t)
	}
}

func testPublishedTwice(t *testing.T, p *place) {
	must(t, p.Publish(t.Context(), final("1", "first")))
	must(t, p.Publish(t.Context(), final("1", "second")))
	if got := gist(p.outgoing(t, 1)); got[0] != "1 first 0" {
		t.Errorf("goes out: %q", got)
	}

	must(t, p.Delivered(t.Context(), "1"))
	must(t, p.Publish(t.Context(), final("1", "third")))
	p.reopen(t)
	must(t, p.Publish(t.Context(), final("1", "fourth")))
	p.outgoing(t, 0)
}

func testSurvivesJSON(t *testing.T, p *place) {
	odd := "line\nbreak \"quoted\" \\ <b>&amp; \u2028 \x00 \U0001F600 {\"in\":\"x\"}"
	in := bus.Inbound{
		ID: odd, Route: bus.Route{Channel: "c", ChatID: odd, ThreadID: "t", MessageID: "m"}, SenderID: odd, Text: strings.Repeat(odd, 100),
		Media: []bus.Media{{Path: "/p", Name: odd, MIME: "a/b", Size: 1 << 40}}, At: time.Date(2026, 3, 1, 2, 3, 4, 5000, time.UTC),
		SessionKey: "s", WantsStream: true, OwnTurn: true, Interactive: true, Event: "e", Untrusted: true, Quoted: []bus.Quote{{About: odd, Text: odd}},
		Scope: odd, Unasked: odd, Identity: odd, Answer: &bus.Answer{QuestionID: odd, Option: odd, Remark: odd}, Meta: map[string]string{odd: odd},
	}

	out := bus.Outbound{
		ID: odd + "o", Kind: bus.Ask, Route: in.Route, ReplyTo: odd, Text: odd, Media: in.Media, Plain: true,
		Question: &bus.Question{ID: "q", Code: odd, Text: odd, Options: []string{odd, ""}, Expires: in.At},
		Turn:     &bus.Turn{ID: "t", Tools: []string{odd}, Receipts: []bus.Receipt{{CallID: odd}}, Usage: bus.Usage{CostUSD: 0.25}}, Meta: in.Meta,
	}

	must(t, p.Submit(t.Context(), in))
	must(t, p.Publish(t.Context(), out))
	for range 2 {
		p.reopen(t)
		got, err := p.Receive(t.Context())
		must(t, err)
		if d := cmp.Diff(in, got); d != "" {
			t.Errorf("inbound (-want +got):\n%s", d)
		}
		if d := cmp.Diff(out, p.outgoing(t, 1)[0].Outbound); d != "" {
			t.Errorf("outbound (-want +got):\n%s", d)
		}
	}

	must(t, p.Complete(t.Context(), odd))
	must(t, p.Delivered(t.Context(), odd+"o"))
	p.reopen(t)
	p.receive(t)
	p.outgoing(t, 0)
}

func testDeltasJoin(t *testing.T, p *place) {
	delta := func(chat, stream, text string) {
		t.Helper()
		must(t, p.Publish(t.Context(), bus.Outbound{Kind: bus.Delta, Route: bus.Route{Channel: "c", ChatID: chat}, StreamID: stream, Text: text}))
	}
	must(t, p.Publish(t.Context(), final("first", "")))
	said := map[string]string{}
	for d, err := range p.Outgoing(t.Context(), "c") {
		must(t, err)
		if d.ID == "first" { // the reader is busy while all of this comes
			for i := range 100 {
				delta("a", "s1", fmt.Sprint(i, " "))
				delta("b", "s1", "x")
			}
			delta("a", "s2", "y")
			must(t, p.Publish(t.Context(), final("last", "")))
			continue
		}

		if d.ID == "last" {
			break
		}
		said[d.Route.ChatID+d.StreamID] += d.Text
	}

	var a strings.Builder
	for i := range 100 {
		fmt.Fprint(&a, i, " ")
	}

	if d := cmp.Diff(map[string]string{"as1": a.String(), "bs1": strings.Repeat("x", 100), "as2": "y"}, said); d != "" {
		t.Errorf("text (-want +got):\n%s", d)
	}

	p.reopen(t)
	p.outgoing(t, 2)
}

// showing expects these messages for the answer to a message in chat a.
func (p *place) showing(t *testing.T, message string, want ...string) {
	t.Helper()
	got, err := p.Showing(t.Context(), shownAt(message))
	must(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("shown for %q (-want +got):\n%s", message, d)
	}
}

func shownAt(message string) bus.Route {
	return bus.Route{Channel: "c", ChatID: "a", MessageID: message}
}

func testShown(t *testing.T, p *place) {
	odd := "odd \" \\ \u2028 {\"shown\":[]}"
	ids := []string{"1", odd}
	must(t, p.Shown(t.Context(), shownAt("m"), ids))
	ids[0] = "mine" // the queue does not keep what belongs to the caller
	must(t, p.Shown(t.Context(), shownAt(odd), []string{"5"}))
	must(t, p.Shown(t.Context(), shownAt("gone"), []string{"6"}))
	must(t, p.Shown(t.Context(), shownAt("gone"), nil))
	must(t, p.Shown(t.Context(), shownAt("never"), nil))
	must(t, p.Shown(t.Context(), shownAt(""), []string{"7"}))

	for range 3 {
		p.showing(t, "m", "1", odd)
		p.showing(t, odd, "5")
		p.showing(t, "gone")
		p.showing(t, "never")
		p.showing(t, "")

		for _, other := range []bus.Route{{Channel: "c", ChatID: "b", MessageID: "m"}, {Channel: "d", ChatID: "a", MessageID: "m"}, {Channel: "c", ChatID: "a", ThreadID: "t", MessageID: "m"}} {
			if got, err := p.Showing(t.Context(), other); err != nil || len(got) > 0 {
				t.Errorf("%+v shows %q, %v, want nothing", other, got, err)
			}
		}

		p.reopen(t)
	}

	must(t, p.Shown(t.Context(), shownAt("m"), []string{"1", "2", "3"}))
	p.showing(t, "m", "1", "2", "3")
	p.reopen(t)
	p.showing(t, "m", "1", "2", "3")
}

// What shows an answer is forgotten with its Final, or when there is none.
func testShownForgotten(t *testing.T, p *place) {
	messages := []string{"answered", "stopped", "waits", "told"}
	for _, m := range messages {
		must(t, p.Submit(t.Context(), bus.Inbound{ID: m, Route: shownAt(m)}))
		must(t, p.Shown(t.Context(), shownAt(m), []string{"of " + m}))
	}

	p.receive(t, messages...)
	answer := func(m string) bus.Outbound {
		return bus.Outbound{ID: "final " + m, Kind: bus.Final, Route: shownAt(m), Text: m}
	}
	told := answer("told")
	told.Kind = bus.Message
	must(t, p.Complete(t.Context(), "answered", answer("answered")))
	must(t, p.Complete(t.Context(), "stopped"))
	must(t, p.Publish(t.Context(), told))
	for _, m := range []string{"answered", "waits", "told"} { // until they are delivered
		p.showing(t, m, "of "+m)
	}

	must(t, p.Sent(t.Context(), "final answered", 1))
	p.showing(t, "answered", "of answered")
	must(t, p.Delivered(t.Context(), "final answered"))
	must(t, p.Delivered(t.Context(), "final told"))

	for range 2 {
		p.showing(t, "answered")
		p.showing(t, "stopped")
		p.showing(t, "waits", "of waits")
		p.showing(t, "told", "of told")
		p.reopen(t)
	}
}

func testReaders(t *testing.T, p *place) {
	other := final("1", "x")
	other.Route.Channel = "d"
	must(t, p.Publish(t.Context(), other))
	must(t, p.Publish(t.Context(), final("2", "y")))

	for d, err := range p.Outgoing(t.Context(), "c") {
		must(t, err)
		if d.ID != "2" {
			t.Errorf("channel c got %q", d.ID)
		}

		for _, err := range p.Outgoing(t.Context(), "c") {
			if err == nil {
				t.Error("two readers of one channel")
			}
			break
		}
		break
	}

	p.outgoing(t, 1)
}

func testContexts(t *testing.T, p *place) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Receive(ctx); err == nil {
		t.Error("Receive with a dead context gave a message")
	}
	for d, err := range p.Outgoing(ctx, "c") {
		t.Errorf("Outgoing with a dead context gave %v, %v", d, err)
	}
}

func testClosed(t *testing.T, p *place) {
	p.submit(t, "1")
	q := p.Queue
	p.shut()
	if err := q.Submit(t.Context(), inbound("a", "2")); err == nil {
		t.Error("Submit after closing")
	}
	if err := q.Publish(t.Context(), final("o", "")); err == nil {
		t.Error("Publish after closing")
	}
	if _, err := q.Receive(t.Context()); err == nil {
		t.Error("Receive after closing")
	}
	if err := q.Shown(t.Context(), shownAt("m"), []string{"1"}); err == nil {
		t.Error("Shown after closing")
	}

	p.shut = nil
	p.reopen(t)
	p.receive(t, "1")
}

func testManyAtOnce(t *testing.T, p *place) {
	const chats, each = 16, 20
	var wg sync.WaitGroup
	for c := range chats {
		wg.Go(func() {
			for i := range each {
				if err := p.Submit(t.Context(), inbound(fmt.Sprint(c), fmt.Sprintf("%d/%d", c, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}

	next := map[string]int{}
	for range chats * each {
		in, err := p.Receive(t.Context())
		must(t, err)
		if want := fmt.Sprintf("%s/%d", in.Route.ChatID, next[in.Route.ChatID]); in.ID != want {
			t.Fatalf("received %s, want %s", in.ID, want)
		}

		next[in.Route.ChatID]++
		wg.Go(func() {
			out := final("o"+in.ID, in.ID)
			if err := p.Complete(t.Context(), in.ID, out); err != nil {
				t.Error(err)
			}
			if err := p.Delivered(t.Context(), out.ID); err != nil {
				t.Error(err)
			}
		})
	}

	wg.Wait()
	p.reopen(t)
	p.receive(t)
	p.outgoing(t, 0)
}
