// Package demo is the model inside the binary: a small deterministic program
// that speaks the llm.Model contract, so that nanobot does something useful
// before a real model is configured. It is not an AI and says so in every
// answer. It recognises the phrasings listed in docs/reference/demo.md in English and
// Chinese, calls the tools it is offered (never one that is not in
// Request.Tools), reports their real results, and explains how to add a real
// model when it is asked for anything else.
//
// The same request always yields the same events. The model keeps no state:
// everything it knows about a turn is read from the messages after the last
// user message, so it is safe for concurrent use and survives a restart in the
// middle of a turn.
//
// Texts starting with "demo:" drive tests and benchmarks:
//
//	demo:repeat N words     answers with N words
//	demo:think N            thinks N words, then answers
//	demo:tools N            makes N list_dir calls, one after the other
//	demo:call NAME {json}   calls one tool with these arguments
//	demo:error KIND [N]     fails with an llm.Error of that Kind; N is its
//	                        Retry-After in seconds
//	demo:empty              answers with nothing
//	demo:truncate           streams a few words, then breaks off like a cut connection
//	demo:wait               answers only when the context ends, with its error
package demo

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// provider is the provider name of the demo model in errors and message origins.
const provider = "demo"

// defaultNotes is the file, relative to the workspace, that notes go to.
const defaultNotes = "notes.md"

// Options configure the demo model; the zero value is what the binary uses.
type Options struct {
	// Notes is the file for "remember ..."; empty means DefaultNotes.
	Notes string
}

// New makes a demo model.
func New(o Options) llm.Model {
	if o.Notes == "" {
		o.Notes = defaultNotes
	}
	return &model{notes: o.Notes}
}

type model struct{ notes string }

var _ llm.Model = (*model)(nil)

// reply holds what the model decided to do, before it is cut into events.
type reply struct {
	thought string
	text    string
	calls   []llm.ToolCall
	err     error // ends the stream after the deltas, instead of Done
	wait    bool  // block until the context ends
}

// Stream implements llm.Model.
func (m *model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		r := m.decide(req)
		if r.wait {
			<-ctx.Done()
		}

		finish := llm.FinishStop
		if len(r.calls) > 0 {
			finish = llm.FinishToolCalls
		} else if cut := firstWords(r.text, req.MaxTokens); req.MaxTokens > 0 && len(cut) < len(r.text) {
			r.text, finish = cut, llm.FinishLength
		}

		if !emit(ctx, llm.ReasoningDelta, r.thought, yield) || !emit(ctx, llm.TextDelta, r.text, yield) {
			return
		}
		if err := ctx.Err(); err != nil {
			yield(llm.Event{}, err)
			return
		}
		if r.err != nil {
			yield(llm.Event{}, r.err)
			return
		}

		yield(llm.Event{Kind: llm.Done, Response: &llm.Response{
			Message: llm.Message{
				Role: llm.Assistant, Content: llm.Text(r.text), ToolCalls: r.calls,
				Reasoning: r.thought, HasReasoning: r.thought != "", Origin: provider,
			},
			Finish: finish,
			Usage:  usage(req, r),
		}}, nil)
	}
}

// emit sends a text word by word. It reports whether the stream goes on.
func emit(ctx context.Context, kind llm.EventKind, s string, yield func(llm.Event, error) bool) bool {
	for w := range words(s) {
		if err := ctx.Err(); err != nil {
			yield(llm.Event{}, err)
			return false
		}
		if !yield(llm.Event{Kind: kind, Text: w}, nil) {
			return false
		}
	}
	return true
}

// words cuts a text into pieces that join to the whole: a word with the white
// space after it, or one Han character.
func words(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s != "" {
			n := wordLen(s)
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

func wordLen(s string) int {
	space := false
	for i, r := range s {
		if i > 0 && unicode.Is(unicode.Han, r) {
			return i
		}

		if !unicode.IsSpace(r) {
			if space {
				return i
			}
			if i == 0 && unicode.Is(unicode.Han, r) {
				space = true // ends after this character and the space behind it
			}
			continue
		}

		space = true
	}

	return len(s)
}

// firstWords returns the longest run of at most n leading words.
func firstWords(s string, n int) string {
	end := 0
	for w := range words(s) {
		if n--; n < 0 {
			break
		}
		end += len(w)
	}
	return s[:end]
}

func usage(req llm.Request, r reply) llm.Usage {
	prompt := text.Tokens(req.System)
	for _, t := range req.Tools {
		prompt += text.Tokens(t.Name) + text.Tokens(t.Description) + text.Tokens(string(t.Schema))
	}

	for _, msg := range req.Messages {
		prompt += 4 + text.Tokens(msg.Content.String()) + text.Tokens(msg.Reasoning)
		for _, c := range msg.ToolCalls {
			prompt += text.Tokens(c.Name) + text.Tokens(c.Arguments)
		}
	}

	u := llm.Usage{Prompt: prompt, Reasoning: text.Tokens(r.thought), Estimated: true}
	u.Completion = u.Reasoning + text.Tokens(r.text)
	for _, c := range r.calls {
		u.Completion += text.Tokens(c.Name) + text.Tokens(c.Arguments)
	}
	return u
}

// decide chooses the answer to a request.
func (m *model) decide(req llm.Request) reply {
	said, outcomes := lastTurn(req.Messages)
	t := turn{model: m, req: req, zh: isChinese(said), page: fromPage(req.Messages), outcomes: outcomes}
	if knob, ok := strings.CutPrefix(said, "demo:"); ok {
		return t.knob(knob)
	}

	steps := parse(said)
	if len(steps) == 0 {
		return reply{thought: t.localize("No phrase I know matches.", "没有匹配的说法。"), text: t.introduction()}
	}
	if steps[0].act == actHelp {
		return reply{thought: t.localize("The user asks what I can do.", "用户问我能做什么。"), text: t.abilities()}
	}
	return t.work(steps)
}

// lastTurn returns the newest user text and what tools answered since then.
func lastTurn(msgs []llm.Message) (string, []outcome) {
	start := len(msgs)
	for start > 0 && msgs[start-1].Role != llm.User {
		start--
	}

	var said string
	if start > 0 {
		said = plainText(msgs[start-1].Content)
	}

	var out []outcome
	for _, msg := range msgs[start:] {
		if msg.Role == llm.ToolRole {
			out = append(out, outcome{text: msg.Content.String(), failed: msg.IsError})
		}
	}
	return said, out
}

// outcome holds what a tool call of this turn came back with.
type outcome struct {
	text   string
	failed bool
}

// plainText returns what the user typed: text blocks only, without the block
// of runtime context that the agent adds.
func plainText(c llm.Content) string {
	s := c.Text
	if c.Blocks != nil {
		var parts []string
		for _, b := range c.Blocks {
			if b.Type == "text" {
				parts = append(parts, b.Text)
			}
		}
		s = strings.Join(parts, "\n")
	}

	const opening, closing = "[Runtime Context", "[/Runtime Context]"
	for from := 0; ; {
		i := strings.Index(s[from:], opening)
		if i < 0 {
			break
		}

		i += from
		if i > 0 && s[i-1] != '\n' {
			from = i + len(opening)
			continue
		}

		_, after, _ := strings.Cut(s[i:], closing)
		s, from = s[:i]+after, i
	}

	return strings.TrimSpace(s)
}

// fromPage reports whether the newest message came from the web page, where
// commands are not typed.
func fromPage(msgs []llm.Message) bool {
	for _, msg := range slices.Backward(msgs) {
		if msg.Role == llm.User {
			return strings.Contains(msg.Content.String(), "\nChannel: websocket\n")
		}
	}
	return false
}

func isChinese(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// callID makes an id that is the same for the same request and differs
// between the calls of a conversation.
func callID(req llm.Request, name, args string) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d\x00%s\x00%s", len(req.Messages), name, args)
	return fmt.Sprintf("demo_%016x", h.Sum64())
}
