package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// prompter asks questions on a terminal or a pipe.
type prompter struct {
	in  *os.File
	buf *bufio.Reader
	out io.Writer
}

func newPrompter(in *os.File, out io.Writer) *prompter {
	return &prompter{in: in, buf: bufio.NewReader(in), out: out}
}

func (p *prompter) line(question string) (string, error) {
	fmt.Fprint(p.out, question)
	s, err := p.buf.ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || s == "") {
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		return "", err
	}
	return strings.TrimSpace(s), nil
}

// secret reads without showing what is typed.
func (p *prompter) secret(question string) (string, error) {
	if !term.IsTerminal(int(p.in.Fd())) {
		return p.line(question)
	}
	fmt.Fprint(p.out, question)
	b, err := term.ReadPassword(int(p.in.Fd()))
	fmt.Fprintln(p.out)
	return strings.TrimSpace(string(b)), err
}
