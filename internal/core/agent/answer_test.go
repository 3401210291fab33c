package agent_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// answering is a message that answers a question.
func answering(q bus.Outbound, option string) bus.Inbound {
	msg := in("1", "")
	msg.Interactive = true
	msg.Answer = &bus.Answer{QuestionID: q.Question.ID, Option: option}
	return msg
}

// Nothing but a message that names the question answers it. Everything else
// that says yes is an ordinary message, or dropped when it names another
// question, and the question stays open.
func TestOnlyAnAnswerAnswers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(q bus.Outbound, msg *bus.Inbound){
		"plain yes":           func(_ bus.Outbound, m *bus.Inbound) { m.Answer, m.Text = nil, "yes" },
		"a sentence with yes": func(q bus.Outbound, m *bus.Inbound) { m.Answer, m.Text = nil, "yes, and by the way "+q.Question.Code },
		"yes and something": func(q bus.Outbound, m *bus.Inbound) {
			m.Answer, m.Text = nil, "yes "+q.Question.Code+" but only tomorrow"
		},
		"a code alone":        func(q bus.Outbound, m *bus.Inbound) { m.Answer, m.Text = nil, q.Question.Code },
		"another code":        func(_ bus.Outbound, m *bus.Inbound) { m.Answer, m.Text = nil, "yes a1a1" },
		"an earlier question": func(_ bus.Outbound, m *bus.Inbound) { m.Answer.QuestionID = "0123456789abcdef" },
		"no id":               func(_ bus.Outbound, m *bus.Inbound) { m.Answer.QuestionID = "" },
		"a part of the id":    func(q bus.Outbound, m *bus.Inbound) { m.Answer.QuestionID = q.Question.ID[:8] },
		"another person":      func(_ bus.Outbound, m *bus.Inbound) { m.SenderID = "stranger" },
		"a claimed name":      func(_ bus.Outbound, m *bus.Inbound) { m.Identity = "unproven:u" },
		"another chat":        func(_ bus.Outbound, m *bus.Inbound) { m.Route.ChatID, m.SessionKey = "2", "test:1" },
		"another topic":       func(_ bus.Outbound, m *bus.Inbound) { m.Route.ThreadID, m.SessionKey = "7", "test:1" },
		"another channel":     func(_ bus.Outbound, m *bus.Inbound) { m.Route.Channel, m.SessionKey = "mail", "test:1" },
		"forwarded words":     func(_ bus.Outbound, m *bus.Inbound) { m.Untrusted = true },
		"forwarded, with code": func(q bus.Outbound, m *bus.Inbound) {
			m.Answer, m.Text, m.Untrusted = nil, "yes "+q.Question.Code, true
		},
		"a guest's memory": func(_ bus.Outbound, m *bus.Inbound) { m.Scope = "test:1/u" },
		"a command line":   func(q bus.Outbound, m *bus.Inbound) { m.Answer, m.Text, m.Shell = nil, "yes "+q.Question.Code, true },
		"a report of a subagent": func(q bus.Outbound, m *bus.Inbound) {
			m.Answer, m.Text, m.Event = nil, "yes "+q.Question.Code, bus.SubagentResult
		},
		"a client without proof": func(_ bus.Outbound, m *bus.Inbound) { m.Interactive = false },
		"with a file": func(q bus.Outbound, m *bus.Inbound) {
			m.Answer, m.Text, m.Media = nil, "yes "+q.Question.Code, []bus.Media{{Path: "x"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := llmtest.NewScript(t, llmtest.Call("decide", map[string]any{"text": "really?"}), llmtest.Reply("done"), llmtest.Reply("more"), llmtest.Reply("more"))
			h := newHouse(t, m, deciding(time.Minute)).start()
			m.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("more") }
			var others sync.WaitGroup
			_, err := h.talk(in("1", "do it"), func(q bus.Outbound) {
				bad := answering(q, "yes")
				change(q, &bad)
				if bad.Answer != nil {
					outs, err := h.collect(bad)
					if err != nil || len(outs) != 1 || outs[0].Kind != bus.Gone || outs[0].Question.ID != bad.Answer.QuestionID {
						t.Errorf("an answer that fits no question got %+v, %v", outs, err)
					}
				} else {
					others.Go(func() { _, _ = h.collect(bad) }) // waits for the question
					for h.agent.Pulse(time.Hour).Waiting == 0 {
						runtime.Gosched()
					}
				}
				if outs, err := h.collect(answering(q, "no")); err != nil || len(outs) != 0 {
					t.Errorf("the answer got %v, %v", outs, err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			others.Wait()
			for _, r := range h.log("test:1") {
				if text := r.Content.String(); r.Role == "tool" && text != "answer: no" {
					t.Errorf("the tool was told %q", text)
				}
			}
		})
	}
}

// An answer in words names the question by its code, in any language, and a no
// may say why.
func TestAnswerByCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"yes %s": "answer: yes", "Ja %s.": "answer: yes", "2 %s": "answer: no", "NO `%s`": "answer: no", "no %s use rsync": "answer: no: use rsync", "go ahead %s": "answer: yes",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			m := llmtest.NewScript(t, llmtest.Call("decide", map[string]any{"text": "really?"}), llmtest.Reply("done"))
			h := newHouse(t, m, deciding(time.Minute)).start()
			_, err := h.talk(in("1", "do it"), func(q bus.Outbound) {
				answer := in("1", fmt.Sprintf(text, q.Question.Code))
				answer.Interactive = true
				if outs, err := h.collect(answer); err != nil || len(outs) != 0 {
					t.Errorf("the answer got %v, %v", outs, err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			msgs := m.Last().Messages
			if got := msgs[len(msgs)-1].Content.String(); got != want {
				t.Errorf("the tool was told %q, want %q", got, want)
			}
		})
	}
}

// One answer settles one question: the same again, or one that is delivered
// once more after a restart, finds nothing and starts nothing.
func TestAnswerCountsOnce(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Call("decide", map[string]any{"text": "first?"}), llmtest.Call("decide", map[string]any{"text": "second?"}), llmtest.Reply("done"))
	h := newHouse(t, m, deciding(time.Minute)).start()
	var first bus.Inbound
	_, err := h.talk(in("1", "do it"), func(q bus.Outbound) {
		if q.Text == "first?" {
			first = answering(q, "yes")
			first.ID = "tap1"
			_, _ = h.collect(first)
			return
		}
		for _, id := range []string{"tap1", "tap2"} {
			again := first
			again.ID = id
			if outs, _ := h.collect(again); len(outs) != 1 || outs[0].Kind != bus.Gone {
				t.Errorf("a second tap got %+v", outs)
			}
		}
		_, _ = h.collect(answering(q, "no"))
	})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, r := range h.log("test:1") {
		if r.Role == "tool" {
			told = append(told, r.Content.String())
		}
	}
	if got := strings.Join(told, "|"); got != "answer: yes|answer: no" {
		t.Errorf("the tools were told %s", got)
	}
	if outs, err := h.collect(first); err != nil || len(outs) != 1 || outs[0].Kind != bus.Gone {
		t.Errorf("after the turn: %v, %v", outs, err)
	}
	if n := len(m.Requests()); n != 3 {
		t.Errorf("%d requests: an answer became a message", n)
	}
}

// A client that proved nothing gets no question: the tool is told why.
func TestUnproven(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Call("try", map[string]any{"text": "?"}), llmtest.Reply("done"))
	h := newHouse(t, m, textTool("try", tool.Tool{}, func(ctx context.Context, c tool.Call, s string) (tool.Result, error) {
		_, err := c.Ask(ctx, bus.Question{Text: s})
		return tool.Text(fmt.Sprint(err)), nil
	})).start()
	msg := in("1", "do it")
	msg.Unasked = "connect with a token"
	outs, err := h.collect(msg)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outs {
		if o.Kind == bus.Ask {
			t.Error("the client was asked")
		}
	}
	msgs := m.Last().Messages
	if got := msgs[len(msgs)-1].Content.String(); !strings.Contains(got, "connect with a token") {
		t.Errorf("the tool was told %q", got)
	}
}

// An answer that comes out of the queue after a restart finds no question: the
// turn that asked is gone, and the one that takes its place asks under another
// id. It is completed, reported, and no turn comes of it.
func TestAnswerAfterRestart(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Call("decide", map[string]any{"text": "again?"}), llmtest.Reply("done"))
	s := newHouse(t, m, deciding(time.Minute)).serve()
	s.submitAs("old", "yes", func(in *bus.Inbound) {
		in.Interactive, in.Answer = true, &bus.Answer{QuestionID: "0123456789abcdef", Option: "yes"}
	})
	if o := <-s.outs; o.Kind != bus.Gone || o.Question.ID != "0123456789abcdef" || o.Text == "" {
		t.Errorf("the old answer got %+v", o)
	}
	s.submitAs("1", "do it", func(in *bus.Inbound) { in.Interactive = true })
	var asked bus.Outbound
	for asked.Kind != bus.Ask {
		asked = <-s.outs
	}
	s.submitAs("old again", "yes", func(in *bus.Inbound) {
		in.Interactive, in.Answer = true, &bus.Answer{QuestionID: "0123456789abcdef", Option: "yes"}
	})
	for o := range s.outs {
		if o.Kind == bus.Gone {
			if o.Question.ID == asked.Question.ID {
				t.Error("the old answer closed the new question")
			}
			break
		}
	}
	s.submitAs("2", "", func(in *bus.Inbound) {
		in.Interactive, in.Answer = true, &bus.Answer{QuestionID: asked.Question.ID, Option: "no"}
	})
	if o := s.final(); o.Text != "done" {
		t.Errorf("final %q", o.Text)
	}
	msgs := m.Last().Messages
	if got := msgs[len(msgs)-1].Content.String(); got != "answer: no" || len(m.Requests()) != 2 {
		t.Errorf("the tool was told %q in %d requests", got, len(m.Requests()))
	}
}
