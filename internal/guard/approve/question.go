package approve

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	// maxQuestion bounds a question in characters. What does not fit is not
	// asked: the owner cannot approve what they cannot read.
	maxQuestion = 16_000
	// maxValue is how much of a text for an ordinary file is shown.
	maxValue = 4_000

	// From foldedLines or foldedText characters on, apps show the beginning of a
	// message with a link to the rest.
	foldedLines = 20
	foldedText  = 700
	// More spaces and empty lines are shown as a number, since they would push
	// what follows out of sight.
	mostSpaces = 24
	mostEmpty  = 2
)

// question words a request: what runs, completely, and why it is asked. ok is
// false when it would be too long to be read.
func question(ctx context.Context, s *subject, reason phrase.Sentence, cover coverage, covers covered, changed bool) (asked string, ok bool) {
	var b strings.Builder
	if changed {
		b.WriteString(phrase.Of(ctx, "Something this call depends on changed while you were asked (its directory, a file it names or a script it runs). The question again:\n\n"))
	}

	cmd := s.command()
	if cmd != "" {
		b.WriteString(phrase.Of(ctx, "May I run this command?\n\n"))
		block(&b, cmd)
	} else {
		b.WriteString(phrase.Of(ctx, "May I use %s?\n\n", s.tool.Name))
	}

	for _, name := range slices.Sorted(maps.Keys(s.args)) {
		if name != "command" || cmd == "" {
			argument(ctx, &b, name, s.args[name], cover.wholeText)
		}
	}

	if dir := s.call.Project.Dir; dir != "" {
		b.WriteString(phrase.Of(ctx, "in the folder %s\n", text.Reveal(dir, "")))
	}

	outsiders(ctx, &b, s)
	covers.write(ctx, &b)
	b.WriteString("\n" + phrase.Of(ctx, "You are asked because %s.", reason) + "\n")
	if lines := strings.Count(b.String(), "\n"); lines > foldedLines || utf8.RuneCountInString(b.String()) > foldedText {
		b.WriteString(phrase.Of(ctx, "This question has %d lines, and apps may fold it: open all of it before you answer.\n", lines))
	}

	if cover.what == "" {
		b.WriteString(phrase.Of(ctx, "Answer yes or no."))
	} else {
		b.WriteString(phrase.Of(ctx, "Answer yes or no; \"turn\" or \"session\" also allows %s for the rest of this turn or conversation.", phrase.Of(ctx, cover.what, cover.of...)))
	}
	return b.String(), utf8.RuneCountInString(b.String()) <= maxQuestion
}

// maxNamed is how many files a question names.
const maxNamed = 8

// write says which files an approval is tied to, and that there may be others.
func (c covered) write(ctx context.Context, b *strings.Builder) {
	if !c.open {
		return
	}
	if len(c.names) == 0 {
		b.WriteString(phrase.Of(ctx, "This command runs files that this approval does not cover.\n"))
		return
	}

	shown := list(c.names[:min(len(c.names), maxNamed)])
	if more := len(c.names) - maxNamed; more > 0 {
		shown += phrase.Of(ctx, " and %d more", more)
	}
	b.WriteString(phrase.Of(ctx, "The content of %s is part of this approval. This command may run other files that this approval does not cover.\n", shown))
}

// outsiders says what runs that came from outside, and what keeps it.
func outsiders(ctx context.Context, b *strings.Builder, s *subject) {
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
		shown += phrase.Of(ctx, " and %d more", more)
	}

	b.WriteString(phrase.Of(ctx, "This came from outside, and the command runs or builds it: %s.\n", shown))
	if s.byOutside {
		b.WriteString(phrase.Of(ctx, "It runs contained: it cannot change what I follow, it reaches only allowed hosts, and what it writes counts as from outside. "))
	}
	b.WriteString(phrase.Of(ctx, "`nanobot trust PATH` makes a file or folder yours and ends this question.\n"))
}

func argument(ctx context.Context, b *strings.Builder, name string, v any, whole bool) {
	value, isText := v.(string)
	if !isText {
		raw, err := json.Marshal(v)
		if err != nil {
			raw = []byte("?")
		}
		value = string(raw)
	}

	note := ""
	if n := utf8.RuneCountInString(value); !whole && n > maxValue {
		note = phrase.Of(ctx, "  [%d more characters are not shown]\n", n-maxValue)
		value = string([]rune(value)[:maxValue])
	}

	if note == "" && !strings.Contains(value, "\n") && len(value) <= 100 {
		fmt.Fprintf(b, "%s: %s\n", text.Reveal(name, ""), text.Reveal(value, ""))
		return
	}

	fmt.Fprintf(b, "%s:\n", text.Reveal(name, ""))
	block(b, value)
	b.WriteString(note)
}

// block sets a text apart, so that nothing in it can pass for our own words or
// push the rest of it out of sight.
func block(b *strings.Builder, value string) {
	empty := 0
	endRun := func() {
		if empty > mostEmpty {
			fmt.Fprintf(b, "  | ‹%d empty lines›\n", empty)
		} else {
			b.WriteString(strings.Repeat("  | \n", empty))
		}
		empty = 0
	}
	for line := range strings.SplitSeq(value, "\n") {
		if strings.Trim(line, " ") == "" {
			empty++
			continue
		}
		endRun()
		b.WriteString("  | " + text.Reveal(countSpaces(line), "") + "\n")
	}

	endRun()
}

// countSpaces replaces long runs of spaces by their number.
func countSpaces(line string) string {
	long := strings.Repeat(" ", mostSpaces+1)
	var b strings.Builder
	for {
		at := strings.Index(line, long)
		if at < 0 {
			return b.String() + line
		}
		rest := strings.TrimLeft(line[at:], " ")
		fmt.Fprintf(&b, "%s‹%d spaces›", line[:at], len(line)-at-len(rest))
		line = rest
	}
}
