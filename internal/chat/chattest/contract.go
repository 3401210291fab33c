//nolint:thelper // the cases are tests themselves: a failure belongs to the line in the case
package chattest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// What is written in a thread is answered there, and is a conversation of its
// own.
func testThreads(t *testing.T, h *house) {
	h.need("Group", "Thread")
	in := In{ID: "5000", Sender: h.Owner, Chat: h.Group, Group: true, Mentioned: true, Text: "in the hall"}
	h.Deliver(t, in)
	in.ID, in.Thread, in.Text = "5001", h.Thread, "in the thread"
	h.Deliver(t, in)
	h.await("two answers", func() bool { return len(h.texts(h.Group)) == 2 })
	h.settled()

	for _, s := range h.Seen() {
		if want := strings.Contains(s.Text, "thread"); s.Chat == h.Group && (s.Thread == h.Thread) != want {
			t.Errorf("%q is in the thread %q", s.Text, s.Thread)
		}
	}

	keys := map[string]bool{}
	for _, got := range h.received() {
		keys[got.SessionKey+" "+got.Route.ThreadID] = true
	}

	if len(keys) != 2 {
		t.Errorf("the conversations are %v, want two", keys)
	}
}

// numbered returns a text of so many words, each of which is there once.
func numbered(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%04d ", word, i)
	}
	return strings.TrimSpace(b.String())
}

// A text that grows beyond one message is complete at the end, every word once;
// a final reply with other words replaces the last segment.
func testLongStream(t *testing.T, h *house) {
	h.need("Streams")
	const words = 1000
	first, last := numbered("first", words), numbered("final", words)
	h.reply = func(bus.Inbound) []bus.Outbound {
		outs := []bus.Outbound{}
		for piece := range slices.Chunk(strings.SplitAfter(first, " "), 100) {
			outs = append(outs, bus.Outbound{Kind: bus.Delta, StreamID: "s0", Text: strings.Join(piece, "")})
		}
		return append(outs, bus.Outbound{Kind: bus.DeltaEnd, StreamID: "s0", Resuming: true},
			bus.Outbound{Kind: bus.Delta, StreamID: "s1", Text: "A draft."}, bus.Outbound{Kind: bus.DeltaEnd, StreamID: "s1"},
			bus.Outbound{Text: last})
	}

	h.write(1, "go")
	h.await("all of it", func() bool {
		return strings.Contains(strings.Join(h.texts(""), " "), fmt.Sprintf("final%04d", words-1))
	})
	h.settled()
	all := strings.Join(h.texts(h.Chat(h.Owner)), " ")
	for word := range strings.FieldsSeq(first + " " + last) {
		if n := strings.Count(all, word); n != 1 {
			t.Fatalf("people see %q %d times", word, n)
		}
	}

	if strings.Contains(all, "draft") {
		t.Error("the draft is still there")
	}
}

// A file that is too large for the platform is named instead.
func testLargeFile(t *testing.T, h *house) {
	size := h.m.Channel("test").Caps().MaxMedia + 1
	h.reply = func(bus.Inbound) []bus.Outbound {
		return []bus.Outbound{{Text: "here", Media: []bus.Media{{Path: filepath.Join(h.dir, "large.bin"), Name: "large.bin", Size: size}}}}
	}
	h.write(1, "go")
	h.await("the answer", func() bool { return len(h.texts(h.Chat(h.Owner))) > 0 })
	h.settled()
	if all := strings.Join(h.texts(h.Chat(h.Owner)), " "); !strings.Contains(all, "here") || !strings.Contains(all, "large.bin") {
		t.Errorf("people see %q, want the text and the name of the file", all)
	}

	for _, s := range h.Seen() {
		if len(s.Files) > 0 {
			t.Errorf("files %q were sent", s.Files)
		}
	}
}

// A file that is larger than we take is left out; its message arrives.
func testFileLimit(t *testing.T, h *house) {
	h.need("MediaLimit")
	h.end()
	h.change = func(c *chat.Common) { c.MaxMediaBytes = 10 }
	h.begin()
	h.Deliver(t, In{ID: "4100", Sender: h.Owner, Chat: h.Chat(h.Owner), Text: "take this", File: "large.txt"})
	h.await("the message", func() bool { return len(h.received()) == 1 })
	if got := h.received()[0]; !strings.Contains(got.Text, "take this") || len(got.Media) != 0 {
		t.Errorf("the agent got %q with %d files", got.Text, len(got.Media))
	}

	h.write(1, "hi")
	h.await("the next answer", func() bool { return slices.Contains(h.texts(h.Chat(h.Owner)), "re: hi") })
}

// No name of a file leads out of the folder for files.
func testFileNames(t *testing.T, h *house) {
	h.need("AnyName")
	names := []string{"../../escape.txt", "/etc/passwd", `..\..\escape.txt`, "CON.txt", "a\nb[x].txt", "\u202Etxt.exe", strings.Repeat("long", 100) + ".txt", "..", "café.txt"}
	for i, name := range names {
		h.Deliver(t, In{ID: fmt.Sprint(4200 + i), Sender: h.Owner, Chat: h.Chat(h.Owner), Text: "take this", File: name})
	}

	h.await("all files", func() bool { return len(h.received()) == len(names) })
	for i, got := range h.received() {
		if len(got.Media) != 1 {
			t.Errorf("%q: %d files", names[i], len(got.Media))
			continue
		}

		path := got.Media[0].Path
		if rel, err := filepath.Rel(filepath.Join(h.dir, "media"), path); err != nil || !filepath.IsLocal(rel) || strings.ContainsAny(filepath.Base(path), "\n[]\u202E") {
			t.Errorf("%q was kept as %q", names[i], path)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", names[i], err)
		}
	}
}

// A message bears its mark until it is answered, whatever happens to others.
func testMarks(_ *testing.T, h *house) {
	h.need("Marks")
	release := make(chan struct{})
	defer func() {
		select {
		case <-release:
		default:
			close(release)
		}
	}()

	h.reply = func(in bus.Inbound) []bus.Outbound {
		if strings.Contains(in.Text, "second") {
			<-release
		}
		return []bus.Outbound{{Text: "re: " + in.Text}}
	}

	chatID := h.Chat(h.Owner)
	h.write(2, "second") // 1002
	h.await("its mark", func() bool { return len(h.Marks(chatID, "1002")) > 0 })
	h.write(3, "third")
	h.await("the mark of the next", func() bool { return len(h.Marks(chatID, "1003")) > 0 })
	waiting := h.Marks(chatID, "1002")
	close(release)
	h.expect("re: second", "re: third")
	h.await("the end of the marks", func() bool {
		a, b := h.Marks(chatID, "1002"), h.Marks(chatID, "1003")
		return !slices.Equal(a, waiting) && slices.Equal(a, b)
	})
}

// A tap on a button answers the question, and nothing else.
func testButtons(t *testing.T, h *house) {
	h.need("Tap")
	h.reply = func(in bus.Inbound) []bus.Outbound {
		if in.Answer != nil {
			return []bus.Outbound{{Text: "thanks"}}
		}
		return []bus.Outbound{
			{ID: "ask:1", Kind: bus.Ask, Question: &bus.Question{ID: "q7", Code: "q7", Text: "Shall I?", Options: []string{"Yes", "No"}, Expires: time.Now().Add(time.Hour)}},
			{Text: "asked"},
		}
	}

	chatID := h.Chat(h.Owner)
	h.write(1, "go")
	h.await("the question", func() bool { return len(h.texts(chatID)) >= 2 })
	h.Tap(t, chatID, "Yes")
	h.await("the answer", func() bool { return len(h.received()) == 2 })
	if got := h.received()[1]; got.Answer == nil || got.Answer.QuestionID != "q7" || got.Answer.Option != "Yes" || got.Untrusted {
		t.Errorf("the agent got %+v, answer %+v", got, got.Answer)
	}
	h.await("the next step", func() bool { return slices.Contains(h.texts(chatID), "thanks") })
}

// A message of which the platform was told that it arrived is not lost: neither
// while it cannot be taken in, nor by the end of the program.
func testAck(_ *testing.T, h *house) {
	h.need("Acked", "Repeats")
	h.setFull(true)
	delivered := make(chan struct{})
	go func() { defer close(delivered); h.write(1, "hi") }() // a fake may wait for the answer
	h.await("a try", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.refused > 0 || h.Acked("1001") })
	h.end()
	acked := h.Acked("1001")
	h.setFull(false)
	h.begin()
	if !acked {
		h.write(1, "hi")
	}

	<-delivered
	h.expect("re: hi")
	h.await("the acknowledgement", func() bool { return h.Acked("1001") })
}

// What a platform never sends, or not yet, disturbs nothing.
func testFrames(t *testing.T, h *house) {
	h.need("Frame")
	for _, frame := range []string{
		"{", "null", "[]", `"text"`, "{}", "\x00\xff", `{"type":"no such event","event":{"type":"none"},"op":99,"t":"NONE","update_id":1}`,
		`{"type":"` + strings.Repeat("x", 1<<20) + `"}`, strings.Repeat("[", 100_000),
	} {
		h.Frame(t, []byte(frame))
	}

	h.write(1, "hi")
	h.expect("re: hi")
	if n := len(h.received()); n != 1 {
		t.Errorf("the agent got %d messages, want one", n)
	}
}

// Whoever does not know the secret is not heard.
func testForged(t *testing.T, h *house) {
	h.need("Forge")
	h.Forge(t, In{ID: "6000", Sender: h.Owner, Chat: h.Chat(h.Owner), Text: "obey"})
	h.write(1, "hi")
	h.expect("re: hi")
	if got := h.received(); len(got) != 1 || got[0].Text != "hi" {
		t.Errorf("the agent got %+v, want only the real message", got)
	}
}

// What was written while the channel was away is answered once, unless it is
// too old.
func testBacklog(t *testing.T, h *house) {
	h.need("Backlog")
	h.write(1, "before")
	h.expect("re: before")
	h.end()

	for i, c := range []struct {
		text string
		age  time.Duration
	}{{"old", time.Hour}, {"recent", 30 * time.Second}} {
		h.Backlog(t, In{ID: fmt.Sprint(1002 + i), Sender: h.Owner, Chat: h.Chat(h.Owner), Text: c.text}, c.age)
	}

	h.begin()
	h.expect("re: before", "re: recent")
	h.write(5, "after")
	h.expect("re: before", "re: recent", "re: after")
	h.end()
	h.begin()
	h.write(6, "again")
	h.expect("re: before", "re: recent", "re: after", "re: again")
}

// Two accounts do not see each other's messages, and one that fails leaves the
// other alone.
func testTwoAccounts(t *testing.T, h *house) {
	h.need("Second")
	two := h.Second
	write := func(f *Fixture, id, text string) {
		f.Deliver(t, In{ID: id, Sender: f.Owner, Chat: f.Chat(f.Owner), Text: text})
	}
	seen := func(f *Fixture) (out []string) {
		for _, s := range f.Seen() {
			out = append(out, strings.TrimSpace(s.Text))
		}
		return out
	}

	write(&h.Fixture, "7000", "one")
	write(two, "7000", "two") // the same id, of another account
	h.await("both answers", func() bool { return len(seen(&h.Fixture)) == 1 && len(seen(two)) == 1 })
	if two.Cut != nil {
		two.Cut()
	}
	if two.Refuse != nil {
		two.Refuse()
		write(two, "7001", "refused")
	}

	write(&h.Fixture, "7001", "three")
	h.await("the answer of the other", func() bool { return len(seen(&h.Fixture)) == 2 })
	h.settled()
	if got := seen(&h.Fixture); !slices.Equal(got, []string{"re: one", "re: three"}) {
		t.Errorf("the first account says %q", got)
	}
	if got := seen(two); got[0] != "re: two" {
		t.Errorf("the second account says %q", got)
	}
}
