package responses_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/responses"
)

// Any legal history keeps its texts, calls, results, images and reasoning on
// the way to the server.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 67))
	s := llmtest.NewServer(t)
	m := model(t, s)
	for round := range 60 {
		msgs := history(rnd)
		req := withTools(ask(msgs...), "f")
		if err := llmtest.CheckLegal(req); err != nil {
			t.Fatalf("round %d: the generator is wrong: %v", round, err)
		}
		s.Say(llmtest.StreamReply{Text: []string{"ok"}})
		if _, err := llm.Collect(t.Context(), m, req); err != nil {
			t.Fatal(err)
		}
		got, err := llmtest.ResponsesHistory(s.Requests()[round].Body)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if d := cmp.Diff(plainHistory(msgs), got); d != "" {
			t.Fatalf("round %d (-want +got):\n%s", round, d)
		}
	}
}

// history makes a legal one.
func history(r *rand.Rand) []llm.Message {
	image := func() llm.Block {
		return llm.Block{Type: "image_url", ImageURL: fmt.Sprintf("data:image/png;base64,%d", r.IntN(1000))}
	}
	var msgs []llm.Message
	for turn := range 1 + r.IntN(6) {
		q := user(fmt.Sprintf("question %d \"with\" 世界\n", turn))
		if r.IntN(3) == 0 {
			q.Content = llm.Content{Blocks: []llm.Block{{Type: "text", Text: "see"}, image()}}
		}
		msgs = append(msgs, q)
		for step := range r.IntN(3) {
			m := says("", nil...)
			if r.IntN(2) == 0 {
				m.Content = llm.Text(fmt.Sprint("step ", step))
			}
			for k := range 1 + r.IntN(3) {
				id := fmt.Sprintf("call_%d_%d_%d", turn, step, k)
				if r.IntN(3) > 0 {
					id += fmt.Sprintf("|fc_%d_%d_%d", turn, step, k)
				}
				m.ToolCalls = append(m.ToolCalls, call(id, "f"))
				if r.IntN(2) == 0 {
					m.Thinking = append(m.Thinking, fmt.Appendf(nil,
						`{"type":"openai_responses","model":"gpt-5-mini","at":%d,"item":{"type":"reasoning","id":"rs_%d_%d_%d","summary":[],"encrypted_content":"x"}}`, k+1, turn, step, k))
				}
			}
			msgs = append(msgs, m)
			for _, c := range m.ToolCalls {
				res := result(c.ID, "result of "+c.ID)
				if r.IntN(4) == 0 {
					res.Content = llm.Content{Blocks: []llm.Block{{Type: "text", Text: "shot"}, image()}}
				}
				msgs = append(msgs, res)
			}
		}
		msgs = append(msgs, says(fmt.Sprint("answer ", turn)))
	}
	return append(msgs, user("and now?"))
}

// plainHistory is what the wire can say about a history.
func plainHistory(msgs []llm.Message) []llm.Message {
	out := slices.Clone(msgs)
	for i := range out {
		m := &out[i]
		m.Origin, m.Name = "", ""
		m.ToolCallID, _, _ = strings.Cut(m.ToolCallID, "|")
		if m.Role == llm.User && m.Content.Blocks == nil {
			m.Content = llm.Content{Blocks: []llm.Block{{Type: "text", Text: m.Content.Text}}}
		}
		var items []json.RawMessage
		for _, raw := range m.Thinking {
			var w struct{ Item json.RawMessage }
			if err := json.Unmarshal(raw, &w); err != nil {
				panic(err)
			}
			items = append(items, w.Item)
		}
		m.Thinking = items
	}
	return out
}

// Over thirty turns each request begins with the bytes of the one before.
func TestPrefix(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*responses.Options){
		"plain": func(o *responses.Options) { o.Quirks.CacheKey = true },
		"codex": func(o *responses.Options) { o.Codex = true },
		"extra": func(o *responses.Options) {
			o.ExtraBody = json.RawMessage(`{"tools":[{"type":"web_search"}],"reasoning":{"summary":"auto"},"metadata":{"b":"1","a":"2"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := llmtest.NewServer(t)
			m := model(t, s, change)
			var msgs []llm.Message
			for turn := range 30 {
				msgs = append(msgs, user(fmt.Sprintf("question %d %s", turn, strings.Repeat("word ", 40))))
				for step := range 2 {
					reply := llmtest.StreamReply{Think: []string{"hm"}, Text: []string{"answer"}}
					if step == 0 {
						reply.Calls = []llmtest.StreamCall{{ID: fmt.Sprintf("call_%d|fc_%d", turn, turn), Name: "f", Args: []string{`{"p":1}`}}}
					}
					s.Say(reply)
					r, err := llm.Collect(t.Context(), m, withTools(ask(msgs...), "f", "g"))
					if err != nil {
						t.Fatal(err)
					}
					msgs = append(msgs, r.Message)
					for _, c := range r.Message.ToolCalls {
						msgs = append(msgs, result(c.ID, "the result"))
					}
				}
			}
			reqs := s.Requests()
			kept, total := 0, 0
			for i := 1; i < len(reqs); i++ {
				a, b := reqs[i-1].Body, reqs[i].Body
				n := 0
				for n < min(len(a), len(b)) && a[n] == b[n] {
					n++
				}
				if n < len(a)-2 {
					t.Errorf("request %d repeats %d of %d bytes of the one before:\n%s\n%s", i, n, len(a), a[n:], b[n:min(len(b), n+200)])
				}
				kept, total = kept+n, total+len(a)
			}
			if !strings.Contains(string(reqs[len(reqs)-1].Body), "encrypted_content\":\"") {
				t.Error("no reasoning was replayed")
			}
			t.Logf("%.2f %% of the bytes are repeated", 100*float64(kept)/float64(total))
		})
	}
}
