package qq

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
)

// 200 long answers with tool hints, progress and streaming on: never more than
// five replies, no number twice, no word lost or doubled. What finds no reply
// left comes when the person writes again.
func TestReplyBudget(t *testing.T) {
	t.Parallel()
	const chats, rounds, words = 40, 5, 1500
	fake := loopback(t)
	agent := func(ctx context.Context, q bus.Queue, in bus.Inbound) bus.Outbound {
		if in.Text == "go on" {
			return bus.Outbound{}
		}
		publish := func(k bus.Kind, text string) {
			if err := q.Publish(ctx, bus.Outbound{Kind: k, Route: in.Route, Text: text, StreamID: in.ID, Meta: in.Meta}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
		for i := range 4 {
			publish(bus.ToolHint, fmt.Sprintf("hint %d", i))
			publish(bus.Delta, "growing text ")
			publish(bus.Progress, "I look at it.")
		}
		publish(bus.DeltaEnd, "")
		var b strings.Builder
		for i := range words {
			fmt.Fprintf(&b, "%sw%d ", in.Text, i)
		}
		return bus.Outbound{Text: strings.TrimSpace(b.String())}
	}
	m := house(t, map[string]json.RawMessage{"qq": section(fake, map[string]any{
		"allowFrom": []string{"*"}, "sendProgress": true, "sendToolHints": true, "streaming": true,
	})}, agent)

	person := func(c int) string { return fmt.Sprintf("p%d", c) }
	for round := range rounds {
		for c := range chats {
			fake.Write(qqtest.Direct, person(c), person(c), fmt.Sprintf("c%dr%d", c, round), nil)
		}
	}
	said := make([][]string, chats)
	seen := 0
	read := func() { // what came since
		list := fake.Messages()
		for _, msg := range list[seen:] {
			var c int
			if _, err := fmt.Sscanf(msg.Chat, "p%d", &c); err != nil {
				t.Fatal(err)
			}
			for w := range strings.FieldsSeq(msg.Text()) {
				if strings.HasPrefix(w, "c") {
					said[c] = append(said[c], w)
				}
			}
		}
		seen = len(list)
	}
	for tries := 0; ; tries++ {
		before := make([]int, chats)
		waiting := false
		read()
		for c := range chats {
			before[c] = len(said[c])
			if before[c] < rounds*words {
				waiting = true
				fake.Write(qqtest.Direct, person(c), person(c), "go on", nil)
			}
		}
		if !waiting {
			break
		}
		await(t, "more of everything", func() bool {
			read()
			for c := range chats {
				if len(said[c]) < rounds*words && len(said[c]) == before[c] {
					return false
				}
			}
			return true
		})
		if tries > 10*rounds {
			t.Fatal("people wrote again and again, and did not get everything")
		}
	}
	await(t, "an empty queue", func() bool {
		return !slices.ContainsFunc(m.Status(), func(s deliver.Status) bool { return s.Queue > 0 })
	})
	if b := fake.Broken(); len(b) > 0 {
		t.Errorf("%d rules were broken: %q", len(b), b[:min(len(b), 5)])
	}
	for c := range chats {
		list := said[c]
		if len(list) != rounds*words {
			t.Fatalf("%s got %d words", person(c), len(list))
		}
		for i, w := range list {
			if want := fmt.Sprintf("c%dr%dw%d", c, i/words, i%words); w != want {
				t.Fatalf("%s got %q as word %d, want %q", person(c), w, i, want)
			}
		}
	}
	for _, s := range m.Status() {
		if s.Failed > 0 {
			t.Errorf("%d messages failed", s.Failed)
		}
	}
}

// Two accounts run side by side; the same account twice does not.
func TestAccounts(t *testing.T) {
	t.Parallel()
	one, two := loopback(t), loopback(t)
	two.SetApp("102000002")
	house(t, map[string]json.RawMessage{"qq": section(one, nil), "qq.work": section(two, map[string]any{"appId": "102000002"})}, echo)
	one.Write(qqtest.Direct, "ann", "ann", "home", nil)
	two.Write(qqtest.Direct, "ann", "ann", "work", nil)
	await(t, "both answers", func() bool { return len(texts(one)) == 1 && len(texts(two)) == 1 })
	if got := slices.Concat(texts(one), texts(two)); !slices.Equal(got, []string{"re: home", "re: work"}) {
		t.Errorf("answers %q", got)
	}

	same := loopback(t)
	m := house(t, map[string]json.RawMessage{"qq": section(same, nil), "qq.copy": section(same, nil)}, echo)
	await(t, "one of them to be refused", func() bool {
		return slices.ContainsFunc(m.Status(), func(s deliver.Status) bool { return strings.Contains(s.Error, "qq") })
	})
	same.Write(qqtest.Direct, "ann", "ann", "hi", nil)
	await(t, "the answer", func() bool { return len(texts(same)) > 0 })
}

// Hints and progress are off unless the section wants them.
func TestQuiet(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	house(t, map[string]json.RawMessage{"qq": section(fake, nil)}, func(ctx context.Context, q bus.Queue, in bus.Inbound) bus.Outbound {
		for _, k := range []bus.Kind{bus.ToolHint, bus.Progress} {
			if err := q.Publish(ctx, bus.Outbound{Kind: k, Route: in.Route, Text: "noise"}); err != nil {
				t.Error(err)
			}
		}
		return bus.Outbound{Text: "answer"}
	})
	fake.Write(qqtest.Direct, "ann", "ann", "hi", nil)
	await(t, "the answer", func() bool { return slices.Contains(texts(fake), "answer") })
	if got := texts(fake); len(got) != 1 {
		t.Errorf("people see %q", got)
	}
}
