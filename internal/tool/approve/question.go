package approve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxQuestion bounds a question in characters. What does not fit is not
	// asked: nobody can approve what they cannot read.
	maxQuestion = 16_000
	// maxValue is how much of a text for an ordinary file is shown.
	maxValue = 4_000
)

// question words a request: what runs, completely, and why it is asked. ok is
// false when it would be too long to be read.
func question(s *subject, reason string, cover coverage, covers covered, changed bool) (text string, ok bool) {
	var b strings.Builder
	if changed {
		b.WriteString("Something this call depends on changed while you were asked (its directory, a file it names or a script it runs). The question again:\n\n")
	}
	cmd := s.command()
	if cmd != "" {
		b.WriteString("May I run this command?\n\n")
		block(&b, cmd)
	} else {
		fmt.Fprintf(&b, "May I use %s?\n\n", s.tool.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.args)) {
		if name != "command" || cmd == "" {
			argument(&b, name, s.args[name], cover.wholeText)
		}
	}
	if dir := s.call.Project.Dir; dir != "" {
		fmt.Fprintf(&b, "in the folder %s\n", show(dir))
	}
	outsiders(&b, s)
	covers.write(&b)
	b.WriteString("\nYou are asked because " + reason + ".\n")
	if cover.what == "" {
		b.WriteString("Answer yes or no.")
	} else {
		fmt.Fprintf(&b, "Answer yes or no; \"turn\" or \"session\" also allows %s for the rest of this turn or conversation.", cover.what)
	}
	return b.String(), utf8.RuneCountInString(b.String()) <= maxQuestion
}

// maxNamed is how many files a question names.
const maxNamed = 8

// write says which files an approval is tied to, and that there may be others.
func (c covered) write(b *strings.Builder) {
	if !c.open {
		return
	}
	if len(c.names) == 0 {
		b.WriteString("This command runs files that this approval does not cover.\n")
		return
	}
	shown := list(c.names[:min(len(c.names), maxNamed)])
	if more := len(c.names) - maxNamed; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	b.WriteString("The content of " + shown + " is part of this approval. This command may run other files that this approval does not cover.\n")
}

// outsiders says what runs that came from outside, and what keeps it.
func outsiders(b *strings.Builder, s *subject) {
	if len(s.outside) == 0 {
		return
	}
	var names []string
	for _, o := range s.outside {
		if !slices.Contains(names, o.Name) {
			names = append(names, o.Name)
		}
	}
	shown := list(names[:min(len(names), maxNamed)])
	if more := len(names) - maxNamed; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	b.WriteString("This came from outside, and the command runs or builds it: " + shown + ".\n")
	if s.byOutside {
		b.WriteString("It runs contained: it cannot change what I follow, it reaches only allowed hosts, and what it writes counts as from outside. ")
	}
	b.WriteString("`nanobot trust PATH` makes a file or folder yours and ends this question.\n")
}

func argument(b *strings.Builder, name string, v any, whole bool) {
	text, isText := v.(string)
	if !isText {
		raw, err := json.Marshal(v)
		if err != nil {
			raw = []byte("?")
		}
		text = string(raw)
	}
	note := ""
	if n := utf8.RuneCountInString(text); !whole && n > maxValue {
		note = fmt.Sprintf("  [%d more characters are not shown]\n", n-maxValue)
		text = string([]rune(text)[:maxValue])
	}
	if note == "" && !strings.Contains(text, "\n") && len(text) <= 100 {
		fmt.Fprintf(b, "%s: %s\n", show(name), show(text))
		return
	}
	fmt.Fprintf(b, "%s:\n", show(name))
	block(b, text)
	b.WriteString(note)
}

// block sets a text apart, so that nothing in it can pass for our own words.
func block(b *strings.Builder, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("  | " + show(line) + "\n")
	}
}

// show makes a text visible: every character that prints nothing, changes the
// direction or moves the cursor is written as its number.
func show(s string) string {
	if !strings.ContainsFunc(s, invisible) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, "‹%02X›", s[i])
		case invisible(r):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// invisible characters include the brackets of the notation itself.
func invisible(r rune) bool {
	switch r {
	case '‹', '›', '\u3164', '\uffa0', '\u115f', '\u1160', '\u2800': // fillers that look like nothing
		return true
	}
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r)
}
