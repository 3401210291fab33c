package tui

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// answers are the questions that were answered, and how.
func (s *scene) answers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, in := range s.asked {
		if in.Answer != nil {
			out = append(out, in.Answer.QuestionID+"="+in.Answer.Option)
		}
	}
	return out
}

// leave stops the turn, clears the draft and leaves.
func (s *scene) leave() {
	s.t.Helper()
	s.press("\x03")
	s.wait(10 * time.Second)
	s.press("\x03")
	s.press("\x04")
	s.wantLeft()
}

// inquiring asks a question after some time; another one, "q2", follows later.
func inquiring(after time.Duration, more ...bus.Outbound) script {
	return func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
		if in.Text != "go" {
			return
		}
		pause(ctx, after)
		yield(bus.Outbound{Kind: bus.Ask, Text: "May I?", Question: &bus.Question{ID: "q1", Code: "k7f2", Options: []string{"yes", "no"}}}, nil)
		for _, out := range more {
			pause(ctx, 10*time.Second)
			yield(out, nil)
		}
		<-ctx.Done()
	}
}

// Nothing that was typed, pasted or sent before the question could be read
// answers it.
func TestTypedBeforeTheQuestion(t *testing.T) {
	second := bus.Outbound{Kind: bus.Ask, Text: "And this?", Question: &bus.Question{ID: "q2", Options: []string{"yes", "no"}}}
	for name, c := range map[string]struct {
		more []bus.Outbound
		play func(s *scene)
		want []string
		sent []string // ordinary messages after the first
	}{
		"a draft stays a draft": {play: func(s *scene) {
			s.press("yes")
			s.wait(2 * time.Second)
			s.press("\r") // nothing is in the input of the question
			s.wantText("Answer: ▮")
		}},
		"a key in the middle of a word": {play: func(s *scene) {
			s.press("y")
			s.wait(time.Second + 100*time.Millisecond) // the question appears
			s.press("es")
			s.wait(300 * time.Millisecond)
			s.press("\r")
		}, sent: []string{"yes"}},
		"typed at the moment it appears": {play: func(s *scene) {
			s.wait(time.Second + time.Millisecond)
			s.press("y")
			s.press("\r")
		}, sent: []string{"y"}},
		"typed without a pause": {play: func(s *scene) {
			s.wait(900 * time.Millisecond)
			for range 10 {
				s.press("y")
				s.wait(200 * time.Millisecond)
			}
			s.press("\r")
		}, sent: []string{"yyyyyyyyyy"}},
		"a paste": {play: func(s *scene) {
			s.wait(2 * time.Second)
			s.press(pasteStart + "yes\r" + pasteEnd)
			s.wantText("Answer: ▮", "pasted text does not")
			s.press("\r")
		}},
		"a paste that begins before": {play: func(s *scene) {
			s.press(pasteStart + "some")
			s.wait(3 * time.Second)
			s.press("yes\r")
			s.press(pasteEnd)
			s.press("\r")
		}, sent: []string{"someyes"}},
		"a paste without marks": {play: func(s *scene) {
			s.wait(2 * time.Second)
			s.press("yes\r")
			s.wantText("Answer: ▮", "pasted text does not")
		}},
		"an empty line": {play: func(s *scene) {
			s.wait(2 * time.Second)
			s.press("\r")
			s.press("\r")
		}},
		"typed for an earlier question": {more: []bus.Outbound{second}, play: func(s *scene) {
			s.wait(10 * time.Second)
			s.press("ye")
			s.wait(time.Second + 100*time.Millisecond) // the second one appears
			s.press("\r")
			s.wait(time.Second)
			s.press("\r")
		}},
		"a question that is gone": {more: []bus.Outbound{{Kind: bus.Gone, Question: &bus.Question{ID: "q1"}}}, play: func(s *scene) {
			s.wait(10 * time.Second)
			s.press("yes")
			s.wait(2 * time.Second)
			s.press("\r")
			s.wantText("You: ▮")
		}},
		"the arrow for earlier input": {play: func(s *scene) {
			s.wait(2 * time.Second)
			s.press("\x1b[A") // "go" is in the history, not in this input
			s.press("\r")
		}},
		"typed after it was read": {play: func(s *scene) {
			s.wait(2 * time.Second)
			s.press("y")
			s.press("e")
			s.press("s")
			s.press("\r")
			s.wantText("You: ▮")
		}, want: []string{"q1=yes"}},
		"a reason": {play: func(s *scene) {
			s.wait(2 * time.Second)
			s.press("no, use rsync")
			s.press("\r")
		}, want: []string{"q1=no, use rsync"}},
		"a command": {play: func(s *scene) {
			s.wait(2 * time.Second)
			s.press("/stop")
			s.press("\r")
			s.wantText("Answer: ▮")
		}, sent: []string{"/stop"}},
		"the second question": {more: []bus.Outbound{second}, play: func(s *scene) {
			s.wait(15 * time.Second)
			s.press("no")
			s.press("\r")
		}, want: []string{"q2=no"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, Options{}, inquiring(time.Second, c.more...))
				s.press("go\r")
				c.play(s)
				if got := s.answers(); !slices.Equal(got, c.want) {
					t.Errorf("answers %q, want %q", got, c.want)
				}
				var sent []string
				for _, text := range s.texts()[1:] {
					if text != "" {
						sent = append(sent, text)
					}
				}
				if !slices.Equal(sent, c.sent) {
					t.Errorf("messages %q, want %q", sent, c.sent)
				}
				s.leave()
			})
		})
	}
}

// The draft is there again after the answer.
func TestDraftIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, inquiring(time.Second))
		s.press("go\r")
		s.press("half a sent")
		s.wait(2 * time.Second)
		s.wantNoText("half")
		s.press("no")
		s.press("\r")
		s.wantText("You: half a sent▮")
		s.press("ence\r")
		if got := s.texts(); got[len(got)-1] != "half a sentence" {
			t.Errorf("messages %q", got)
		}
		s.leave()
	})
}
