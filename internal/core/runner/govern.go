package runner

import (
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// imageTokens is the flat price of an image in estimates.
const imageTokens = 1600

// unavailable answers a call whose result is missing.
const unavailable = "[result unavailable: the call was interrupted]"

// Estimate is the uncalibrated token count of a message.
func Estimate(m llm.Message) int {
	n := 4 + text.Tokens(m.Content.Text) + text.Tokens(m.Name) + text.Tokens(m.ToolCallID) + text.Tokens(m.Reasoning)
	for _, b := range m.Content.Blocks {
		if b.Type == "image_url" {
			n += imageTokens
		} else {
			n += text.Tokens(b.Text) + text.Tokens(string(b.Raw))
		}
	}

	for _, c := range m.ToolCalls {
		n += 8 + text.Tokens(c.Name) + text.Tokens(c.Arguments)
	}

	for _, t := range m.Thinking {
		n += text.Tokens(string(t))
	}
	return n
}

// EstimateHead is the uncalibrated token count of what every request starts with.
func EstimateHead(system string, defs []llm.ToolDef) int {
	n := text.Tokens(system) + 4
	for _, d := range defs {
		n += 12 + text.Tokens(d.Name) + text.Tokens(d.Description) + len(d.Schema)/4
	}
	return n
}

// govern returns the messages of the next request and its estimated size. It
// works on a copy: stored messages are never altered. The result is legal and,
// when a budget is known, fits it or is the shortest legal tail there is. Extra
// is what hooks add to this request.
func (r *run) govern(tools *tool.Set, extra []llm.Message) ([]llm.Message, int) {
	msgs := r.conversation()
	if len(r.transient)+len(extra) > 0 {
		msgs = slices.Concat(msgs, extra, r.transient)
	}

	known := 0 // messages whose legality and size the caller vouches for
	if r.Tokens > 0 {
		known = len(r.Messages)
	}

	size := r.Tokens
	if known == 0 || !continues(msgs, known) {
		msgs = Legal(msgs)
		known, size = 0, 0
	}

	head := r.HeadTokens
	if head == 0 || tools != r.Tools {
		head = EstimateHead(r.System, tools.Defs())
	}
	return r.window.fit(msgs, head, size+estimateAll(msgs[known:]), r.added)
}

// window is the room for prompts of a run.
type window struct {
	budget    int     // input tokens; 0 = unlimited
	scale     float64 // corrects estimates
	overflows int
	compacted map[string]bool // tool results replaced by a note for the rest of the run
	state     *tool.State     // reset when tools can no longer rely on what the model has seen
}

// fit shortens msgs, which have size tokens beside those of the head, if they
// exceed the budget, and estimates the prompt. added are those of this turn.
func (w *window) fit(msgs []llm.Message, head, size int, added []llm.Message) ([]llm.Message, int) {
	total := w.scaled(head + size)
	if w.budget <= 0 || (total <= w.budget && len(w.compacted) == 0) {
		return msgs, total
	}

	msgs, total = w.compact(msgs, total, added)
	if total > w.budget {
		w.state.Reset()
		msgs = Legal(w.snip(msgs, head))
		total = w.scaled(head + estimateAll(msgs))
	}
	return msgs, total
}

func (w *window) scaled(n int) int { return int(float64(n) * w.scale) }

func estimateAll(msgs []llm.Message) int {
	n := 0
	for _, m := range msgs {
		n += Estimate(m)
	}
	return n
}

// Numbers of in-flight compaction.
const (
	compactMinChars = 500
	compactTarget   = 0.85
)

// compact replaces long tool results of the current turn by a note, oldest
// first, until the prompt is at 85 % of the budget. What was compacted once
// stays compacted for the rest of the run, so the prefix stays stable.
func (w *window) compact(msgs []llm.Message, total int, added []llm.Message) ([]llm.Message, int) {
	out := slices.Clone(msgs)
	saved := 0
	now := func() int { return total - w.scaled(saved) }
	ofThisTurn := func(callID string) bool {
		return slices.ContainsFunc(added, func(m llm.Message) bool { return m.ToolCallID == callID })
	}
	for pass := range 2 {
		for i := range out {
			m := &out[i]
			if m.Role != llm.ToolRole || len(m.Content.String()) < compactMinChars {
				continue
			}

			known := w.compacted[m.ToolCallID]
			if pass == 0 != known || (!known && (now() <= int(compactTarget*float64(w.budget)) || !ofThisTurn(m.ToolCallID))) {
				continue
			}

			if !known {
				w.state.Reset()
			}

			w.compacted[m.ToolCallID] = true
			before := Estimate(*m)
			m.Content = llm.Text("[" + m.Name + " result omitted to save space; if you need it, repeat the call with a narrower range]")
			saved += before - Estimate(*m)
		}
		if now() <= w.budget && pass == 0 {
			break
		}
	}

	return out, now()
}

// snip keeps the newest messages that fit beside the fixed head, starting at a
// user message; at least everything from the last user message stays.
func (w *window) snip(msgs []llm.Message, head int) []llm.Message {
	room := max(w.budget-w.scaled(head), 128)
	start, used := len(msgs), 0
	for start > 0 {
		n := w.scaled(Estimate(msgs[start-1]))
		if used+n > room {
			break
		}
		used += n
		start--
	}

	for start < len(msgs) && msgs[start].Role != llm.User {
		start++
	}

	if start < len(msgs) {
		return msgs[start:]
	}

	start = len(msgs) - 1
	for start > 0 && msgs[start].Role != llm.User {
		start--
	}
	return w.squeeze(msgs[start:], room)
}

// squeeze makes a single oversized exchange fit: tool results of the current
// exchange are cut, oldest first, then the longest user text in the middle.
func (w *window) squeeze(msgs []llm.Message, room int) []llm.Message {
	out := slices.Clone(msgs)
	over := func() int { return w.scaled(estimateAll(out)) - room }
	for i := range out {
		if over() <= 0 {
			return out
		}
		if m := &out[i]; m.Role == llm.ToolRole && len(m.Content.String()) > 64 {
			m.Content = llm.Text("[" + m.Name + " result omitted: it does not fit the model's window]")
		}
	}

	// Whole iterations in the middle go next; the user's question stays.
	for over() > 0 {
		i := slices.IndexFunc(out[1:], func(m llm.Message) bool { return m.Role == llm.Assistant && len(m.ToolCalls) > 0 }) + 1
		if i == 0 {
			break
		}

		j := i + 1
		for j < len(out) && out[j].Role == llm.ToolRole {
			j++
		}

		if j == len(out) {
			break
		}
		out = slices.Delete(out, i, j)
	}

	if n := over(); n > 0 && out[0].Content.Blocks == nil {
		runes := len([]rune(out[0].Content.Text))
		keep := max(runes-4*n, 400)
		out[0].Content = llm.Text(text.CutMiddle(out[0].Content.Text, keep))
	}
	return out
}

// Legal returns msgs as a sequence every provider accepts: tool results only
// behind the call they answer, exactly one per call, no two user or plain
// assistant messages in a row, a user message first, user or tool last. A list
// that is legal already is returned as it is, without copying.
func Legal(msgs []llm.Message) []llm.Message {
	if isLegal(msgs) {
		return msgs
	}
	return repair(msgs)
}

// continues reports whether msgs is legal given that its first known messages
// are: those end with a user message, so what follows can be judged alone.
func continues(msgs []llm.Message, known int) bool {
	return len(msgs) == known || isLegal(msgs[known-1:])
}

func isLegal(msgs []llm.Message) bool {
	open := 0 // unanswered calls of the current assistant message
	var calls []llm.ToolCall
	prev := llm.Role("")
	prevCalls := false
	for i := range msgs {
		m := &msgs[i]
		switch m.Role {
		case llm.ToolRole:
			// Results must come in call order, which also rules out duplicates.
			if open == 0 || calls[len(calls)-open].ID != m.ToolCallID {
				return false
			}
			open--
			prev = m.Role
			continue

		case llm.User:
			if prev == llm.User {
				return false
			}
		case llm.Assistant:
			if prev == "" || (prev == llm.Assistant && !prevCalls) || (len(m.ToolCalls) == 0 && m.Content.Blank()) {
				return false
			}
		default:
			return false
		}

		if open > 0 {
			return false
		}

		prev = m.Role
		calls = m.ToolCalls
		prevCalls = len(m.ToolCalls) > 0
		open = len(calls)
	}

	return open == 0 && len(msgs) > 0 && prev != llm.Assistant
}

// repair rebuilds a list message by message.
func repair(msgs []llm.Message) []llm.Message {
	out := make([]llm.Message, 0, len(msgs)+4)
	for i := 0; i < len(msgs); i++ {
		m := msgs[i]
		switch m.Role {
		case llm.User:
			out = appendUser(out, m)
		case llm.Assistant:
			if len(m.ToolCalls) == 0 {
				out = appendAssistant(out, m)
				continue
			}

			end := i + 1
			for end < len(msgs) && msgs[end].Role == llm.ToolRole {
				end++
			}

			if len(out) == 0 || (out[len(out)-1].Role == llm.Assistant) {
				out = appendUser(out, llm.Message{Role: llm.User, Content: llm.Text(resumeText)})
			}

			out = appendCalls(out, m, msgs[i+1:end])
			i = end - 1
		}
	}

	for len(out) > 0 && out[len(out)-1].Role == llm.Assistant {
		out = out[:len(out)-1]
	}

	if len(out) == 0 {
		out = append(out, llm.Message{Role: llm.User, Content: llm.Text(resumeText)})
	}
	return out
}

// resumeText stands in where a provider demands a user message and there is none.
const resumeText = "(continue)"

func appendUser(out []llm.Message, m llm.Message) []llm.Message {
	if n := len(out); n > 0 && out[n-1].Role == llm.User {
		out[n-1] = MergeUser(out[n-1], m)
		return out
	}
	return append(out, m)
}

// appendAssistant adds a plain answer: dropped when blank or first, merged
// into a preceding plain answer.
func appendAssistant(out []llm.Message, m llm.Message) []llm.Message {
	n := len(out)
	switch {
	case m.Content.Blank():
		return out
	case n == 0:
		return append(out, llm.Message{Role: llm.User, Content: llm.Text(resumeText)}, m)
	case out[n-1].Role == llm.Assistant:
		merged := out[n-1]
		merged.Content = joinContent(merged.Content, m.Content)
		out[n-1] = merged
		return out
	}

	return append(out, m)
}

// appendCalls adds an assistant message with calls and exactly one result per
// call, in call order. Reused ids inside one message are told apart.
func appendCalls(out []llm.Message, m llm.Message, results []llm.Message) []llm.Message {
	used := make([]bool, len(results))
	seen := map[string]int{}
	calls := slices.Clone(m.ToolCalls)
	answers := make([]llm.Message, 0, len(calls))
	for i := range calls {
		c := &calls[i]
		res := llm.Message{Role: llm.ToolRole, Name: c.Name, IsError: true, Content: llm.Text(unavailable)}
		for j, t := range results {
			if !used[j] && t.ToolCallID == c.ID {
				used[j], res = true, t
				break
			}
		}

		if n := seen[c.ID]; n > 0 || c.ID == "" {
			c.ID = uniqueID(c.ID, i)
		}

		seen[c.ID]++
		res.ToolCallID = c.ID
		answers = append(answers, res)
	}

	m.ToolCalls = calls
	return append(append(out, m), answers...)
}

// MergeUser joins two user messages into one.
func MergeUser(a, b llm.Message) llm.Message {
	a.Content = joinContent(a.Content, b.Content)
	return a
}

func joinContent(a, b llm.Content) llm.Content {
	if a.Blocks == nil && b.Blocks == nil {
		if a.Text == "" {
			return b
		}
		return llm.Text(a.Text + "\n\n" + b.Text)
	}

	blocks := func(c llm.Content) []llm.Block {
		if c.Blocks != nil {
			return c.Blocks
		}
		if c.Text == "" {
			return nil
		}
		return []llm.Block{{Type: "text", Text: c.Text}}
	}
	return llm.Content{Blocks: slices.Concat(blocks(a), blocks(b))}
}
