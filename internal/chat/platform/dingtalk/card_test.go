package dingtalk

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
)

var withCards = map[string]any{"cardTemplateId": dingtalktest.Template}

// growing is a text of a stream.
func growing(in bus.Inbound, text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Delta, StreamID: "s0", Route: in.Route, ReplyTo: in.Route.MessageID, Text: text, Meta: in.Meta}
}

// cardRig is a channel with cards to which Ann has written.
func cardRig(t *testing.T, group string) (*rig, bus.Inbound) {
	t.Helper()
	r := newRig(t, loopback(t), withCards)
	t.Cleanup(r.begin())
	return r, heardIn(r, group)
}

func (r *rig) card() dingtalktest.Card {
	r.t.Helper()
	list := r.fake.Cards()
	if len(list) != 1 {
		r.t.Fatalf("cards %+v", list)
	}
	return list[0]
}

// mustShow sends the beginning of an answer, which must become a card.
func (r *rig) mustShow(in bus.Inbound, text string) (id string) {
	r.t.Helper()
	id, err := r.Send(r.t.Context(), growing(in, text))
	if err != nil || id == "" {
		r.t.Fatalf("send: %q, %v", id, err)
	}
	return id
}

// An answer grows in a card, which is finished with the last text.
func TestCard(t *testing.T) {
	t.Parallel()
	r, in := cardRig(t, "cid1")
	id := r.mustShow(in, "It")
	if c := r.card(); c.ID != id || c.Chat != "group:cid1" || c.Text != "It" || c.Flow != flowWriting || !slices.Equal(c.At, []string{"ann"}) {
		t.Errorf("at first: %+v", c)
	}
	if err := r.Edit(t.Context(), growing(in, "It **is**"), id, false); err != nil {
		t.Fatal(err)
	}
	if c := r.card(); c.Text != "It **is**" || c.Flow != flowWriting || c.Streams != 2 {
		t.Errorf("then: %+v", c)
	}
	last := answer(in, "![x](https://evil.example/leak) !\\[y](https://evil.example/leak)")
	if err := r.Edit(t.Context(), last, id, true); err != nil {
		t.Fatal(err)
	}
	if c := r.card(); c.Flow != flowFinished || strings.Contains(c.Text, "![") || !strings.Contains(c.Text, "evil.example") {
		t.Errorf("at the end: %+v", c)
	}
	// A text that comes after the end is shown all the same.
	if err := r.Edit(t.Context(), answer(in, "other"), id, true); err != nil {
		t.Fatal(err)
	}
	if c := r.card(); c.Text != "other" || c.Flow != flowFinished {
		t.Errorf("after the end: %+v", c)
	}
	if n := len(r.fake.Messages()); n != 1 {
		t.Errorf("%d messages", n)
	}
	if m := mustSend(r, answer(in, "a message")); m.Way != "webhook" {
		t.Errorf("what does not grow: %+v", m)
	}
}

// A card that cannot be had leaves the answer to a message. That is said once,
// with what to do.
func TestCardRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(fake *dingtalktest.Server)
		said  string
	}{
		"permission": {func(f *dingtalktest.Server) { f.NoScope("Card.Instance.Write") }, "AI cards need the permissions Card.Instance.Write"},
		"template":   {(*dingtalktest.Server).Unpublish, "channels.dingtalk.cardTemplateId: publish it"},
		"other": {func(f *dingtalktest.Server) {
			f.Fail(dingtalktest.Failure{Path: "createAndDeliver", Times: 9, Status: 400, Code: "param.empty"})
		}, "did not take an AI card"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, in := cardRig(t, "")
			c.spoil(r.fake)
			for range 3 {
				if id, err := r.Send(t.Context(), growing(in, "It")); id != "" || err != nil {
					t.Errorf("send: %q, %v", id, err)
				}
			}
			if n := strings.Count(r.Log.String(), c.said); n != 1 {
				t.Errorf("said %d times: %s", n, r.Log)
			}
			if n := len(r.fake.Calls("createAndDeliver")); n > 1 && name != "other" {
				t.Errorf("it was tried %d times", n)
			}
			if m := mustSend(r, answer(in, "It is.")); m.Way != "webhook" || len(r.fake.Messages()) != 1 {
				t.Errorf("the answer: %+v", m)
			}
		})
	}
}

// Without the permission to stream the card is updated as a whole.
func TestCardWithoutStreaming(t *testing.T) {
	t.Parallel()
	r, in := cardRig(t, "")
	r.fake.NoScope("Card.Streaming.Write")
	id := r.mustShow(in, "It")
	if c := r.card(); c.Text != "It" || c.Flow != flowWriting {
		t.Errorf("at first: %+v", c)
	}
	if err := r.Edit(t.Context(), answer(in, "It is."), id, true); err != nil {
		t.Fatal(err)
	}
	if c := r.card(); c.Text != "It is." || c.Flow != flowFinished || c.Streams != 0 {
		t.Errorf("at the end: %+v", c)
	}
	if n := strings.Count(r.Log.String(), "does not stream"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// Errors of a card have the classes that the manager goes by.
func TestCardClasses(t *testing.T) {
	t.Parallel()
	r, in := cardRig(t, "")
	fail := func(path string, times int, f dingtalktest.Failure) {
		f.Path, f.Times = path, times
		r.fake.Fail(f)
	}
	limit := dingtalktest.Failure{Status: 403, Code: "Forbidden.AccessDenied.QpsLimitForAppkeyAndApi", Text: "too many"}
	fail("createAndDeliver", 1, limit)
	_, err := r.Send(t.Context(), growing(in, "It"))
	if _, ok := errors.AsType[*chat.RateLimitedError](err); !ok {
		t.Errorf("too many cards: %v", err)
	}
	fail("createAndDeliver", 1, dingtalktest.Failure{Status: 502, Garbage: true})
	if _, err := r.Send(t.Context(), growing(in, "It")); err == nil || chat.IsPermanent(err) {
		t.Errorf("a proxy: %v", err)
	}
	fail("streaming", 1, limit)
	_, err = r.Send(t.Context(), growing(in, "It")) // the card is there now, without a text
	if _, ok := errors.AsType[*chat.RateLimitedError](err); !ok {
		t.Errorf("too many texts: %v", err)
	}
	id := r.mustShow(in, "It")
	if c := r.card(); c.ID != id || c.Text != "It" {
		t.Errorf("the next try: %+v", c)
	}
	broken := dingtalktest.Failure{Status: 500, Code: "unknownError", Text: "oh"}
	fail("/v1.0/card/", 2*cardTries, broken)
	for n := range cardTries {
		err := r.Edit(t.Context(), answer(in, "It is."), id, true)
		if err == nil || chat.IsPermanent(err) != (n == cardTries-1) {
			t.Errorf("try %d: %v", n, err)
		}
	}
	if err := r.Erase(t.Context(), in.Route, id); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("erase: %v", err)
	}
	r.Await("the end of the card", func() bool { return r.card().Flow == flowFinished })
}

// A card whose first text got lost takes the answer.
func TestCardOfAnswer(t *testing.T) {
	t.Parallel()
	r, in := cardRig(t, "")
	r.fake.Fail(dingtalktest.Failure{Path: "streaming"})
	if _, err := r.Send(t.Context(), growing(in, "It")); err == nil {
		t.Fatal("a lost text is not noticed")
	}
	if m := mustSend(r, answer(in, "It is.")); m.Way != "card" || m.Text() != "It is." || r.card().Flow != flowFinished || len(r.fake.Messages()) != 1 {
		t.Errorf("the answer: %+v, %+v", m, r.card())
	}
	if m := mustSend(r, answer(in, "More.")); m.Way != "webhook" {
		t.Errorf("the next message: %+v", m)
	}
}

// The next process finishes a card that one left, and goes on with it.
func TestCardAfterRestart(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, withCards)
	end := r.begin()
	in := heardIn(r, "")
	id := r.mustShow(in, "It")
	end()
	if c := r.card(); c.Flow != flowWriting {
		t.Errorf("before: %+v", c)
	}
	r.reopen(withCards)
	fake.Fail(dingtalktest.Failure{Path: "/v1.0/card/instances", Status: 429, Code: "Throttling"})
	var kept cardFacts
	if err := errors.Join(r.cards.closeCard(t.Context(), id), r.deps.State.Load(&kept)); err == nil || !slices.Equal(kept.Cards, []string{id}) {
		t.Errorf("a card that cannot be finished yet: %v, kept %q", err, kept.Cards)
	}
	end = r.begin()
	r.Await("the end of the card", func() bool { return r.card().Flow == flowFinished })
	if err := r.Edit(t.Context(), growing(in, "It is"), id, false); err != nil {
		t.Fatal(err)
	}
	if c := r.card(); c.Text != "It is" || c.Flow != flowFinished {
		t.Errorf("the turn goes on: %+v", c)
	}
	if err := r.Edit(t.Context(), answer(in, "It is four."), id, true); err != nil {
		t.Fatal(err)
	}
	end()
	if c := r.card(); c.Text != "It is four." || c.Flow != flowFinished {
		t.Errorf("at the end: %+v", c)
	}

	r.reopen(withCards)
	second := r.mustShow(in, "More")
	r.reopen(nil) // cards are switched off
	defer r.begin()()
	r.Await("the second card", func() bool {
		return slices.ContainsFunc(fake.Cards(), func(c dingtalktest.Card) bool { return c.ID == second && c.Flow == flowFinished })
	})
}

// Under a manager an answer whose card cannot be had is one message, with what
// was said on the way.
func TestCardFallback(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Unpublish()
	house(t, map[string]json.RawMessage{"dingtalk": section(fake, withCards)}, func(ctx context.Context, q bus.Queue, in bus.Inbound) bus.Outbound {
		for _, out := range []bus.Outbound{
			{Kind: bus.Delta, StreamID: "s0", Text: "I look."},
			{Kind: bus.DeltaEnd, StreamID: "s0", Resuming: true},
			{Kind: bus.Delta, StreamID: "s1", Text: "It is"},
			{Kind: bus.DeltaEnd, StreamID: "s1"},
		} {
			out.Route, out.Meta = in.Route, in.Meta
			if err := q.Publish(ctx, out); err != nil {
				t.Error(err)
			}
		}
		return bus.Outbound{Text: "It is four.", Streamed: true}
	})
	fake.Write("ann", "", "2+2", nil)
	await(t, "the answer", func() bool { return len(texts(fake)) > 0 })
	if got := texts(fake); !slices.Equal(got, []string{"I look.\n\nIt is four."}) {
		t.Errorf("people see %q", got)
	}
}

// A test of the section says what is wrong with the cards.
func TestCardProbe(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]bool{"": true, "Card.Instance.Write": false, "Card.Streaming.Write": false} {
		fake := loopback(t)
		fake.NoScope(scope)
		r := newRig(t, fake, withCards)
		report, err := probe(t.Context(), r.deps, section(fake, withCards))
		if err != nil || len(report.Checks) != 3 || report.Checks[2].OK != want || want != (report.Checks[2].Detail == "") {
			t.Errorf("without %q: %+v, %v", scope, report, err)
		}
		if len(fake.Messages()) != 0 {
			t.Errorf("people see %+v", fake.Messages())
		}
	}
}
