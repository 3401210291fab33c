package llmtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// Keeps says what of a history a wire may lose. Text, calls with their
// arguments, results and pictures it must keep, always.
type Keeps struct {
	Reasoning bool // the text of the model's own thinking
	Details   bool // reasoning_details of the model's own
	Thinking  bool // signed blocks of the model's own
	Errors    bool // that a tool failed
	Names     bool // the tool's name in its result
	Links     bool // pictures that are links
	// Moves means that a picture cannot stand in a result: it follows in the
	// next message of the user, with these words before it and in its place.
	Moves []string
}

// KeepsOf returns the table of what each wire may keep.
func KeepsOf(wire string) Keeps {
	return map[string]Keeps{
		"chat": {Reasoning: true, Details: true, Names: true, Links: true, Moves: []string{"Image from the result of", "(the image follows)"}},
		"msgs": {Thinking: true, Errors: true, Links: true},
		"resp": {Thinking: true, Links: true},
		"bedr": {Thinking: true, Errors: true},
	}[wire]
}

// RoundTrip sends random legal histories through a driver and checks that the
// server can read everything back that the wire keeps. The driver must be
// called "fake", which is the origin of the model's own thinking.
func RoundTrip(t *testing.T, wire, model string, newModel func(t *testing.T, s *Server, o Setup) llm.Model) {
	t.Helper()
	const rounds = 150
	keeps := KeepsOf(wire)
	for seed := range uint64(rounds) {
		msgs := history{r: rand.New(rand.NewPCG(seed, 7)), wire: wire, model: model}.messages() //nolint:gosec // repeatable on purpose
		req := llm.Request{Model: model, System: "Be brief.", MaxTokens: 2000, Messages: msgs, Tools: toolDefs([]string{"f", "g"})}
		if err := CheckLegal(req); err != nil {
			t.Fatalf("seed %d: the history itself is illegal: %v", seed, err)
		}

		s := NewOffline(t, false)
		s.Add(Answer{Status: 400, Body: `{"error":{"message":"enough"}}`})
		for range newModel(t, s, Setup{}).Stream(t.Context(), req) { //nolint:revive // only the request matters
		}
		sent := s.Requests()[0]
		back, err := parseSent(wire, sent.Body)
		if err != nil {
			t.Fatalf("seed %d: %v in %s", seed, err, sent.Body)
		}
		if d := cmp.Diff(keeps.facts(msgs), keeps.facts(back)); d != "" {
			t.Fatalf("seed %d: the history differs (-said +received): %s\n%s", seed, d, sent.Body)
		}
	}
}

// history makes random conversations.
type history struct {
	r           *rand.Rand
	wire, model string
}

func (h history) chance(percent int) bool { return h.r.IntN(100) < percent }

func (h history) text() string {
	words := []string{"plain", "two lines\nhere", `"quoted" \ and <b>`, "世界 🌍", "tab\there", "&amp;", "\u2028"}
	return fmt.Sprintf("%s %d", words[h.r.IntN(len(words))], h.r.IntN(1e6))
}

func (h history) image() llm.Block {
	if h.chance(25) {
		return llm.Block{Type: "image_url", ImageURL: fmt.Sprintf("https://example.com/%d.png", h.r.IntN(1e6))}
	}
	data := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%06d", h.r.IntN(1e6)))
	return llm.Block{Type: "image_url", ImageURL: "data:image/png;base64," + data, Path: "/home/someone/secret.png"}
}

func (h history) content(images int) llm.Content {
	if !h.chance(images) {
		return llm.Text(h.text())
	}
	c := llm.Content{Blocks: []llm.Block{{Type: "text", Text: h.text()}}}
	for range 1 + h.r.IntN(2) {
		c.Blocks = append(c.Blocks, h.image())
	}
	return c
}

func (h history) messages() []llm.Message {
	out := []llm.Message{{Role: llm.User, Content: h.content(30)}}
	for i := range 1 + h.r.IntN(8) {
		m := llm.Message{Role: llm.Assistant, Origin: []string{"fake", "fake", "elsewhere"}[h.r.IntN(3)]}
		if h.chance(60) {
			m.Content = llm.Text(h.text())
		}

		h.think(&m, i)
		if h.chance(70) || m.Content.Blank() {
			for k := range 1 + h.r.IntN(3) {
				id := fmt.Sprintf("call_%d_%d", i, k)
				if h.wire == "resp" {
					id += fmt.Sprintf("|fc_%d_%d", i, k)
				}
				m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: id, Name: []string{"f", "g"}[h.r.IntN(2)], Arguments: fmt.Sprintf(`{"p":%d,"q":[%q]}`, h.r.IntN(1e6), h.text())})
			}
		}

		out = append(out, m)
		for _, c := range m.ToolCalls {
			out = append(out, llm.Message{Role: llm.ToolRole, ToolCallID: c.ID, Name: c.Name, Content: h.content(20), IsError: h.chance(15)})
		}

		if len(m.ToolCalls) == 0 || h.chance(15) {
			out = append(out, llm.Message{Role: llm.User, Content: h.content(30)})
		}
	}

	return out
}

// think gives an answer thoughts in the form of its wire.
func (h history) think(m *llm.Message, i int) {
	if !h.chance(50) {
		return
	}

	m.HasReasoning, m.Reasoning = true, h.text()
	switch h.wire {
	case "chat":
		m.ReasoningDetails = json.RawMessage(fmt.Sprintf(`[{"type":"reasoning.text","text":%q}]`, h.text()))
	case "resp":
		m.Thinking = []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"type":"openai_responses","model":%q,"at":0,"item":{"type":"reasoning","id":"rs_%d","summary":[],"encrypted_content":"%d"}}`, h.model, i, h.r.IntN(1e6)))}
	default:
		m.Thinking = []json.RawMessage{wire.ThinkingBlock(m.Reasoning, "c2lnbmVk")}
		if h.chance(20) {
			m.Thinking = append(m.Thinking, wire.RedactedBlock("c2VjcmV0"))
		}
	}
}

// facts lists what a history says, by kind and in order. What the wire does
// not keep is left out, so that equal facts mean that nothing else was lost.
func (k Keeps) facts(msgs []llm.Message) map[string][]string {
	out := map[string][]string{}
	add := func(kind, format string, args ...any) { out[kind] = append(out[kind], fmt.Sprintf(format, args...)) }
	for _, m := range msgs {
		own := m.Origin != "elsewhere"
		if m.Role == llm.ToolRole {
			id, _, _ := strings.Cut(m.ToolCallID, "|")
			name := ""
			if k.Names {
				name = m.Name
			}

			add("result", "%s %s %s", id, name, k.words(m.Content))
			if k.Errors {
				add("error", "%s %v", id, m.IsError)
			}
		} else if text := k.words(m.Content); text != "" {
			add("text", "%s: %s", m.Role, text)
		}

		for _, b := range m.Content.Blocks {
			if b.Type == "image_url" && (k.Links || strings.HasPrefix(b.ImageURL, "data:")) {
				add("image", "%s", b.ImageURL)
			}
		}

		for _, c := range m.ToolCalls {
			id, _, _ := strings.Cut(c.ID, "|")
			add("call", "%s %s %s", id, c.Name, canonical([]byte(c.Arguments)))
		}

		if own && k.Reasoning && m.HasReasoning {
			add("reasoning", "%s", m.Reasoning)
		}
		if own && k.Details && len(m.ReasoningDetails) > 0 {
			add("details", "%s", canonical(m.ReasoningDetails))
		}

		if own && k.Thinking {
			for _, raw := range m.Thinking {
				add("thinking", "%s", canonical(hiddenPart(raw)))
			}
		}
	}

	return out
}

// words returns the text of a content without what a wire says about pictures.
func (k Keeps) words(c llm.Content) string {
	var lines []string
	for _, b := range append([]llm.Block{{Type: "text", Text: c.Text}}, c.Blocks...) {
		if b.Type != "text" {
			continue
		}
	line:
		for line := range strings.SplitSeq(b.Text, "\n") {
			for _, note := range append([]string{llm.ImageNote}, k.Moves...) {
				if strings.HasPrefix(line, note) {
					continue line
				}
			}
			if line != "" {
				lines = append(lines, line)
			}
		}
	}

	return strings.Join(lines, "\n")
}

// hiddenPart returns the vendor's own item inside a stored thought, if it is one.
func hiddenPart(raw json.RawMessage) json.RawMessage {
	var w struct{ Item json.RawMessage }
	if json.Unmarshal(raw, &w) == nil && len(w.Item) > 0 {
		return w.Item
	}
	return raw
}

func canonical(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return "not JSON: " + string(raw)
	}
	return js(v)
}
