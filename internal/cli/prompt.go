package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// errSkipped is the answer of a user who left at a question: Ctrl-C, Ctrl-D or
// the end of the input.
var errSkipped = errors.New("skipped")

// prompter asks questions on a terminal or a pipe.
type prompter struct {
	in   *os.File
	buf  *bufio.Reader
	out  io.Writer
	edit *term.Terminal // from the first question in raw mode on
	mark bool           // the terminal can mark what is pasted
}

func newPrompter(in *os.File, out io.Writer) *prompter {
	return &prompter{in: in, buf: bufio.NewReader(in), out: out}
}

func (p *prompter) terminal() bool { return term.IsTerminal(int(p.in.Fd())) }

// width returns how many columns there are, at least 40.
func (p *prompter) width() int {
	if out, ok := p.out.(*os.File); ok {
		if w, _, err := term.GetSize(int(out.Fd())); err == nil {
			return max(w, 40)
		}
	}
	return 80
}

// line asks for a line; an empty answer means what the brackets show. The end
// of the input skips everything that was not asked yet.
func (p *prompter) line(question, otherwise string) (string, error) {
	fmt.Fprint(p.out, label(question, otherwise))
	s, err := p.buf.ReadString('\n')
	if !p.terminal() {
		fmt.Fprintln(p.out) // there was no Enter to end the line
	}

	if errors.Is(err, io.EOF) && s == "" {
		return "", errSkipped
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(s), nil
}

// edited is line with an editor on a terminal. Ctrl-C is an answer like any
// other there, errSkipped, and does not end the program.
func (p *prompter) edited(question string) (string, error) {
	if !p.terminal() {
		return p.line(question, "")
	}
	return p.raw(question, false)
}

// secret reads without showing what is typed. The echo is off before the
// question appears, so that even a paste that comes at once stays hidden.
func (p *prompter) secret(question string) (string, error) {
	if !p.terminal() {
		return p.line(question, "")
	}
	return p.raw(question, true)
}

// raw reads an answer in raw mode. Line breaks of a paste are part of the
// answer, so that the rest of it does not answer the next question.
func (p *prompter) raw(question string, hidden bool) (answer string, err error) {
	old, err := term.MakeRaw(int(p.in.Fd()))
	if err != nil {
		return "", fmt.Errorf("hide the answer: %w", err)
	}

	defer func() { err = cmp.Or(err, term.Restore(int(p.in.Fd()), old)) }()
	if p.edit == nil {
		p.edit = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{&keyFilter{in: p.in}, p.out}, "")
	}

	if err := p.edit.SetSize(p.width(), 24); err != nil {
		return "", err
	}

	if p.mark {
		p.edit.SetBracketedPasteMode(true)
		defer p.edit.SetBracketedPasteMode(false)
	}

	prompt, parts := question+": ", []string(nil)
	for {
		var s string
		if hidden {
			s, err = p.edit.ReadPassword(prompt)
		} else {
			p.edit.SetPrompt(prompt)
			s, err = p.edit.ReadLine()
		}

		parts, prompt = append(parts, s), ""
		switch {
		case errors.Is(err, term.ErrPasteIndicator): // the line break was pasted: there is more
		case errors.Is(err, io.EOF): // Ctrl-C or Ctrl-D
			fmt.Fprint(p.out, "\r\n")
			return "", errSkipped
		default:
			return strings.TrimSpace(strings.Join(parts, "\n")), err
		}
	}
}

func label(question, otherwise string) string {
	if otherwise != "" {
		question += " [" + otherwise + "]"
	}
	return question + ": "
}
