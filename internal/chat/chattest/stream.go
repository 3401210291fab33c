//nolint:thelper // the cases are tests themselves: a failure belongs to the line in the case
package chattest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// live makes the agent answer the next message by a function that says one
// thing after the other, while the case looks on.
func (h *house) live(t *testing.T, script func(say func(bus.Outbound))) {
	h.setReply(func(in bus.Inbound) []bus.Outbound {
		var final []bus.Outbound
		script(func(out bus.Outbound) {
			if out.Kind == "" {
				final = append(final, out)
				return
			}
			out.Route, out.ReplyTo, out.Meta = in.Route, in.Route.MessageID, in.Meta
			if err := h.q.Publish(t.Context(), out); err != nil {
				t.Error(err)
			}
		})
		return final
	})
	h.write(1, "go")
}

// A long text grows before the reader's eyes until its end: each piece is shown
// before the next one is there, and what was shown never goes away.
func testGrowth(t *testing.T, h *house) {
	h.need("Streams")
	const pieces, words = 5, 200 // 11,000 characters: more than an edit takes on some platforms
	shown, lost := make([]bool, pieces), false
	look := func() string {
		all := strings.Join(h.texts(h.Chat(h.Owner)), " ")
		for i := range pieces {
			there := strings.Contains(all, fmt.Sprintf("piece%dw%04d", i, words-1))
			lost = lost || shown[i] && !there
			shown[i] = shown[i] || there
		}
		return all
	}

	done := make(chan struct{})
	h.live(t, func(say func(bus.Outbound)) {
		defer close(done)
		var whole strings.Builder
		for i := range pieces {
			piece := numbered(fmt.Sprintf("piece%dw", i), words)
			whole.WriteString(piece + " ")
			say(bus.Outbound{Kind: bus.Delta, StreamID: "s0", Text: piece + " "})
			if !h.try(fmt.Sprintf("piece %d of the text", i), func() bool { look(); return shown[i] }) {
				return
			}
		}

		say(bus.Outbound{Kind: bus.DeltaEnd, StreamID: "s0"})
		say(bus.Outbound{Text: strings.TrimSpace(whole.String()), Streamed: true})
	})
	if <-done; t.Failed() {
		return
	}

	h.setReply(nil)
	h.write(2, "after")
	h.await("the next answer", func() bool { return strings.Contains(look(), "re: after") })
	if lost {
		t.Error("a part of the text that was shown went away")
	}

	all := look()
	for i := range pieces {
		for word := range strings.FieldsSeq(numbered(fmt.Sprintf("piece%dw", i), words)) {
			if n := strings.Count(all, word); n != 1 {
				t.Fatalf("people see %q %d times", word, n)
			}
		}
	}
}

// No message is changed into what it says already: on some platforms each change
// is kept for good, and on all of them it counts against a limit.
func testIdleEdits(t *testing.T, h *house) {
	h.need("Streams")
	if h.Idle == nil {
		t.Fatal("the fixture of a platform that shows texts that grow counts idle edits")
	}

	done := make(chan struct{})
	h.live(t, func(say func(bus.Outbound)) {
		defer close(done)
		for i, text := range []string{"It is.", "It is four."} {
			id := fmt.Sprintf("s%d", i)
			say(bus.Outbound{Kind: bus.Delta, StreamID: id, Text: text})
			if !h.try("the preview of "+text, func() bool {
				return slices.ContainsFunc(h.texts(h.Chat(h.Owner)), func(s string) bool { return strings.Contains(s, text) })
			}) {
				return
			}
			say(bus.Outbound{Kind: bus.DeltaEnd, StreamID: id, Resuming: i == 0})
		}

		say(bus.Outbound{Text: "It is four.", Streamed: true})
	})
	if <-done; t.Failed() {
		return
	}

	h.setReply(nil)
	h.write(2, "after")
	h.await("the next answer", func() bool { return slices.Contains(h.texts(h.Chat(h.Owner)), "re: after") })
	if n := h.Idle(); n != 0 {
		t.Errorf("%d edits changed nothing", n)
	}
}
