package transcript_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/transcript"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// The mark of an interrupted turn is a note behind the user's message, never
// words of the model, whichever version wrote it. People see it as a mark, too.
func TestInterruptedTurn(t *testing.T) {
	t.Parallel()
	say := func(role llm.Role, text string) session.Record {
		return session.Record{Message: llm.Message{Role: role, Content: llm.Text(text)}}
	}
	now := say(llm.User, session.TurnCut)
	now.Interrupted = true
	flagged := say(llm.Assistant, "Error: this turn was interrupted before an answer was written.")
	flagged.Interrupted = true
	for name, mark := range map[string]session.Record{
		"now":    now,
		"before": flagged,
		"copied": say(llm.Assistant, "Error: this turn was interrupted before an answer was written."),
		"Python": say(llm.Assistant, "Error: Task interrupted before a response was generated."),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recs := []session.Record{say(llm.User, "what is the time?"), mark, say(llm.User, "and the day?")}
			if err := session.CheckLegal(recs); err != nil {
				t.Error(err)
			}
			var v transcript.View
			for i := range recs {
				v.Add(i, &recs[i])
			}
			if len(v.Messages) != 1 || v.Messages[0].Role != llm.User {
				t.Fatalf("the model is shown %+v, want one message of the user", v.Messages)
			}
			got := v.Messages[0].Content.String()
			if !strings.Contains(got, "the time?\n\n[System note: this turn was interrupted.") || !strings.HasSuffix(got, "and the day?") || strings.Contains(got, "Error") {
				t.Errorf("the model is shown %q", got)
			}
			if shown := mark.Display(); shown != "(interrupted; there is no answer)" {
				t.Errorf("people are shown %q", shown)
			}
		})
	}
}
