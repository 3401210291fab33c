package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
)

// Stdio holds what a command talks to.
type Stdio struct {
	In, Out, Err *os.File
	Env          []string
	Dir          string           // the folder the program was started in; "" is the workspace
	Now          func() time.Time // nil is time.Now; for simulations
}

// console is where the person who made the call reads and types, in their language.
type console struct {
	Stdio
	language string // of the locale; "" if nanobot has no sentences in it
}

func newConsole(io Stdio) *console {
	c := &console{Stdio: io}
	c.language = c.locale()
	return c
}

func (c *console) getenv(name string) string {
	for _, kv := range slices.Backward(c.Env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// locale returns the language of the person's locale.
func (c *console) locale() string {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if locale := c.getenv(name); locale != "" {
			tag, _, _ := strings.Cut(locale, ".")
			return phrase.Language(tag)
		}
	}
	return ""
}

// in returns a sentence of the catalogue in the person's language.
func (c *console) in(english string, args ...any) string {
	return phrase.In(c.language, english, args...)
}

// known returns a sentence that another package finished in English, in the person's
// language if the catalogue has it.
func (c *console) known(english string) string {
	return phrase.Recognize(c.language, english)
}

// yesNo returns one of two words.
func (c *console) yesNo(b bool) string {
	if b {
		return c.in("yes")
	}
	return c.in("no")
}

// say prints a sentence where the answer of a command goes.
func (c *console) say(english string, args ...any) {
	fmt.Fprint(c.Out, c.in(english, args...))
}

// sayErr prints a sentence where warnings and notes go.
func (c *console) sayErr(english string, args ...any) {
	fmt.Fprint(c.Err, c.in(english, args...))
}

// show prints what a command found: the value for a program, and otherwise what draw
// prints for people.
func (c *console) show(asJSON bool, value any, draw func() error) error {
	if asJSON {
		return encodeJSON(c.Out, value, "  ")
	}
	return draw()
}

// table begins a table with column heads in the person's language, if it has any.
func (c *console) table(heads ...string) *table {
	for i, head := range heads {
		heads[i] = c.in(head)
	}
	return newTable(c.Out, heads...)
}

// atTerminal reports whether a person can be asked.
func (c *console) atTerminal() bool {
	at := c.tui()
	return at.InTTY && at.OutTTY
}

// tui returns the same files for a chat.
func (c *console) tui() tui.Console { return tui.Stdio(c.In, c.Out, c.Err) }

// prompter asks the person questions.
func (c *console) prompter() *prompter { return newPrompter(c.In, c.Out) }

// lines delivers what is typed. A read of a terminal cannot be stopped, so the
// goroutine may outlive the command; the process ends right after it.
func (c *console) lines(ctx context.Context) <-chan string {
	out := make(chan string) // a line that no caller waits for is not read
	go func() {
		defer close(out)
		sc := bufio.NewScanner(c.In)
		for sc.Scan() {
			select {
			case out <- sc.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// agree asks whether to go on, after it has shown what is at stake. Without a terminal,
// and after any answer but yes, it returns an error.
func (c *console) agree(question string, show ...func()) error {
	ask := c.prompter()
	if !ask.terminal() {
		return usageError{errors.New("cannot ask for confirmation here; use --yes to continue")}
	}

	for _, f := range show {
		f()
	}

	answer, err := ask.line(c.in(question), "no")
	if err != nil && !errors.Is(err, errSkipped) {
		return err
	}
	if !isYes(answer) {
		c.say("Nothing was changed.\n")
		return failure{exitFailure}
	}
	return nil
}

// agrees asks a question whose no is a usual answer. Without a terminal it returns an
// error, because nothing is done then.
func (c *console) agrees(question string) (bool, error) {
	ask := c.prompter()
	if !ask.terminal() {
		return false, usageError{errors.New("cannot ask for confirmation here; review with --dry-run, then use --yes")}
	}

	answer, err := ask.line(question, "no")
	if err != nil {
		return false, err
	}

	if !isYes(answer) {
		c.say("Nothing was changed.\n")
	}
	return isYes(answer), nil
}

// isYes reports whether an answer to a question of yes and no is yes.
func isYes(answer string) bool {
	a := strings.ToLower(strings.TrimSpace(answer))
	return a == "y" || a == "yes"
}

// userHome returns the home folder of the person; "" if it is unknown.
func (c *console) userHome() string { return cmp.Or(c.getenv("HOME"), c.getenv("USERPROFILE")) }

// short returns a path as people write it.
func (c *console) short(path string) string {
	if rel, err := filepath.Rel(c.userHome(), path); c.userHome() != "" && err == nil && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return path
}
