package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// The rate of a chat holds for all its threads together.
func TestRateOverThreads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{Rate: chat.Rate{Chat: chat.Limit{Count: 1, Per: time.Second}}}}
		r := newRig(t, map[string]*platform{"a": p})
		for i := range 5 {
			out := final(fmt.Sprint(i), "c", fmt.Sprint("text ", i))
			out.Route.ThreadID = fmt.Sprint("thread", i)
			r.publish(out)
		}
		r.publish(final("other", "d", "elsewhere"))
		time.Sleep(time.Minute)
		sent := p.saw("send")
		if len(sent) != 6 {
			t.Fatalf("%d messages were sent, want 6", len(sent))
		}
		var last time.Duration
		for _, e := range sent {
			if e.Chat == "d" && e.At > time.Second {
				t.Errorf("the other chat waited %v", e.At)
			}
			last = max(last, e.At)
		}
		if last < 4*time.Second {
			t.Errorf("five messages to one chat left within %v, want 4s", last)
		}
	})
}

// Two answers that grow in one chat have messages of their own.
func TestTwoStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		in := func(o bus.Outbound, message string) bus.Outbound {
			o.Route.MessageID = message
			return o
		}
		for _, word := range []string{"one ", "two ", "three "} {
			r.publish(in(delta("c", "s1", word), "1"))
			r.publish(in(delta("c", "s2", "zwei "+word), "2"))
			time.Sleep(2 * time.Second)
		}
		shown := map[string][]string{}
		for _, e := range p.saw("send", "edit", "final edit") {
			shown[e.ID] = append(shown[e.ID], e.Text)
		}
		diff(t, "the first", shown["m1"], []string{"one", "one two", "one two three"})
		diff(t, "the second", shown["m2"], []string{"zwei one", "zwei one zwei two", "zwei one zwei two zwei three"})

		r.publish(in(end("c", "s2", false), "2"), in(final("f2", "c", "zwei"), "2"), in(end("c", "s1", false), "1"), in(final("f1", "c", "one"), "1"))
		diff(t, "the ends", lines(p.saw("send", "final edit"))[2:], []string{
			"final edit m2 zwei one zwei two zwei three", "final edit m2 zwei", "final edit m1 one two three", "final edit m1 one",
		})
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// An answer ends what is shown about its own message, and one that joined its
// turn ends with it.
func TestMarksPerMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		to := func(message string) bus.Route { return bus.Route{Channel: "a", ChatID: "c", MessageID: message} }
		for _, id := range []string{"1", "2", "3", "4"} {
			if err := p.submit(t.Context(), bus.Inbound{ID: "a:" + id, Route: to(id), Text: "hi"}); err != nil {
				t.Fatal(err)
			}
		}
		answer := func(message, failure string) bus.Outbound {
			out := final("f"+message, "c", "answer "+message)
			out.Route, out.Turn = to(message), &bus.Turn{StopReason: "completed", Error: failure}
			return out
		}
		time.Sleep(time.Second)
		r.publish(answer("1", ""))
		time.Sleep(time.Second)
		over := func() []string { return lines(p.saw("answered", "failed", "stopped")) }
		diff(t, "after the first answer", over(), []string{"answered 1 "})
		before := len(p.saw("working"))
		time.Sleep(20 * time.Second)
		if len(p.saw("working")) == before {
			t.Error("the other messages wait, and nothing shows it")
		}

		r.publish(bus.Outbound{Kind: bus.Ended, Route: to("2"), Turn: &bus.Turn{StopReason: "completed"}}, answer("3", "no model"), bus.Outbound{Kind: bus.Ended, Route: to("3"), Turn: &bus.Turn{StopReason: "completed"}})
		r.publish(bus.Outbound{Kind: bus.Ended, Route: to("4"), Turn: &bus.Turn{StopReason: "stopped"}})
		time.Sleep(time.Second)
		diff(t, "at the end", over(), []string{"answered 1 ", "answered 2 ", "failed 3 ", "stopped 4 "})
		before = len(p.saw("working"))
		time.Sleep(20 * time.Second)
		if n := len(p.saw("working")) - before; n != 0 {
			t.Errorf("typing was shown %d times although nothing is worked on", n)
		}
	})
}

// An answer that is complete after a restart takes the place of the words that
// the message had before, though the dead process never knew the message.
func TestKeysOfAFinishedAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		p.caps.Keys = true
		r := newRig(t, map[string]*platform{"a": p})
		r.end()
		r.wrap = func(q *journal.Journal) bus.Queue { return forgetful{q} }
		r.begin()
		grow := delta("c", "s1", "The answer is ")
		grow.Route.MessageID = "1"
		r.publish(grow)
		r.wrap = nil
		r.kill()
		out := final("f", "c", "The answer is 4.")
		out.Route.MessageID = "1"
		r.publish(out)
		diff(t, "shown", lines(p.saw("send", "edit", "final edit")), []string{"send m1 The answer is", "final edit m1 The answer is 4."})
	})
}

// silentPlatform does what it is told the first times and does not say so.
type silentPlatform struct {
	*platform
	sends, edits int
}

func (s *silentPlatform) Send(ctx context.Context, out bus.Outbound) (string, error) {
	id, err := s.platform.Send(ctx, out)
	if s.sends--; s.sends >= 0 {
		return "", errors.New("EOF")
	}
	return id, err
}

func (s *silentPlatform) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	if s.edits--; s.edits >= 0 {
		return errors.New("EOF")
	}
	return s.platform.Edit(ctx, out, id, final)
}

// A message whose confirmation was lost has the words of the first try. It says
// all at the end, also if the next try had all the words already.
func TestKeysOfALostConfirmation(t *testing.T) {
	t.Parallel()
	for edits := range 3 {
		t.Run(fmt.Sprint(edits), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := streaming()
				p.caps.Keys = true
				r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
					o.Drivers["a"] = chat.Driver{New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) {
						p.deps = d
						return &silentPlatform{p, 1, edits}, nil
					}}
				})
				grow := delta("c", "s1", "The answer ")
				grow.Route.MessageID = "1"
				r.publish(grow)
				grow.Text = "is four."
				r.publish(grow)
				out := final("f", "c", "The answer is four.")
				out.Route.MessageID, out.Streamed = "1", true
				r.publish(bus.Outbound{Kind: bus.DeltaEnd, Route: grow.Route, StreamID: "s1"}, out)
				time.Sleep(time.Minute)
				got := p.saw("send", "edit", "final edit")
				if last := got[len(got)-1]; last.Text != "The answer is four." || last.ID != "m1" || len(p.saw("send")) != 1 {
					t.Errorf("%d lost edits: shown %q", edits, lines(got))
				}
			})
		})
	}
}

// forgetful is a queue of a process that dies before it can note what it sent.
type forgetful struct{ bus.Queue }

func (f forgetful) Sent(context.Context, string, int) error { return nil }
func (f forgetful) Delivered(context.Context, string) error { return nil }
func (f forgetful) Shown(ctx context.Context, to bus.Route, ids []string) error {
	for _, id := range ids {
		if !strings.HasPrefix(id, "key:") {
			return nil
		}
	}
	return f.Queue.Shown(ctx, to, ids)
}

// A platform that knows the key of a part shows it once, though the process
// died between sending and noting it.
func TestKeysOverARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		p.caps.Keys = true
		r := newRig(t, map[string]*platform{"a": p})
		r.end()
		r.wrap = func(q *journal.Journal) bus.Queue { return forgetful{q} }
		r.begin()
		long := strings.TrimSpace(strings.Repeat("word ", 30))
		r.publish(final("long", "d", long))
		grow := delta("c", "s1", "The answer is ")
		grow.Route.MessageID = "1"
		r.publish(grow)
		before := len(p.saw("send"))
		r.wrap = nil
		r.kill()

		grow.StreamID, grow.Text = "s2", "The answer is four."
		r.publish(grow)
		time.Sleep(2 * time.Second)
		out := final("f", "c", "The answer is 4.")
		out.Route.MessageID = "1"
		r.publish(out)
		if n := len(p.saw("send")); n != before || before < 4 {
			t.Errorf("%d messages, %d before the restart", n, before)
		}
		last := map[string]string{}
		for _, e := range p.saw("send", "edit", "final edit") {
			last[e.ID] = e.Text
		}
		if got := last[fmt.Sprint("m", before)]; got != "The answer is 4." {
			t.Errorf("at the end it says %q", got)
		}
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// The edits of all growing answers together keep to the platform's rate, and
// each says what it belongs to.
func TestEditRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		p.caps.Rate.Edit = chat.Limit{Count: 50, Per: time.Minute}
		p.caps.MaxChars = 0
		var strays int
		p.fail = func(what string, out bus.Outbound) error {
			if out.Meta["channel"] != out.Route.ChatID || out.StreamID != "s"+out.Route.ChatID && what != "final edit" {
				strays++
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		chats := []string{"1", "2", "3", "4", "5"}
		for range 240 {
			for _, c := range chats {
				out := delta(c, "s"+c, "word ")
				out.Meta = map[string]string{"channel": c}
				r.publish(out)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if n := len(p.saw("edit")); n > 150 || n < 90 {
			t.Errorf("%d edits in two minutes, want at most 150 with the burst", n)
		}
		for _, c := range chats {
			out := final("f"+c, c, "the end")
			out.Meta = map[string]string{"channel": c}
			r.publish(out)
		}
		if got := p.texts("final edit"); len(got) < 5 || strays > 0 {
			t.Errorf("ends %q, %d calls without what they belong to", got, strays)
		}
	})
}

// What a platform defers is tried when somebody writes, and not before.
func TestDeferred(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tries, takes := 0, false
		p := &platform{fail: func(string, bus.Outbound) error {
			if tries++; !takes {
				return chat.Deferred(errors.New("the person must write first"))
			}
			return nil
		}}
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(final("1", "c", "late"))
		time.Sleep(30 * time.Hour)
		if tries != 1 {
			t.Errorf("%d tries in 30 hours, want one", tries)
		}
		takes = true
		if err := p.submit(t.Context(), bus.Inbound{ID: "a:1", Route: route("a", "c"), Text: "hi"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		diff(t, "sent", p.texts("send"), []string{"late"})
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// The replies to a message are shared by progress and the answer, which has at
// least half of them; the rest waits for the next message.
func TestReplyBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var to []string
		p := &platform{caps: chat.Caps{MaxChars: 64, Replies: chat.Limit{Count: 4, Per: time.Hour}}}
		p.fail = func(_ string, out bus.Outbound) error {
			to = append(to, out.ReplyTo+" "+out.Text)
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		write := func(id string) {
			t.Helper()
			if err := p.submit(t.Context(), bus.Inbound{ID: "a:" + id, Route: bus.Route{Channel: "a", ChatID: "c", MessageID: id}, Text: "hi"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		write("1")
		for i := range 4 {
			r.publish(bus.Outbound{Kind: bus.Progress, Route: route("a", "c"), Text: fmt.Sprint("step ", i)})
			time.Sleep(time.Minute)
		}
		var parts []string
		for _, c := range "abcd" {
			parts = append(parts, strings.Repeat(string(c), 60))
		}
		out := final("f", "c", strings.Join(parts, "\n\n"))
		out.Route.MessageID, out.ReplyTo = "1", "1"
		r.publish(out)
		diff(t, "before the next message", to, []string{"1 step 0", "1 step 1", "1 " + parts[0], "1 " + parts[1]})
		write("2")
		diff(t, "after it", to[min(4, len(to)):], []string{"2 " + parts[2], "2 " + parts[3]})

		time.Sleep(2 * time.Hour)
		r.publish(final("g", "c", "too late"))
		if len(to) != 6 {
			t.Errorf("after the time for replies: %q", to[min(6, len(to)):])
		}
		write("3")
		diff(t, "at last", to[min(6, len(to)):], []string{"3 too late"})
	})
}

// On a platform with keys a part that is tried again uses the reply that it has.
func TestRetryIsNoReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tries := 0
		p := &platform{caps: chat.Caps{MaxChars: 64, Keys: true, Replies: chat.Limit{Count: 2, Per: time.Hour}}}
		p.fail = func(string, bus.Outbound) error {
			if tries++; tries < 5 {
				return errors.New("the connection is lost")
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		if err := p.submit(t.Context(), bus.Inbound{ID: "a:1", Route: bus.Route{Channel: "a", ChatID: "c", MessageID: "1"}, Text: "hi"}); err != nil {
			t.Fatal(err)
		}
		parts := []string{strings.Repeat("a", 60), strings.Repeat("b", 60)}
		r.publish(final("f", "c", strings.Join(parts, "\n\n")))
		time.Sleep(30 * time.Minute)
		diff(t, "sent", p.texts("send"), parts)
	})
}

// cards is a platform with units of its own.
type cards struct{ *platform }

func (c cards) Plan(out bus.Outbound) (parts []bus.Outbound) {
	for card := range strings.SplitSeq(out.Text, "|") {
		part := out
		part.Text = card
		parts = append(parts, part)
	}
	return parts
}

// Files go together as far as the platform takes them, and a platform that
// knows better divides by itself. Each part has a key of its own.
func TestPlans(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var keys []string
		p := &platform{caps: chat.Caps{MaxMedia: 1 << 20, Together: 2}}
		p.fail = func(_ string, out bus.Outbound) error {
			keys = append(keys, out.Key)
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p, "b": {}}, func(o *deliver.Options) {
			o.Drivers["b"] = chat.Driver{New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) {
				p.deps.Name = "a"
				return cards{&platform{deps: d, start: time.Now(), fail: p.fail}}, nil
			}}
		})
		out := final("1", "c", "look")
		for i := range 5 {
			out.Media = append(out.Media, bus.Media{Name: fmt.Sprint("f", i), Size: 1})
		}
		r.publish(out)
		diff(t, "files", p.texts("send"), []string{"look<f0><f1>", "<f2><f3>", "<f4>"})
		card := final("2", "c", "x|y")
		card.Route.Channel = "b"
		r.publish(card)
		diff(t, "keys", keys, []string{"1/0", "1/1", "1/2", "2/0", "2/1"})
	})
}
