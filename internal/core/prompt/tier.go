package prompt

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Tier says how much of a model's window may be spent on everything that is
// not the conversation. A model with a small window gets a shorter prompt and
// fewer tools, so that most of the window is left for its work.
type Tier struct {
	Name   string
	Short  bool // the short identity
	Skills bool // active skills and the list of skills
	Brief  bool // the list has short descriptions
	// Bootstrap and Memory bound the user's own files in the prompt, in
	// characters; 0 is no bound.
	Bootstrap, Memory int
	// ToolTokens bounds the descriptions of all tools; 0 is no bound.
	ToolTokens int
	// Answer and Input bound one answer and one prompt, in tokens; Results bounds
	// one tool result, in characters. 0 is no bound but the configured one.
	Answer, Input, Results int
}

// TierOf chooses by the real context window in tokens. An unknown window (0)
// counts as large.
func TierOf(window int) Tier {
	switch {
	case window <= 0 || window > 16<<10:
		return Tier{Name: "full", Skills: true}
	case window > 8<<10:
		t := Tier{Name: "medium", Skills: true, Brief: true, Bootstrap: 6000, Memory: 4000, ToolTokens: 3000, Results: 8000}
		return t.within(window)
	case window > 4<<10:
		t := Tier{Name: "small", Short: true, Bootstrap: 2000, Memory: 1500, ToolTokens: 1500, Results: 4000}
		return t.within(window)
	}

	t := Tier{Name: "tiny", Short: true, Bootstrap: 800, Memory: 600, ToolTokens: 1000, Results: 2000}
	return t.within(window)
}

// within divides the window: a quarter for the answer, a sixteenth for errors
// of our estimate, the rest for the prompt.
func (t Tier) within(window int) Tier {
	t.Answer = max(window/4, 1)
	t.Input = max(window-t.Answer-window/16, 1)
	return t
}

// coreTools returns those a small model keeps before all others, the most useful first.
func coreTools() []string {
	return []string{"read_file", "exec", "edit_file", "write_file", "list_dir", "grep"}
}

// lesserTools returns those a small model does without first: others do what they
// do, if not as well.
func lesserTools() []string {
	return []string{
		"apply_patch", "notebook_edit", "write_stdin", "list_exec_sessions", "message", "ask_user", "my", "spawn",
		"list_sessions", "read_session", "search_sessions", "send_session_message",
	}
}

// Tools chooses tools until the bound is reached: the core first, then the
// others in their order. The choice depends on nothing else, so the beginning
// of a prompt stays the same from turn to turn.
func (t Tier) Tools(set *tool.Set) (*tool.Set, error) {
	if t.ToolTokens == 0 || runner.EstimateHead("", set.Defs()) <= t.ToolTokens {
		return set, nil
	}

	order := slices.Clone(set.Defs())
	core, lesser := coreTools(), lesserTools()
	rank := func(d llm.ToolDef) int {
		if i := slices.Index(core, d.Name); i >= 0 {
			return i
		}
		if slices.Contains(lesser, d.Name) {
			return len(core) + 1
		}
		return len(core)
	}

	slices.SortStableFunc(order, func(a, b llm.ToolDef) int { return cmp.Compare(rank(a), rank(b)) })
	var kept []tool.Tool
	var defs []llm.ToolDef
	for _, d := range order {
		if runner.EstimateHead("", append(defs, d)) > t.ToolTokens {
			continue
		}
		if tl, ok := set.Get(d.Name); ok {
			defs, kept = append(defs, d), append(kept, tl)
		}
	}

	return tool.NewSet(kept...)
}

// Limits returns the bounds of a turn in this tier.
func (t Tier) Limits(l runner.Limits, maxTokens int) (limits runner.Limits, answer int) {
	if t.Results > 0 && (l.ToolResultChars <= 0 || l.ToolResultChars > t.Results) {
		l.ToolResultChars = t.Results
	}
	if t.Input > 0 && (l.ContextBlock <= 0 || l.ContextBlock > t.Input) {
		l.ContextBlock = t.Input
	}
	if t.Answer > 0 && (maxTokens <= 0 || maxTokens > t.Answer) {
		maxTokens = t.Answer
	}
	return l, maxTokens
}

// shorten cuts the parts of the prompt that belong to the user: bootstrap
// files, memory, and what follows, which is about skills: active ones, the list
// with long and the list with short descriptions.
func (t Tier) shorten(parts []string) []string {
	out := slices.Clone(parts)
	switch {
	case len(out) <= 2:
	case !t.Skills:
		out = out[:2]
	case t.Brief:
		out = slices.Delete(out, 3, 4)
	default:
		out = out[:4]
	}

	for i, most := range []int{t.Bootstrap, t.Memory} {
		if i < len(out) {
			out[i] = shortened(out[i], most)
		}
	}
	return out
}

// shortened cuts a text at a line if it can and says so.
func shortened(s string, most int) string {
	const note = "\n[cut to fit the model; read the file for the rest]"
	if most <= 0 || len([]rune(s)) <= most {
		return s
	}
	s = text.Cut(s, most-len(note))
	if i := strings.LastIndexByte(s, '\n'); i > len(s)/2 {
		s = s[:i]
	}
	return strings.TrimRight(s, " \n") + note
}
