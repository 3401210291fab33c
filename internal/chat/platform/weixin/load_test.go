package weixin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

// longAnswer is the answer to message n of a person: two parts of words that are
// there once, and sometimes up to fourteen.
func longAnswer(user string, n int) string {
	var b strings.Builder
	parts := 2
	if n%3 == 0 {
		parts += n + 3
	}
	for i := range 300 * parts {
		fmt.Fprintf(&b, "%s.%d.%d ", user, n, i)
	}
	return strings.TrimSpace(b.String())
}

// talkative is an agent that shows all it does and gives long answers.
func talkative(ctx context.Context, t *testing.T, q bus.Queue) {
	t.Helper()
	for {
		in, err := q.Receive(ctx)
		if err != nil {
			return
		}
		final := bus.Outbound{Kind: bus.Final, ID: "final:" + in.ID, Route: in.Route, Text: "ok"}
		var n int
		if _, err := fmt.Sscanf(in.Text, "question %d", &n); err == nil {
			user, _, _ := strings.Cut(in.SenderID, "@")
			final.Text = longAnswer(user, n)
			for i := range 12 {
				kind := []bus.Kind{bus.ToolHint, bus.Progress, bus.Delta}[i%3]
				if err := q.Publish(ctx, bus.Outbound{Kind: kind, Route: in.Route, StreamID: "s", Text: fmt.Sprintf("hint %d", i)}); err != nil {
					return
				}
			}
		}
		if err := q.Complete(ctx, in.ID, final); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}

// 200 long answers with hints and streaming: never more than WeChat takes for
// one message, every word of them once and in order, and the rest of an answer
// when the person writes again.
func TestManyLongAnswers(t *testing.T) {
	t.Parallel()
	const people, questions = 20, 10
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	h := newHouse(t, fake, object{"allowFrom": []string{"*"}, "sendProgress": true, "sendToolHints": true, "streaming": true}, chat.Filters{})
	ctx, cancel := context.WithCancel(t.Context())
	agent := make(chan struct{})
	go func() { defer close(agent); talkative(ctx, t, h.q) }()
	defer func() { cancel(); <-agent }()
	h.await("the connection", func() bool { return h.state().State == deliver.Running })

	var all sync.WaitGroup
	for p := range people {
		all.Go(func() { h.converse(fmt.Sprintf("p%d@im.wechat", p), questions, p%2 == 0) })
	}
	all.Wait()

	if fake.Over() != 0 {
		t.Errorf("%d messages were more than WeChat takes", fake.Over())
	}
	notices, hints := 0, 0
	perToken := map[string]int{}
	for _, m := range fake.Messages() {
		perToken[m.Context]++
		if m.Text == moreFollows("en") {
			notices++
		}
		if strings.HasPrefix(m.Text, "hint") {
			hints++
		}
	}
	for token, n := range perToken {
		if n > h.budget()+1 {
			t.Errorf("%d messages with %s", n, token)
		}
	}
	if notices == 0 || hints == 0 {
		t.Errorf("%d notices and %d hints: nothing was tried", notices, hints)
	}
}

// news waits for something that the service sees.
func (h *house) news(what string, ok func() bool) {
	limit := time.NewTimer(10 * time.Minute)
	defer limit.Stop()
	for {
		changed := h.fake.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			h.t.Errorf("waited in vain for %s", what)
			return
		}
	}
}

func (h *house) budget() int { return defaults().ContextMessageBudget }

// inbox is what a person got. Each message is looked at once: there are thousands,
// and all people look whenever one arrives.
type inbox struct {
	fake    *weixintest.Server
	user    string
	seen    int
	words   []string // of answers
	notices int      // how often they were told that more follows
}

// read looks at what is new.
func (b *inbox) read() {
	messages := b.fake.MessagesAfter(b.seen)
	b.seen += len(messages)
	for _, m := range messages {
		switch {
		case m.To != b.user || strings.HasPrefix(m.Text, "hint") || m.Text == "ok":
		case m.Text == moreFollows("en"):
			b.notices++
		default:
			b.words = append(b.words, strings.Fields(m.Text)...)
		}
	}
}

// converse asks questions, each after the answer to the last or without waiting,
// and writes until all answers are there.
func (h *house) converse(user string, questions int, patient bool) {
	name, _, _ := strings.Cut(user, "@")
	got := &inbox{fake: h.fake, user: user}
	var want []string
	for n := range questions {
		want = append(want, strings.Fields(longAnswer(name, n))...)
		got.read()
		notices := got.notices
		h.fake.Say(user, fmt.Sprintf("question %d", n))
		if patient {
			h.news("an answer, or word of more", func() bool {
				got.read()
				return len(got.words) >= len(want) || got.notices > notices
			})
		}
	}
	for got.read(); len(got.words) < len(want); {
		words := len(got.words)
		h.fake.Say(user, "more")
		h.news("more", func() bool { got.read(); return len(got.words) > words })
	}
	if strings.Join(got.words, " ") != strings.Join(want, " ") {
		h.t.Errorf("%s got %d words, want %d in order", user, len(got.words), len(want))
	}
}
