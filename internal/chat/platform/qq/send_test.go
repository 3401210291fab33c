package qq

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
)

// heardIn lets Ann write and returns the message as the agent got it.
func heardIn(r *rig, k qqtest.Kind, chatID string) bus.Inbound {
	r.t.Helper()
	n := len(r.Inbound())
	r.fake.Write(k, "ann", chatID, "hi", nil)
	return r.receive(n + 1)[n]
}

// mustSend sends, which must work.
func mustSend(r *rig, out bus.Outbound) {
	r.t.Helper()
	if _, err := r.Send(r.t.Context(), out); err != nil {
		r.t.Fatalf("send %q: %v", out.Key, err)
	}
}

// deferred reports whether an error means that the message waits.
func deferred(err error) bool { return errors.Is(err, errNoReply) && !chat.IsPermanent(err) }

// A message gets five replies with numbers of their own; the sixth waits.
func TestFiveReplies(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	in := heardIn(r, qqtest.Direct, "ann")
	for i := range 5 {
		mustSend(r, answer(in, "k"+strconv.Itoa(i), "part"))
	}
	if _, err := r.Send(t.Context(), answer(in, "k5", "part")); !deferred(err) {
		t.Errorf("the sixth: %v", err)
	}
	var seqs []int
	for _, m := range fake.Messages() {
		seqs = append(seqs, m.Seq)
	}
	if !slices.Equal(seqs, []int{1, 2, 3, 4, 5}) {
		t.Errorf("numbers %v", seqs)
	}
	next := heardIn(r, qqtest.Direct, "ann")
	mustSend(r, answer(in, "k5", "part")) // the next message of the person takes it
	if m := fake.Messages()[5]; m.ReplyTo != next.Route.MessageID || m.Seq != 1 || len(fake.Broken()) > 0 {
		t.Errorf("the sixth is %+v, broken %q", m, fake.Broken())
	}
}

// Progress leaves three of the five to the answer.
func TestProgressLeavesReplies(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	in := heardIn(r, qqtest.Direct, "ann")
	for range 4 {
		hint := answer(in, "", "a hint")
		hint.Kind = bus.ToolHint
		_, _ = r.Send(t.Context(), hint)
	}
	for i := range 3 {
		mustSend(r, answer(in, "k"+strconv.Itoa(i), "part"))
	}
	if got := texts(fake); !slices.Equal(got, []string{"a hint", "a hint", "part", "part", "part"}) {
		t.Errorf("sent %q", got)
	}
}

// Whatever is known about a reply, it is not sent twice: not when its
// confirmation is lost, not after a restart, not when the person wrote again.
func TestSentOnce(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	in := heardIn(r, qqtest.Direct, "ann")
	fake.Fail(qqtest.Failure{Path: "/messages", After: true})
	if _, err := r.Send(t.Context(), answer(in, "k0", "once")); err == nil || chat.IsPermanent(err) {
		t.Fatalf("a cut connection: %v", err)
	}
	heardIn(r, qqtest.Direct, "ann")
	end()
	r.reopen(nil)
	defer r.begin()()
	mustSend(r, answer(in, "k0", "once"))
	mustSend(r, answer(in, "k0", "once"))
	mustSend(r, answer(in, "k1", "more"))
	if got := texts(fake); !slices.Equal(got, []string{"once", "more"}) {
		t.Errorf("people see %q", got)
	}
	if m := fake.Messages()[1]; m.Seq != 2 && m.ReplyTo == in.Route.MessageID {
		t.Errorf("the next is %+v", m)
	}
}

// Numbers that another program used are left out, as when the state is lost.
func TestLostState(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	in := heardIn(r, qqtest.Direct, "ann")
	mustSend(r, answer(in, "k0", "one"))
	mustSend(r, answer(in, "k1", "two"))
	r.book.mu.Lock()
	r.book.v = record{App: qqtest.AppID}
	r.book.mu.Unlock()
	mustSend(r, answer(in, "k2", "three"))
	if m := fake.Messages()[2]; m.Seq != 3 || m.Text() != "three" {
		t.Errorf("the next is %+v", m)
	}
}

// The time for replies: an hour for a person, five minutes for a group. What
// comes later waits; what was not asked for is refused with a reason.
func TestWindows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind qqtest.Kind
		chat string
		in   time.Duration
		over time.Duration
	}{{qqtest.Direct, "ann", 58 * time.Minute, 60 * time.Minute}, {qqtest.Group, "G1", 4 * time.Minute, 5 * time.Minute}, {qqtest.Guild, "77", 4 * time.Minute, 5 * time.Minute}} {
		t.Run(string(c.kind), func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, nil)
			defer r.begin()()
			in := heardIn(r, c.kind, c.chat)
			ahead := func(d time.Duration) {
				r.book.mu.Lock()
				defer r.book.mu.Unlock()
				r.book.now = func() time.Time { return time.Now().Add(d) }
			}
			ahead(c.in)
			mustSend(r, answer(in, "k0", "in time"))
			ahead(c.over)
			if _, err := r.Send(t.Context(), answer(in, "k1", "late")); !deferred(err) {
				t.Errorf("late: %v", err)
			}
			out := bus.Outbound{Key: "cron", Kind: bus.Message, Route: bus.Route{Channel: "qq", ChatID: in.Route.ChatID}, Text: "good morning"}
			if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) || !strings.Contains(err.Error(), "write first") {
				t.Errorf("unasked: %v", err)
			}
			fake.Permit(false, true, true)
			mustSend(r, out)
			if len(fake.Broken()) > 0 {
				t.Errorf("broken: %q", fake.Broken())
			}
		})
	}
}

// QQ may close a message before we think so: the reply goes to another one.
func TestClosedMessage(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	in := heardIn(r, qqtest.Direct, "ann")
	fake.Fail(qqtest.Failure{Path: "/messages", Status: 400, Code: 40034128, Text: "over"})
	if _, err := r.Send(t.Context(), answer(in, "k0", "hi")); !deferred(err) {
		t.Errorf("closed: %v", err)
	}
	next := heardIn(r, qqtest.Direct, "ann")
	mustSend(r, answer(in, "k0", "hi"))
	if m := fake.Messages()[0]; m.ReplyTo != next.Route.MessageID {
		t.Errorf("sent %+v", m)
	}
}

// A chat is remembered as a group over restarts.
func TestGroupAfterRestart(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	in := heardIn(r, qqtest.Group, "G1")
	mustSend(r, answer(in, "k0", "hi"))
	end()
	r.reopen(nil)
	fake.Permit(false, true, true)
	mustSend(r, bus.Outbound{Key: "cron", Kind: bus.Message, Route: bus.Route{Channel: "qq", ChatID: "G1"}, Text: "later"})
	if m := fake.Messages()[1]; m.Kind != qqtest.Group {
		t.Errorf("sent %+v", m)
	}
	if _, err := r.Send(t.Context(), bus.Outbound{Route: bus.Route{ChatID: "a/../b"}, Text: "x"}); !chat.IsPermanent(err) {
		t.Errorf("a chat that is none: %v", err)
	}
}

// An answer whose process died before it replied knows its chat.
func TestAnswerOfEarlierProcess(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	in := heardIn(r, qqtest.Group, "G1")
	end()
	r.reopen(nil)
	r.book.v, r.book.opened = record{App: qqtest.AppID}, true // nothing was written
	mustSend(r, answer(in, "k0", "hi"))
	if m := fake.Messages()[0]; m.Kind != qqtest.Group || m.ReplyTo != in.Route.MessageID {
		t.Errorf("sent %+v", m)
	}
}

// Addresses that are not registered do not keep a text from arriving.
func TestAddresses(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Permit(false, false, false)
	r := newRig(t, fake, nil)
	defer r.begin()()
	in := heardIn(r, qqtest.Group, "G1")
	mustSend(r, answer(in, "k0", "See https://a.example.com/x.html (http://b.org), fine."))
	want := "See https://a。example。com/x.html (http://b。org), fine."
	if got := texts(fake); !slices.Equal(got, []string{want}) {
		t.Errorf("people see %q", got)
	}
	fake.Fail(qqtest.Failure{Path: "/messages", Times: 2, Status: 403, Code: codeURL, Text: "url"})
	mustSend(r, answer(in, "k1", "See https://a.example.com/x"))
	if got := texts(fake); got[1] != "See [link]" {
		t.Errorf("people see %q", got[1])
	}
	if m := fake.Messages(); m[0].Seq != 1 || m[1].Seq != 2 {
		t.Errorf("numbers %d, %d", m[0].Seq, m[1].Seq)
	}
}

// Markdown is sent where it is permitted, and plain text elsewhere. Nothing in a
// text calls people or loads pictures.
func TestRendering(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, map[string]any{"msgFormat": "markdown"})
	defer r.begin()()
	in := heardIn(r, qqtest.Direct, "ann")
	mustSend(r, answer(in, "k0", "**bold** <@bob> @everyone"))
	fake.Permit(true, false, true)
	mustSend(r, answer(in, "k1", "**bold** <@bob>"))
	mustSend(r, answer(in, "k2", "![x](https://evil.example/leak)"))
	list := fake.Messages()
	if got := list[0].Text(); list[0].Body["msg_type"] != 0.0 || got != "bold <\u200b@bob> ＠everyone" {
		t.Errorf("not permitted: %q", got)
	}
	if got := list[1].Text(); list[1].Body["msg_type"] != 2.0 || got != "**bold** <\u200b@bob>" {
		t.Errorf("permitted: %q", got)
	}
	if list[2].Body["msg_type"] != 0.0 || strings.Contains(list[2].Text(), "![") {
		t.Errorf("a picture: %+v", list[2].Body)
	}
}

// Answers to choose from that are not a question of the program are written into
// the person's own line.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Permit(true, false, true)
	r := newRig(t, fake, map[string]any{"msgFormat": "markdown"})
	defer r.begin()()
	in := heardIn(r, qqtest.Group, "G1")
	out := answer(in, "k0", "Which?")
	out.Kind, out.Question = bus.Message, &bus.Question{ID: "q", Options: []string{"Red", "Blue"}}
	mustSend(r, out)
	b := qqtest.Buttons(fake.Messages()[0])
	if len(b) != 2 || b[0]["type"] != 2.0 || b[0]["data"] != "Red" {
		t.Errorf("buttons %v", b)
	}
	out = answer(in, "k1", "Shall I?")
	out.Kind, out.Question = bus.Ask, &bus.Question{ID: "q.8", Options: []string{"Yes", "No"}}
	mustSend(r, out)
	id, ok := fake.Tap(qqtest.Group, "ann", "G1", "No")
	if !ok {
		t.Fatal("no button")
	}
	got := r.receive(2)[1]
	if got.Answer == nil || got.Answer.QuestionID != "q.8" || got.Answer.Option != "No" || got.Route.ChatID != "G1" {
		t.Errorf("the tap is %+v", got)
	}
	r.Await("the confirmation", func() bool { return fake.Tapped(id) })
	fake.Tap(qqtest.Group, "eve", "G1", "Yes") // not admitted
	heardIn(r, qqtest.Group, "G1")
	if n := len(r.Inbound()); n != 3 {
		t.Errorf("%d messages", n)
	}
}

// A text that QQ finds too long is sent in pieces, each once.
func TestTooLong(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Longest(120)
	r := newRig(t, fake, nil)
	defer r.begin()()
	in := heardIn(r, qqtest.Direct, "ann")
	text := strings.TrimSpace(strings.Repeat("0123456789 ", 15))
	mustSend(r, answer(in, "k0", text))
	mustSend(r, answer(in, "k0", text))
	if n := strings.Count(strings.Join(texts(fake), " "), "0123456789"); n != 15 {
		t.Errorf("%d words in %q", n, texts(fake))
	}
}

// Files come before the text, with the type that QQ shows them as.
func TestFiles(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	defer r.begin()()
	dir := t.TempDir()
	var media []bus.Media
	for _, f := range [][2]string{{"a.png", "\x89PNG\r\n\x1a\n"}, {"b.mp4", "\x00\x00\x00\x18ftypmp42"}, {"c.silk", "\x02#!SILK_V3"}, {"d.txt", "text"}} {
		path := filepath.Join(dir, f[0])
		if err := os.WriteFile(path, []byte(f[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		media = append(media, bus.Media{Path: path, Name: f[0], Size: int64(len(f[1]))})
	}
	in := heardIn(r, qqtest.Direct, "ann")
	parts := r.Plan(bus.Outbound{ID: "o", Kind: bus.Final, Route: in.Route, Text: "here", Media: media})
	if len(parts) != 5 || parts[4].Text != "here" || len(parts[0].Media) != 1 {
		t.Fatalf("parts %+v", parts)
	}
	for i, p := range parts {
		p.Key, p.ReplyTo, p.Meta = strconv.Itoa(i), in.Route.MessageID, in.Meta
		mustSend(r, p)
	}
	var got []string
	for _, m := range fake.Messages() {
		got = append(got, m.File)
	}
	if !slices.Equal(got, []string{"type1", "type2", "type3", "d.txt", ""}) {
		t.Errorf("files %q", got)
	}

	for _, c := range []struct {
		kind qqtest.Kind
		chat string
		file int
		want string
	}{{qqtest.Guild, "77", 0, "picture"}, {qqtest.Guild, "77", 3, ""}, {qqtest.Group, "G1", 3, "d.txt"}} {
		out := answer(heardIn(r, c.kind, c.chat), "f"+strconv.Itoa(c.file), "")
		out.Media = media[c.file : c.file+1]
		mustSend(r, out)
		list := fake.Messages()
		if m := list[len(list)-1]; m.File != c.want || c.want == "" && m.Text() != "[attachment: d.txt - send failed]" {
			t.Errorf("%s: %+v", c.kind, m)
		}
	}
	fake.Fail(qqtest.Failure{Path: "/files", Status: 400, Code: 304082, Text: "no"})
	out := answer(heardIn(r, qqtest.Direct, "ann"), "refused", "")
	out.Media = media[:1]
	mustSend(r, out)
	if list := texts(fake); list[len(list)-1] != "[attachment: a.png - send failed]" {
		t.Errorf("people see %q", list[len(list)-1])
	}
}

// Errors have the classes that the manager goes by.
func TestClasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail      qqtest.Failure
		permanent bool
		limited   bool
	}{
		"cut":      {fail: qqtest.Failure{}},
		"proxy":    {fail: qqtest.Failure{Status: 502, Garbage: true}},
		"internal": {fail: qqtest.Failure{Status: 500, Code: 620, Text: "internal"}},
		"limit":    {fail: qqtest.Failure{Status: 400, Code: codeTooMany}, limited: true},
		"429":      {fail: qqtest.Failure{Status: 429, RetryAfter: 3}, limited: true},
		"muted":    {fail: qqtest.Failure{Status: 500, Code: 40054002, Text: "muted"}, permanent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, nil)
			defer r.begin()()
			in := heardIn(r, qqtest.Direct, "ann")
			c.fail.Path = "/messages"
			fake.Fail(c.fail)
			_, err := r.Send(t.Context(), answer(in, "k", "hi"))
			_, limited := errors.AsType[*chat.RateLimitedError](err)
			if err == nil || chat.IsPermanent(err) != c.permanent || limited != c.limited {
				t.Errorf("the error is %v", err)
			}
			mustSend(r, answer(in, "k", "hi"))
			if n := len(fake.Messages()); n != 1 || fake.Messages()[0].Seq != 1 {
				t.Errorf("%d messages", n)
			}
		})
	}
}

// Typing is shown in direct chats and uses no reply; ackMessage uses one.
func TestSignals(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, map[string]any{"ackMessage": "One moment."})
	defer r.begin()()
	in := heardIn(r, qqtest.Direct, "ann")
	for range 7 {
		if err := r.Signal(t.Context(), in.Route, chat.Working); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := r.Signal(t.Context(), in.Route, chat.Seen); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		mustSend(r, answer(in, "k"+strconv.Itoa(i), "part"))
	}
	if got := texts(fake); !slices.Equal(got, []string{"One moment.", "part", "part", "part", "part"}) || len(fake.Broken()) > 0 {
		t.Errorf("people see %q, broken %q", got, fake.Broken())
	}
	group := heardIn(r, qqtest.Group, "G1")
	if err := r.Signal(t.Context(), group.Route, chat.Working); err != nil {
		t.Error(err)
	}
	if n := len(fake.Calls("", "/v2/groups/")); n != 0 {
		t.Errorf("%d calls for typing in a group", n)
	}
}

// A long answer has as many parts as QQ takes, each as short as possible.
func TestPlan(t *testing.T) {
	t.Parallel()
	r := newRig(t, loopback(t), nil)
	for _, c := range []struct{ words, parts, longest int }{{10, 1, 2000}, {500, 3, 2000}, {1000, 3, 4800}, {3000, 7, 4800}} {
		text := strings.TrimSpace(strings.Repeat("ten chars ", c.words))
		parts := r.Plan(bus.Outbound{ID: "o", Kind: bus.Final, Text: text})
		longest := 0
		var all []string
		for _, p := range parts {
			longest = max(longest, len(p.Text))
			all = append(all, p.Text)
		}
		if len(parts) > c.parts || longest > c.longest || strings.Count(strings.Join(all, " "), "ten chars") != c.words {
			t.Errorf("%d words make %d parts of up to %d", c.words, len(parts), longest)
		}
	}
}
