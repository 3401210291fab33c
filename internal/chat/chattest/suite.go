//nolint:thelper // the cases are tests themselves: a failure belongs to the line in the case
package chattest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

func testAnswers(t *testing.T, h *house) {
	h.write(1, "hi")
	h.expect("re: hi")
	in := h.received()[0]
	if in.Scope != "" || !in.Interactive || in.ID == "" || in.Route.ChatID == "" {
		t.Errorf("the owner's message is %+v", in)
	}
}

func testOrder(_ *testing.T, h *house) {
	var want []string
	for i, w := range []string{"one", "two", "three", "four"} {
		h.write(i, w)
		want = append(want, "re: "+w)
	}
	h.expect(want...)
}

// A stranger is neither heard nor served, but can be let in.
func testStranger(t *testing.T, h *house) {
	h.need("Stranger")
	who := In{ID: "2000", Sender: h.Stranger, Chat: h.Chat(h.Stranger), Text: "let me in"}
	before := 0
	if h.Touched != nil {
		before = h.Touched()
	}

	h.Deliver(t, who)
	h.await("the code", func() bool { return len(h.texts(who.Chat)) == 1 })
	if n := len(h.received()); n != 0 {
		t.Errorf("the agent got %d messages of a stranger", n)
	}
	if h.Touched != nil && h.Touched() != before {
		t.Errorf("the platform was asked for %d things on behalf of a stranger", h.Touched()-before)
	}

	waiting, _, err := h.m.Book().List()
	if err != nil || len(waiting) != 1 {
		t.Fatalf("waiting %+v, %v, want one", waiting, err)
	}

	h.write(1, "/pairing approve "+pairingCode(h.texts(who.Chat)[0]))
	h.await("the approval", func() bool { return len(h.texts(h.Chat(h.Owner))) == 1 })
	who.ID, who.Text = "2001", "hello"
	h.Deliver(t, who)
	h.await("the answer", func() bool { return slices.Contains(h.texts(who.Chat), "re: hello") })
	if got := h.received(); len(got) != 1 || got[0].Scope == "" {
		t.Errorf("the agent got %+v, want one message of a guest and no command", got)
	}
}

// Who takes the id of the owner as a name stays a stranger.
func testBorrowedID(t *testing.T, h *house) {
	h.need("Pose")
	h.Pose(t, In{ID: "2100", Sender: h.Stranger, Chat: h.Chat(h.Stranger), Text: "/pairing list"}, h.Owner)
	h.await("a request to be let in", func() bool {
		waiting, _, err := h.m.Book().List()
		if err != nil {
			t.Fatal(err)
		}
		if len(waiting) > 0 && waiting[0].Sender == h.Owner {
			t.Errorf("the request is one of the owner")
		}
		return len(waiting) == 1
	})

	h.settled()
	if got := h.received(); len(got) > 0 {
		t.Errorf("the agent got %+v of a stranger with the name of the owner", got)
	}
}

func pairingCode(text string) string {
	return regexp.MustCompile(`[A-Z0-9]{4}-[A-Z0-9]{4}`).FindString(text)
}

func testGroup(t *testing.T, h *house) {
	h.need("Group")
	h.Deliver(t, In{ID: "3000", Sender: h.Owner, Chat: h.Group, Group: true, Text: "not for you"})
	h.Deliver(t, In{ID: "3001", Sender: h.Owner, Chat: h.Group, Group: true, Mentioned: true, Text: "for you"})
	h.await("an answer", func() bool { return len(h.texts(h.Group)) == 1 })
	h.settled()
	if got := h.received(); len(got) != 1 || !strings.Contains(got[0].Text, "for you") || strings.Contains(got[0].Text, "not for") || got[0].Scope == "" {
		t.Errorf("the agent got %+v, want only what names it, outside the owner's memory", got)
	}
}

func testLongText(t *testing.T, h *house) {
	var b strings.Builder
	b.WriteString("Begin.\n\n```go\n")
	for i := range 1000 {
		b.WriteString("word" + string(rune('a'+i%26)) + "\n")
	}

	b.WriteString("```\n\nEnd.")
	h.reply = func(bus.Inbound) []bus.Outbound { return []bus.Outbound{{Text: b.String()}} }
	h.write(1, "go")
	h.await("all of it", func() bool {
		all := h.texts(h.Chat(h.Owner))
		return len(all) > 0 && strings.HasSuffix(all[len(all)-1], "End.")
	})
	h.settled()
	all := strings.Join(h.texts(h.Chat(h.Owner)), "\n")
	if got := strings.Count(all, "word"); got != 1000 {
		t.Errorf("%d words arrived, want 1000", got)
	}
}

func testLimit(_ *testing.T, h *house) {
	h.need("Limit")
	h.Limit(time.Second)
	h.write(1, "hi")
	h.expect("re: hi")
}

func testBreak(_ *testing.T, h *house) {
	h.need("Break")
	h.Break()
	h.write(1, "hi")
	h.write(2, "there")
	h.expect("re: hi", "re: there")
}

func testRefuse(t *testing.T, h *house) {
	h.need("Refuse")
	h.Refuse()
	h.write(1, "refused")
	h.await("the failure", func() bool { return h.m.Status()[0].Failed == 1 })
	h.write(2, "fine")
	h.await("the next answer", func() bool { return slices.Contains(h.texts(h.Chat(h.Owner)), "re: fine") })
	if slices.Contains(h.texts(h.Chat(h.Owner)), "re: refused") {
		t.Error("what was refused for good was tried again")
	}
}

func testCut(_ *testing.T, h *house) {
	h.need("Cut")
	h.write(1, "before")
	h.expect("re: before")
	h.Cut()
	h.write(2, "after")
	h.expect("re: before", "re: after")
}

func testRestart(t *testing.T, h *house) {
	h.write(1, "hi")
	h.expect("re: hi")
	h.end()
	h.later = 8 * time.Hour // some platforms repeat a message for that long
	h.begin()
	if h.Repeats {
		h.write(1, "hi")
	}

	h.write(2, "again")
	h.expect("re: hi", "re: again")
	if n := len(h.received()); n != 2 {
		t.Errorf("the agent got %d messages, want 2", n)
	}
}

func testStream(t *testing.T, h *house) {
	h.need("Streams")
	h.reply = func(in bus.Inbound) []bus.Outbound {
		if !in.WantsStream {
			t.Error("the message wants no stream")
		}

		var outs []bus.Outbound
		for range 40 {
			outs = append(outs, bus.Outbound{Kind: bus.Delta, StreamID: "s0", Text: "look "})
		}

		outs = append(outs, bus.Outbound{Kind: bus.DeltaEnd, StreamID: "s0", Resuming: true},
			bus.Outbound{Kind: bus.Delta, StreamID: "s1", Text: "It is "}, bus.Outbound{Kind: bus.Delta, StreamID: "s1", Text: "four."},
			bus.Outbound{Kind: bus.DeltaEnd, StreamID: "s1"})
		return append(outs, bus.Outbound{Text: "It is four.", Streamed: true})
	}

	h.write(1, "2+2")
	first := strings.TrimSpace(strings.Repeat("look ", 40))
	if h.m.Channel("test").Caps().OneMessage {
		h.await("all of it", func() bool { return slices.Contains(h.texts(h.Chat(h.Owner)), first+"\n\nIt is four.") })
		h.expect(first + "\n\nIt is four.")
		return
	}

	h.expect(first, "It is four.")
}

func testFiles(t *testing.T, h *house) {
	path := filepath.Join(h.dir, "out.txt")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}

	h.reply = func(bus.Inbound) []bus.Outbound {
		return []bus.Outbound{{Text: "here", Media: []bus.Media{{Path: path, Name: "out.txt", Size: 7}}}}
	}
	if h.m.Channel("test").Caps().MaxMedia == 0 { // a platform without files names them
		h.write(1, "go")
		h.await("the name of the file", func() bool {
			return strings.Contains(strings.Join(h.texts(h.Chat(h.Owner)), " "), "out.txt")
		})
		if all := strings.Join(h.texts(""), " "); strings.Contains(all, h.dir) {
			t.Errorf("people see a path of this machine: %q", all)
		}
		return
	}

	h.Deliver(t, In{ID: "4000", Sender: h.Owner, Chat: h.Chat(h.Owner), Text: "take this", File: "in.txt"})
	h.await("the file", func() bool {
		return slices.ContainsFunc(h.Seen(), func(s Seen) bool { return slices.Contains(s.Files, "out.txt") })
	})
	got := h.received()
	if len(got) != 1 || len(got[0].Media) != 1 {
		t.Fatalf("the agent got %+v, want one file", got)
	}

	data, err := os.ReadFile(got[0].Media[0].Path)
	if err != nil || string(data) != "content of in.txt" {
		t.Errorf("the file that came in: %q, %v", data, err)
	}
}

// endMost is how long the end may take. Drivers have 5 s for what they say to
// their platform at the end; the rest is for a slow machine.
const endMost = 90 * time.Second

// The end comes in time and leaves nothing behind.
func testEnd(t *testing.T, h *house) {
	h.write(1, "hi")
	h.expect("re: hi")
	if len(h.goroutines()) == 0 {
		t.Error("the channel runs without goroutines")
	}
	h.ends()
}

// The end waits for no answer of the platform.
func testSilentEnd(_ *testing.T, h *house) {
	h.write(1, "hi")
	h.expect("re: hi")
	h.wire.silence(true)
	h.ends()
}

// ends ends the house and looks that all of it ended.
func (h *house) ends() {
	h.t.Helper()
	start := time.Now()
	h.end()
	if took := time.Since(start); took > endMost {
		h.t.Errorf("the end took %v", took)
	}
	h.within(endMost, "the end of all goroutines", func() bool { return len(h.goroutines()) == 0 })
}

// A connection on which nothing comes any more, without an end, is noticed and
// replaced.
func testHalfOpen(_ *testing.T, h *house) {
	h.need("Impatient")
	h.end()
	h.wrap = func(ch chat.Channel) chat.Channel { h.Impatient(ch); return ch }
	h.begin()
	h.write(1, "before")
	h.expect("re: before")
	since, again := h.m.Status()[0].Since, time.Time{}
	h.await("another connection", func() bool {
		s := h.m.Status()[0]
		if s.State == deliver.Running && s.Since.After(since) {
			return true
		}

		// A channel that polls until it is connected notices nothing before: it is
		// connected when the next silence begins.
		if time.Now().After(again) {
			again = time.Now().Add(20 * time.Second)
			h.wire.silence(false)
		}
		return false
	})

	h.wire.reap() // others than the one that is watched would only be noticed when they are used
	h.write(2, "after")
	h.expect("re: before", "re: after")
}
