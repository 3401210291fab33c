package approve

import (
	"context"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Bounds of the diff in a question.
const (
	diffSource = 256 << 10 // bytes of a file
	diffShown  = 64 << 10  // bytes of all diffs
)

// detail returns the question about a call, part by part.
func (p *Policy) detail(ctx context.Context, s *subject, reason phrase.Sentence, cover coverage) *bus.Detail {
	d := &bus.Detail{Tool: s.tool.Name, Call: s.call.ID, Command: s.command(), Arguments: s.without("command"), Paths: s.paths(), Reason: reason.In(phrase.From(ctx))}
	if d.Command == "" {
		d.Arguments = s.canonical()
	}

	if s.tool.Sink == tool.SinkCommand {
		d.Folder, d.Sandbox = p.file(s.directory()).abs, p.Sandboxed || s.call.Project.Only
		if d.Sandbox {
			d.Network = p.Network
		}
	}

	if cover.what != "" {
		d.Covers = phrase.Of(ctx, cover.what, cover.of...)
	}
	if s.tool.Sink == tool.SinkWrite {
		d.Diff = p.diff(s)
	}
	return d
}

// diff returns what a write would change, "" if that shows only when it runs.
func (p *Policy) diff(s *subject) string {
	edits, ok := s.args["edits"].([]any)
	if !ok {
		edits = []any{s.args}
	}

	var names []string
	before, after := map[string]string{}, map[string]string{}
	for _, e := range edits {
		args, _ := e.(map[string]any)
		one := subject{args: args}
		name := s.call.Project.Path(one.text("path"))
		if !slices.Contains(names, name) {
			old, known := p.source(name)
			if !known {
				return ""
			}
			names = append(names, name)
			before[name] = old
			after[name] = old
		}

		next, known := written(&one, after[name])
		if !known {
			return ""
		}
		after[name] = next
	}

	var b strings.Builder
	for _, name := range names {
		patch, _, _ := text.UnifiedDiff(name, name, before[name], after[name])
		for line := range strings.Lines(patch) {
			b.WriteString(text.Reveal(strings.TrimSuffix(line, "\n"), "\t") + "\n")
		}
	}

	if b.Len() > diffShown {
		return ""
	}
	return b.String()
}

// written returns a file after one edit.
func written(one *subject, old string) (next string, known bool) {
	if content, ok := one.args["content"].(string); ok {
		return content, true
	}

	next, known = one.args["new_text"].(string)
	from := one.text("old_text")
	switch {
	case from == "": // it goes to the end of a file, whose line ends it takes over
		if old != "" && next != "" && !strings.HasSuffix(old, "\n") {
			old += "\n"
		}
		return old + next, known && one.text("action") == "add" && !strings.Contains(old, "\r\n")
	case one.flag("replace_all"):
		return strings.ReplaceAll(old, from, next), known
	}

	return strings.Replace(old, from, next, 1), known && strings.Count(old, from) == 1
}

// source returns a text file of a moderate size; a new one is empty.
func (p *Policy) source(name string) (string, bool) {
	if name == "" || p.file(name).info == nil {
		return "", name != ""
	}

	f, err := p.Jail.Open(name)
	if err != nil {
		return "", false
	}

	defer f.Close() //nolint:errcheck // only read from
	data, err := io.ReadAll(io.LimitReader(f, diffSource+1))
	return string(data), err == nil && len(data) <= diffSource && utf8.Valid(data)
}

// Explained holds what would happen to a call, and why.
type Explained struct {
	Action Action      `json:"action"`
	Reason string      `json:"reason,omitempty"` // follows "because"
	Rule   string      `json:"rule,omitempty"`   // of tools.approval, that decides
	Detail *bus.Detail `json:"detail,omitempty"` // what would be asked
}

// Explain says what Check would do with a call, without asking. What people
// allowed before is not looked at.
func (p *Policy) Explain(ctx context.Context, t tool.Tool, c tool.Call) Explained {
	c.Ask = func(context.Context, bus.Question) (string, error) { return "", tool.ErrNoAnswer }
	s := newSubject(t, c)
	if name, leaks := p.leaks(s); leaks {
		return Explained{Action: ActionDeny, Reason: "it contains the secret " + name}
	}

	v := p.decide(s)
	out := Explained{Action: v.action, Reason: v.reason.In(phrase.From(ctx))}
	if r, m := p.rule(s); m != Never {
		out.Rule = ruleText(r)
	}
	if v.action == ActionAsk {
		s.byOutside = v.byOutside
		out.Detail = p.detail(ctx, s, v.reason, p.coverage(s))
	}
	return out
}
