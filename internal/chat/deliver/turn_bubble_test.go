package deliver_test

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// An answer that was shown while it grew is not said again with its files.
func TestStreamWithFiles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		p.caps.MaxMedia, p.caps.Together = 100, 10
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(delta("c", "s1", "Here it"))
		time.Sleep(2 * time.Second)
		out := final("1", "c", "Here it is.")
		out.Media = []bus.Media{{Path: "a.txt", Name: "a.txt", Size: 1}, {Path: "b.txt", Name: "b.txt", Size: 1}}
		r.publish(delta("c", "s1", " is."), end("c", "s1", false), out)
		next := final("2", "c", "And this.")
		next.Media = out.Media[:1]
		r.publish(next)
		time.Sleep(time.Second)
		diff(t, "shown", lines(p.saw("send", "edit", "final edit")), []string{
			"send m1 Here it", "final edit m1 Here it is.", "send m2 <a.txt><b.txt>", "send m3 And this.<a.txt>",
		})
	})
}

// oneMessage is a platform on which a turn is one message.
func oneMessage() *platform {
	p := streaming()
	p.caps.OneMessage, p.caps.MaxChars = true, 1000
	return p
}

// inTurn makes something belong to the turn of a message.
func inTurn(message string, outs ...bus.Outbound) []bus.Outbound {
	for i := range outs {
		outs[i].Route.MessageID = message
	}
	return outs
}

func hint(kind bus.Kind, text string) bus.Outbound {
	return bus.Outbound{Kind: kind, Route: route("a", "c"), Text: text}
}

func withHints(o *deliver.Options) {
	o.Defaults = chat.Filters{SendProgress: true, SendToolHints: true}
}

// All that a turn says grows in one message, which is closed once.
func TestOneMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := oneMessage()
		r := newRig(t, map[string]*platform{"a": p}, withHints)
		step := func(outs ...bus.Outbound) {
			r.publish(inTurn("1", outs...)...)
			time.Sleep(2 * time.Second)
		}
		step(hint(bus.ToolHint, "read_file a.txt"))
		step(delta("c", "s1", "Let me look."))
		step(end("c", "s1", true), hint(bus.ToolHint, "grep x"), hint(bus.Progress, "half done"))
		broken := end("c", "s2", true)
		broken.Void = true
		step(delta("c", "s2", "It is fo"))
		step(broken)
		step(delta("c", "s3", "It is five"))
		step(end("c", "s3", false), final("1", "c", "It is six."))
		step(hint(bus.Ended, ""))
		before := "read_file a.txt\n\nLet me look.\n\ngrep x\nhalf done"
		diff(t, "shown", lines(p.saw("send", "edit", "final edit", "erase")), []string{
			"send m1 read_file a.txt",
			"edit m1 read_file a.txt\n\nLet me look.",
			"edit m1 " + before,
			"edit m1 " + before + "\n\nIt is fo",
			"edit m1 " + before + "\n\nIt is five",
			"final edit m1 " + before + "\n\nIt is six.",
		})
		r.publish(inTurn("2", final("2", "c", "next"))...)
		if got := p.texts("send"); got[len(got)-1] != "next" {
			t.Errorf("the next turn says %q", got)
		}
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// The message is closed, too, when the turn fails or a person stops it.
func TestOneMessageEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last bus.Outbound
		want string
	}{
		"failed": {bus.Outbound{
			ID: "1", Kind: bus.Final, Route: route("a", "c"), Text: "The model is gone.", Plain: true, Turn: &bus.Turn{StopReason: "error", Error: "gone"},
		}, "Let me\n\nThe model is gone."},
		"stopped": {bus.Outbound{Kind: bus.Ended, Route: route("a", "c"), Turn: &bus.Turn{StopReason: "stopped"}}, "Let me"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := oneMessage()
				r := newRig(t, map[string]*platform{"a": p})
				r.publish(inTurn("1", delta("c", "s1", "Let me"))...)
				time.Sleep(2 * time.Second)
				r.publish(inTurn("1", c.last)...)
				time.Sleep(2 * time.Second)
				diff(t, "shown", lines(p.saw("send", "edit", "final edit", "erase")), []string{"send m1 Let me", "final edit m1 " + c.want})
				r.publish(inTurn("2", delta("c", "s2", "Again"))...)
				time.Sleep(2 * time.Second)
				if got := p.texts("send"); got[len(got)-1] != "Again" {
					t.Errorf("the next turn says %q", got)
				}
			})
		})
	}
}

// What is too long for one message goes on in the next one; a question and
// files come with the end; other turns have messages of their own.
func TestOneMessageOverflows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := oneMessage()
		p.caps.MaxChars, p.caps.MaxMedia, p.caps.Together = 64, 100, 1
		r := newRig(t, map[string]*platform{"a": p}, withHints)
		r.publish(inTurn("1", delta("c", "s1", "The first segment of the answer has some words."), end("c", "s1", true))...)
		r.publish(inTurn("2", delta("c", "s9", "Another turn."))...)
		time.Sleep(2 * time.Second)
		out := final("1", "c", "The second segment has some words, too.")
		out.Media = []bus.Media{{Path: "a.txt", Name: "a.txt", Size: 1}}
		r.publish(inTurn("1", out)...)
		time.Sleep(2 * time.Second)
		diff(t, "shown", lines(p.saw("send", "edit", "final edit", "erase")), []string{
			"send m1 The first segment of the answer has some words.",
			"send m2 Another turn.",
			"final edit m1 The first segment of the answer has some words.",
			"send m3 The second segment has some words, too.",
			"send m4 <a.txt>",
		})
	})
}

// After a crash the messages of the turn say what the answer says.
func TestOneMessageAfterCrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := oneMessage()
		r := newRig(t, map[string]*platform{"a": p}, withHints)
		r.publish(inTurn("1", hint(bus.ToolHint, "read_file a.txt"), delta("c", "s1", "Let me"))...)
		time.Sleep(2 * time.Second)
		r.kill()
		r.publish(inTurn("1", final("1", "c", "It is six."))...)
		time.Sleep(2 * time.Second)
		got := p.saw("send", "edit", "final edit")
		if last := got[len(got)-1]; last.What != "final edit" || last.ID != "m1" || last.Text != "It is six." || len(p.saw("send")) != 1 {
			t.Errorf("shown %v", got)
		}
	})
}

// Hints look in the message of a turn as the platform wants them.
func TestOneMessageHints(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := oneMessage()
		p.caps.Hint = func(text string) string { return "> " + text }
		r := newRig(t, map[string]*platform{"a": p}, withHints)
		r.publish(inTurn("1", hint(bus.ToolHint, "one"))...)
		time.Sleep(2 * time.Second)
		r.publish(inTurn("1", hint(bus.Progress, "so far"), hint(bus.ToolHint, "two"))...)
		time.Sleep(2 * time.Second)
		r.publish(bus.Outbound{Kind: bus.ToolHint, Route: route("a", "other"), Text: "outside of a turn"})
		time.Sleep(2 * time.Second)
		diff(t, "shown", lines(p.saw("send", "edit")), []string{
			"send m1 > one", "edit m1 > one\n\nso far\n> two", "send m2 outside of a turn",
		})
	})
}

// Platforms that take the buttons of questions away hear of every one that is
// over, and only they; it is no part of a turn.
func TestSettledQuestions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, settles := range []bool{true, false} {
			p := oneMessage()
			p.caps.Settles = settles
			r := newRig(t, map[string]*platform{"a": p}, withHints)
			over := hint(bus.Gone, "")
			over.Question = &bus.Question{ID: "q1"}
			late := over
			late.Text = "too late"
			for _, out := range []bus.Outbound{delta("c", "s1", "Let me ask."), over, late} {
				r.publish(inTurn("1", out)...)
				time.Sleep(2 * time.Second)
			}
			want := []string{"Let me ask.", "", "too late"}
			if !settles {
				want = []string{"Let me ask.", "too late"}
			}
			diff(t, "sent", p.texts("send"), want)
			r.end()
		}
	})
}
