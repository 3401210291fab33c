package wecom

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

// An answer is one stream: it opens with the message, grows, and is finished by
// the final reply.
func TestOneStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	in := r.opened(wecomtest.Message{Text: "hi"})
	steps := [][]string{r.seen()}
	delta := reply(in, bus.Delta, "It")
	delta.StreamID = "s"
	id := r.send(delta)
	steps = append(steps, r.seen())
	delta.Text = "It is"
	if err := r.Edit(t.Context(), delta, id, false); err != nil {
		t.Fatal(err)
	}
	steps = append(steps, r.seen())
	if err := r.Edit(t.Context(), reply(in, bus.Final, "It is four."), id, true); err != nil {
		t.Fatal(err)
	}
	steps = append(steps, r.seen())
	r.send(reply(in, bus.Final, "More."))
	steps = append(steps, r.seen())
	want := [][]string{
		{"stream: <think></think> (open)"},
		{"stream: It (open)"},
		{"stream: It is (open)"},
		{"stream: It is four."},
		{"stream: It is four.", "markdown: More."},
	}
	if d := cmp.Diff(want, steps); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.open); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

// A second question does not take the stream of the first.
func TestTwoQuestions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	one := r.opened(wecomtest.Message{Text: "one"})
	two := r.opened(wecomtest.Message{Text: "two"})
	r.send(reply(two, bus.Final, "re: two"))
	r.send(reply(one, bus.Final, "re: one"))
	if d := cmp.Diff([]string{"stream: re: one", "stream: re: two"}, r.seen()); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
}

// Shortly before the age at which WeCom closes streams a stream is finished with
// what it says, and the rest of the answer is a message.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown, final string
		want         []string
	}{
		"nothing shown": {"", "It is four.", []string{"stream: " + phrase.In(phrase.Chinese, textLater), "markdown: It is four."}},
		"continued":     {"It is", "It is four.", []string{"stream: It is\n\n" + phrase.In(phrase.Chinese, textLater), "markdown: four."}},
		"other words":   {"It was", "It is four.", []string{"stream: It was\n\n" + phrase.In(phrase.Chinese, textLater), "markdown: It is four."}},
		"in code":       {"```\na", "```\na\nb\n```", []string{"stream: ```\na\n\n" + phrase.In(phrase.Chinese, textLater), "markdown: ```\na\nb\n```"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			defer r.begin()()
			in := r.opened(wecomtest.Message{Text: "hi"})
			id := newTurn(in.Route.MessageID, "", time.Time{}).stream
			delta := reply(in, bus.Delta, c.shown)
			delta.StreamID = "s"
			if c.shown != "" {
				r.send(delta)
			}
			r.streamMost.Store(int64(10 * time.Minute))
			r.ahead.Store(int64(10*time.Minute + time.Second))
			delta.Text = "a preview that comes too late"
			if err := r.Edit(t.Context(), delta, id, false); !chat.IsPermanent(err) {
				t.Errorf("a late preview: %v", err)
			}
			r.sweep(t.Context())
			r.sweep(t.Context())
			if err := r.Edit(t.Context(), reply(in, bus.Final, c.final), id, true); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, r.seen()); d != "" {
				t.Errorf("people see (-want +got):\n%s", d)
			}
		})
	}
}

// pass lets time pass for WeCom and for us, with what the channel does in it.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	const step = time.Minute
	for ; d > 0; d -= step {
		r.fake.Advance(step)
		r.ahead.Add(int64(step))
		r.sweep(r.t.Context())
	}
}

// WeCom closes a stream that was not updated for six minutes. One whose turn goes
// on is kept open, with or without words, and takes the answer; also when another
// process goes on with it.
func TestKeptStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown   string
		restart bool
	}{
		"without words":  {},
		"with words":     {shown: "It is"},
		"over a restart": {restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			end := r.begin()
			in := r.opened(wecomtest.Message{Text: "hi"})
			id := newTurn(in.Route.MessageID, "", time.Time{}).stream
			if c.shown != "" {
				delta := reply(in, bus.Delta, c.shown)
				delta.StreamID = "s"
				r.send(delta)
			}
			r.Await("the confirmation of the stream", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return len(r.open) == 1
			})
			r.pass(25 * time.Minute)
			if c.restart {
				end()
				r.reopen(nil)
				end = r.begin()
				r.send(reply(in, bus.Final, "It is four."))
			} else if err := r.Edit(t.Context(), reply(in, bus.Final, "It is four."), id, true); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"stream: It is four."}, r.seen()); d != "" {
				t.Errorf("people see (-want +got):\n%s", d)
			}
			end()
		})
	}
}

// Where WeCom closes a stream by its age, updated or not, the answer is pushed,
// and the next stream is finished before.
func TestStreamAge(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	r.fake.SetStreamMost(10 * time.Minute)
	for _, text := range []string{"one", "two"} {
		in := r.opened(wecomtest.Message{Text: text})
		delta := reply(in, bus.Delta, "It")
		delta.StreamID = "s"
		id := r.send(delta)
		r.pass(15 * time.Minute)
		if err := r.Edit(t.Context(), reply(in, bus.Final, "It is "+text+"."), id, true); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"stream: It (open)", "markdown: is one.",
		"stream: It\n\n" + phrase.In(phrase.Chinese, textLater), "markdown: is two.",
	}
	if d := cmp.Diff(want, r.seen()); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.open); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

// What WeCom refuses as a stream is pushed.
func TestStreamRefused(t *testing.T) {
	t.Parallel()
	for _, code := range []int{codeReqID, codeExpired} {
		r := newRig(t, nil)
		end := r.begin()
		in := r.opened(wecomtest.Message{Text: "hi", Chat: wecomtest.Group})
		r.fake.Fail(cmdRespond, code, "no")
		r.send(reply(in, bus.Final, "It is four."))
		if d := cmp.Diff([]string{"stream: <think></think> (open)", "markdown: It is four."}, r.seen()); d != "" {
			t.Errorf("%d: people see (-want +got):\n%s", code, d)
		}
		if pushed := r.fake.Frames(cmdSend); pushed[0].Body["chat_type"] != 2.0 || pushed[0].Body["chatid"] != wecomtest.Group {
			t.Errorf("pushed %v", pushed)
		}
		if most := r.streamMost.Load(); most != 0 {
			t.Errorf("%d: later streams are finished after %v", code, time.Duration(most))
		}
		end()
	}
}

// After a restart the same stream goes on, as long as WeCom takes that.
func TestStreamAfterRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	one := r.opened(wecomtest.Message{Text: "one"})
	two := r.opened(wecomtest.Message{Text: "two"})
	end()
	r.reopen(nil)
	defer r.begin()()
	r.send(reply(one, bus.Final, "re: one"))
	r.fake.Advance(7 * time.Minute)
	r.send(reply(two, bus.Final, "re: two"))
	if d := cmp.Diff([]string{"stream: re: one", "stream: <think></think> (open)", "markdown: re: two"}, r.seen()); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
}

// The end of a turn finishes its stream, whatever became of it.
func TestTurnEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	for _, phase := range []chat.Phase{chat.Seen, chat.Working, chat.Answered, chat.TurnFailed, chat.TurnStopped} {
		in := r.opened(wecomtest.Message{Text: string(phase)})
		if err := r.Signal(t.Context(), in.Route, phase); err != nil {
			t.Fatal(err)
		}
	}
	in := r.opened(wecomtest.Message{Text: "half"})
	delta := reply(in, bus.Delta, "half an answer")
	delta.StreamID = "s"
	r.send(delta)
	for range 2 {
		if err := r.Signal(t.Context(), in.Route, chat.TurnStopped); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"stream: <think></think> (open)", "stream: <think></think> (open)", "stream: " + phrase.In(phrase.Chinese, textNothing), "stream: " + phrase.In(phrase.Chinese, textFailed),
		"stream: " + phrase.In(phrase.Chinese, textStopped), "stream: half an answer",
	}
	if d := cmp.Diff(want, r.seen()); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
}

// Commands about one message are made one after the other, so that no answer is
// taken for that of another command; what answers nothing is pushed.
func TestPushes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	in := r.opened(wecomtest.Message{Text: "hi"})
	r.send(reply(in, bus.Message, "by the way"))
	r.send(bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: wecomtest.Ann}, Text: "![x](https://evil.example/?q=1) <@bob>\n```\nvec![1] ![a](b)\n```"})
	r.send(bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: wecomtest.Ann}, Text: " "})
	want := []string{"stream: <think></think> (open)", "markdown: by the way", "markdown: [x](https://evil.example/?q=1) ＜@bob>\n```\nvec![1] ![a](b)\n```"}
	if d := cmp.Diff(want, r.seen()); d != "" {
		t.Errorf("people see (-want +got):\n%s", d)
	}
	delta := bus.Outbound{Kind: bus.Delta, StreamID: "s", Route: bus.Route{ChatID: wecomtest.Ann}, Text: "a preview"}
	if _, err := r.Send(t.Context(), delta); !chat.IsPermanent(err) {
		t.Errorf("a preview of what answers nothing: %v", err)
	}
	if err := r.Erase(t.Context(), in.Route, "x"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("erase: %v", err)
	}
	if got := withoutPictures("a ![ b"); got != "a ![ b" {
		t.Errorf("not a picture: %q", got)
	}
}

// Errors say what to do about them.
func TestErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	out := bus.Outbound{Kind: bus.Final, Route: bus.Route{ChatID: wecomtest.Ann}, Text: "hi"}
	if _, err := r.Send(t.Context(), out); !errors.Is(err, chat.ErrNotReady) {
		t.Errorf("before the connection: %v", err)
	}
	defer r.begin()()
	for code, check := range map[int]func(error) bool{
		40008:  chat.IsPermanent,
		93006:  chat.IsPermanent,
		45009:  func(err error) bool { _, ok := errors.AsType[*chat.RateLimitedError](err); return ok },
		-1:     func(err error) bool { return err != nil && !chat.IsPermanent(err) },
		846600: func(err error) bool { return err != nil && !chat.IsPermanent(err) },
	} {
		r.fake.Fail(cmdSend, code, "no")
		if _, err := r.Send(t.Context(), out); !check(err) {
			t.Errorf("%d: %v", code, err)
		}
	}
	out.Route.ChatID = "stranger"
	if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) || !strings.Contains(err.Error(), "93006") {
		t.Errorf("an unknown chat: %v", err)
	}
}
