package deliver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

func streaming() *platform {
	return &platform{caps: chat.Caps{MaxChars: 64, EditEvery: time.Second, Typing: 4 * time.Second}}
}

func end(chatID, stream string, resuming bool) bus.Outbound {
	return bus.Outbound{Kind: bus.DeltaEnd, Route: route("a", chatID), StreamID: stream, Resuming: resuming}
}

// settled leaves out whether there was time to show a text between its last word
// and its end: both are right.
func settled(events []event) (out []event) {
	for i, e := range events {
		if i+1 == len(events) || e.What != "edit" || events[i+1].What != "final edit" || events[i+1].ID != e.ID || events[i+1].Text != e.Text {
			out = append(out, e)
		}
	}
	return out
}

func lines(events []event) (out []string) {
	for _, e := range settled(events) {
		out = append(out, fmt.Sprintf("%s %s %s", e.What, e.ID, e.Text))
	}
	return out
}

func TestStreamByEdits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(delta("c", "s1", " \n"), delta("c", "s1", "Let me "))
		for range 5 {
			r.publish(delta("c", "s1", "look "))
			time.Sleep(300 * time.Millisecond)
		}
		r.publish(end("c", "s1", true))
		r.publish(delta("c", "s2", "**It** is "))
		time.Sleep(2 * time.Second)
		r.publish(delta("c", "s2", "four."), end("c", "s2", false))
		out := final("1", "c", "**It** is four.")
		out.Streamed = true
		r.publish(out, final("2", "c", "next"))
		diff(t, "shown", lines(p.saw("send", "edit", "final edit")), []string{
			"send m1 Let me", "edit m1 Let me look look look look", "final edit m1 Let me look look look look look",
			"send m2 **It** is", "final edit m2 **It** is four.", "send m3 next",
		})
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// A stream that broke off leaves nothing behind: the next one takes its place.
func TestStreamBreaks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		broken := end("c", "s1", true)
		broken.Void = true
		r.publish(delta("c", "s1", "It is fo"))
		r.publish(broken)
		time.Sleep(2 * time.Second)
		r.publish(delta("c", "s2", "It is"))
		time.Sleep(2 * time.Second)
		r.publish(delta("c", "s2", " five."), end("c", "s2", false), final("1", "c", "It is five."))

		short := end("c", "s3", true)
		short.Void = true
		r.publish(delta("c", "s3", "Next"))
		r.publish(short)
		time.Sleep(2 * time.Second)
		r.publish(final("2", "c", "Next one"))
		diff(t, "shown", lines(p.saw("send", "edit", "final edit")), []string{
			"send m1 It is fo", "edit m1 It is", "final edit m1 It is five.",
			"send m2 Next", "final edit m2 Next one",
		})
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

func TestStreamOverflow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		var all strings.Builder
		for i := range 40 {
			word := fmt.Sprintf("word%02d ", i)
			all.WriteString(word)
			r.publish(delta("c", "s", word))
			time.Sleep(200 * time.Millisecond)
		}
		r.publish(end("c", "s", false), final("1", "c", strings.TrimSpace(all.String())))
		got := map[string]string{}
		var ids []string
		for _, e := range p.saw("send", "edit", "final edit") {
			if _, ok := got[e.ID]; !ok {
				ids = append(ids, e.ID)
			}
			got[e.ID] = e.Text
		}
		var parts []string
		for _, id := range ids {
			parts = append(parts, got[id])
		}
		diff(t, "what stays", parts, markdown.Split(all.String(), 64, markdown.Runes))
		if n := len(p.saw("send", "edit", "final edit")); n > 20 {
			t.Errorf("%d calls for 8 s of text, want about one a second", n)
		}
	})
}

// Trouble with previews is not tried again; the final text always arrives.
func TestStreamTrouble(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		p.fail = func(what string, out bus.Outbound) error {
			switch {
			case what == "edit":
				return chat.RateLimited(20*time.Second, errors.New("flood"))
			case what == "final edit" && out.Route.ChatID == "gone":
				return chat.Permanent(errors.New("message to edit not found"))
			case what == "final edit" && time.Since(p.start) < 5*time.Second:
				return errors.New("server error")
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		for _, chatID := range []string{"c", "gone"} {
			r.publish(delta(chatID, "s", "Hel"))
			time.Sleep(time.Second)
			r.publish(delta(chatID, "s", "lo"), end(chatID, "s", false), final("f"+chatID, chatID, "Hello, world"))
		}
		time.Sleep(time.Minute)
		last := map[string]string{}
		for _, e := range p.saw("send", "final edit") {
			last[e.Chat] = e.What + " " + e.Text
		}
		diff(t, "last", []string{last["c"], last["gone"]}, []string{"final edit Hello, world", "send Hello, world"})
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// An error of the turn does not wipe out what was read already.
func TestStreamThenError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(delta("c", "s", "Half an ans"))
		out := final("1", "c", "The model cannot be reached.")
		out.Turn = &bus.Turn{Error: out.Text}
		r.publish(out)
		diff(t, "shown", lines(p.saw("send", "edit", "final edit")), []string{"send m1 Half an ans", "final edit m1 Half an ans", "send m2 The model cannot be reached."})
	})
}

func TestTyping(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		in := bus.Inbound{ID: "a:1", Route: bus.Route{Channel: "a", ChatID: "c", MessageID: "11"}, Text: "hi"}
		if err := p.submit(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		got, err := r.q.Receive(t.Context())
		if err != nil || !got.WantsStream {
			t.Fatalf("got %+v, %v, want a message that wants a stream", got, err)
		}
		time.Sleep(9 * time.Second)
		out := final("f", "c", "answer")
		out.Route.MessageID = "11"
		r.publish(out)
		time.Sleep(time.Minute)
		diff(t, "signals", lines(p.saw("seen", "working", "answered", "send")), []string{"seen 11 ", "working 11 ", "working 11 ", "working 11 ", "send m1 answer", "answered 11 "})
		if err := p.submit(t.Context(), bus.Inbound{ID: "a:2", Route: in.Route, Text: "lost"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := len(p.saw("working")) - 3; n < 140 || n > 151 {
			t.Errorf("typing was shown %d times, want it to end after 10 minutes", n)
		}
		synctest.Wait()
	})
}

// The mark of a message is set before it is taken away, however slow the
// platform is and whatever else comes: it would stay there for ever.
func TestSlowMarks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		p.marks = 2 * time.Second
		r := newRig(t, map[string]*platform{"a": p})
		for _, id := range []string{"11", "12"} {
			in := bus.Inbound{ID: "a:" + id, Route: bus.Route{Channel: "a", ChatID: "c", MessageID: id}, Text: "hi"}
			if err := p.submit(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"11", "12"} {
			out := final(id, "c", "answer")
			out.Route.MessageID = id
			r.publish(out)
		}
		time.Sleep(time.Minute)
		for _, id := range []string{"11", "12"} {
			got := slices.DeleteFunc(p.saw("seen", "answered", "given up"), func(e event) bool { return e.ID != id })
			diff(t, "marks of "+id, lines(got), []string{"seen " + id + " ", "answered " + id + " "})
		}

		// One that is being set ends with the channel.
		p.marks = time.Hour
		in := bus.Inbound{ID: "a:13", Route: bus.Route{Channel: "a", ChatID: "c", MessageID: "13"}, Text: "hi"}
		if err := p.submit(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		r.end()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the channel took %s to end", took)
		}
	})
}
