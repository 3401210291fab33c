package tui

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// maxMenu is how many commands are listed below the input at once.
const maxMenu = 8

// completion offers slash commands while the first word of the input is one.
// Tab completes as far as it is certain, then walks through the candidates.
type completion struct {
	commands []Command
	found    []Command // candidates being walked through
	at       int
}

func (c *completion) reset() { c.found, c.at = nil, 0 }

// matches returns the commands the text may become.
func (c *completion) matches(text string) []Command {
	if c.found != nil {
		return c.found
	}
	if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, " \t\n") {
		return nil
	}

	text = strings.ToLower(text)
	for _, fits := range []func(name string) bool{
		func(name string) bool { return strings.HasPrefix(name, text) },
		func(name string) bool { return strings.Contains(name, text[1:]) },
		func(name string) bool { return subsequence(name, text) },
	} {
		var out []Command
		for _, cmd := range c.commands {
			if fits(cmd.Name) {
				out = append(out, cmd)
			}
		}

		if out != nil {
			return out
		}
	}

	return nil
}

// subsequence reports whether the letters of part stand in s in this order.
func subsequence(s, part string) bool {
	for _, r := range part {
		i := strings.IndexRune(s, r)
		if i < 0 {
			return false
		}
		s = s[i+utf8.RuneLen(r):]
	}
	return true
}

// walk goes through the commands listed below the input with the arrows. It
// reports false when there is none to choose from, or an earlier input is shown.
func (e *editor) walk(step int) bool {
	c := &e.complete
	if c.found == nil {
		found := c.matches(string(e.text))
		if e.recall != len(e.hist.entries) || len(found) == 0 || len(found) == 1 && found[0].Name == string(e.text) {
			return false
		}
		c.found, c.at = found, -1
		if step < 0 {
			c.at = 0
		}
	}

	c.at = (c.at + step + len(c.found)) % len(c.found)
	e.set(c.found[c.at].Name)
	return true
}

// tab completes the input; back walks the other way.
func (e *editor) tab(back bool) {
	c := &e.complete
	if c.found != nil {
		step := 1
		if back {
			step = -1
		}
		e.walk(step)
		return
	}

	found := c.matches(string(e.text))
	if len(found) == 0 || e.pos != len(e.text) {
		return
	}

	if len(found) == 1 {
		name := found[0].Name
		if found[0].Args != "" {
			name += " "
		}
		e.set(name)
		return
	}

	if prefix := commonPrefix(found); len(prefix) > len(e.text) {
		e.set(prefix)
		return
	}

	c.found, c.at = found, 0
	if back {
		c.at = len(found) - 1
	}
	e.set(found[c.at].Name)
}

func commonPrefix(found []Command) string {
	prefix := found[0].Name
	for _, c := range found[1:] {
		for !strings.HasPrefix(c.Name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}

// menu lists the candidates, or the arguments of the command being typed.
func (e *editor) menu() []line {
	text := string(e.text)
	found := e.complete.matches(text)
	if found == nil {
		name, rest, _ := strings.Cut(text, " ")
		i := slices.IndexFunc(e.complete.commands, func(c Command) bool { return c.Name == name })
		if i < 0 || strings.TrimSpace(rest) != "" || !strings.HasPrefix(text, "/") {
			return nil
		}
		found = e.complete.commands[i : i+1]
	}

	first := 0
	if e.complete.found != nil {
		first = max(0, e.complete.at-maxMenu+1)
	}

	width := 0
	for _, c := range found {
		width = max(width, stringWidth(c.Name+" "+c.Args))
	}

	var out []line
	for i := first; i < len(found) && i < first+maxMenu; i++ {
		name := cyan
		if e.complete.found != nil && i == e.complete.at {
			name |= reverse
		}
		l := styled("  ", 0).add(found[i].Name, name).add(" "+found[i].Args, dim)
		l = append(l, blanks(width+4-l.width())...)
		out = append(out, l.add(found[i].Help, dim))
	}

	if rest := len(found) - first - len(out); rest > 0 {
		out = append(out, styled("  …", dim))
	}
	return out
}
