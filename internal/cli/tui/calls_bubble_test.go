package tui

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// A message sent while an answer arrives never parts the bot's name from the
// answer, nor a line of the answer: it waits below until the line has ended.
func TestChatMessageDuringAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			if in.Text != "first" {
				return
			}
			for _, text := range []string{"The begin", "ning.\nThe middle", " goes on.\n\nThe end"} {
				yield(bus.Outbound{Kind: bus.Delta, Text: text}, nil)
				pause(ctx, 2*time.Second)
			}
			yield(bus.Outbound{Kind: bus.DeltaEnd}, nil)
			yield(bus.Outbound{Kind: bus.Final, Streamed: true, Text: "x", Turn: &bus.Turn{ID: in.ID, DurationMS: 6000}}, nil)
		})
		s.press("first\r")
		s.wait(time.Second)
		s.press("second\r")
		s.wantText("🐈 nanobot\nThe begin\n\nYou: second\n\n", " writing 1s")
		s.wait(2 * time.Second)
		s.wantText("🐈 nanobot\nThe beginning.\n\nYou: second\n\n🐈 nanobot\nThe middle\n")
		s.press("third\r")
		s.wait(2 * time.Second)
		s.wantText("The middle goes on.\n\nYou: third\n\n🐈 nanobot\nThe end\n")
		s.press("fourth\r")
		s.wait(2 * time.Second)
		s.wantText("The end\n6.0 s\n\nYou: fourth\n\nYou: ▮")
		s.press("\x04")
		s.wantLeft()
	})
}

// An error of the provider does not look like an answer, and retries leave no
// lines behind.
func TestChatProviderErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "openai has trouble answering right now.\nopenai said: overloaded"
		s := start(t, Options{}, func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			for i := range 3 {
				yield(bus.Outbound{Kind: bus.Notice, Brief: true, Text: fmt.Sprintf("trying again (attempt %d)", i+2)}, nil)
				pause(ctx, time.Second)
			}
			yield(bus.Outbound{Kind: bus.Final, Text: text, Turn: &bus.Turn{ID: in.ID, Error: text}}, nil)
		})
		s.press("hi\r")
		s.wait(100 * time.Millisecond)
		s.wantText(" trying again (attempt 2)")
		s.wait(1500 * time.Millisecond)
		s.wantText("trying again (attempt 3)")
		s.wait(5 * time.Second)
		s.wantNoText("trying again")
		s.wantText("You: hi\n\nerror: openai has trouble answering\n       right now.\n       openai said: overloaded\n\nYou: ▮")
		if got := s.vt.text(t); strings.Count(got, "nanobot") != 1 { // of the banner
			t.Errorf("the error looks like an answer:\n%s", got)
		}
		s.press("\x04")
		s.wantLeft()
	})
}

// A stream that breaks and comes again is not shown twice as if it were one.
func TestChatBrokenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, func(_ context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			yield(bus.Outbound{Kind: bus.Delta, Text: "one\ntw"}, nil)
			yield(bus.Outbound{Kind: bus.DeltaEnd, Resuming: true, Void: true}, nil)
			yield(bus.Outbound{Kind: bus.Delta, Text: "one\ntwo", StreamID: "2"}, nil)
			yield(bus.Outbound{Kind: bus.DeltaEnd}, nil)
			yield(bus.Outbound{Kind: bus.Final, Streamed: true, Text: "one\ntwo", Turn: &bus.Turn{ID: in.ID}}, nil)
		})
		s.press("go\r")
		s.wantText("🐈 nanobot\none\n… broke off and starts again\n\none\ntwo\n\nYou: ▮")
		s.press("\x04")
		s.wantLeft()
	})
}

// Each call that ends leaves one line with its result and duration; an edit
// shows its diff, a failed command the end of its output, and nothing shows the
// text that is meant for the model.
func TestChatToolCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var diff strings.Builder
		diff.WriteString("--- a/x.go\n+++ b/x.go\n@@ -1,1 +1,20 @@\n-old\n")
		for i := range 20 {
			fmt.Fprintf(&diff, "+new %02d\n", i)
		}
		call := func(c bus.Tool) bus.Outbound { return bus.Outbound{Kind: bus.ToolEvent, Tool: &c} }
		s := start(t, Options{ShowTools: true}, func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			for _, out := range []bus.Outbound{
				{Kind: bus.ToolHint, Text: "read a.md, edit x.go"},
				call(bus.Tool{CallID: "1", Name: "read_file", Phase: "start", Label: "read a.md"}),
				call(bus.Tool{CallID: "1", Name: "read_file", Phase: "end", Label: "read a.md", Outcome: "12 lines", DurationMS: 3}),
				call(bus.Tool{CallID: "2", Name: "edit_file", Phase: "end", Label: "edit x.go", DurationMS: 41}),
				{Kind: bus.FileEdit, Edits: []bus.Edit{{CallID: "2", Path: "x.go", What: "changed", Lines: true, Added: 20, Deleted: 1, Diff: diff.String()}}},
				call(bus.Tool{CallID: "3", Name: "exec", Phase: "end", Label: "$ make", Outcome: "exit 2", Output: "make: nothing\n  \x1b[1mstop", DurationMS: 61_500}),
				call(bus.Tool{CallID: "4", Name: "web_fetch", Phase: "error", Label: "fetch http://10.0.0.1", Outcome: "address not allowed", Detail: "Error: tell the user to do it", DurationMS: 1200}),
			} {
				yield(out, nil)
				pause(ctx, time.Second)
			}
			yield(bus.Outbound{Kind: bus.Final, Text: "done", Turn: &bus.Turn{ID: in.ID}}, nil)
		})
		s.press("go\r")
		s.wait(100 * time.Millisecond)
		s.wantText(" read a.md, edit x.go")
		s.wait(10 * time.Second)
		s.wantText("✓ read a.md · 12 lines · 3 ms\n✓ edit x.go · 41 ms\n  changed x.go +20 -1\n    @@ -1,1 +1,20 @@\n    -old\n    +new 00\n",
			"    +new 09\n    … 10 more lines; /diff shows them\n✗ $ make · exit 2 · 1 min 1 s\n  │ make: nothing\n  │   \\x1b[1mstop\n",
			"✗ fetch http://10.0.0.1 · address not\n  allowed · 1.2 s\n\n🐈 nanobot\ndone\n")
		s.wantNoText("tell the user")
		s.press("\x04")
		s.wantLeft()
	})
}
