package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/text"
)

// errSkipped ends the wizard without a change.
var errSkipped = errors.New("skipped")

// choices is what a user answered.
type choices struct {
	row              catalog.Row
	base, key, model string
}

// runWizard asks for provider, key and model and writes the answers together, so
// that leaving half-way changes nothing. It works on a terminal and on a pipe.
func runWizard(c *command, cmd *cobra.Command, file string) error {
	ask := newPrompter(c.In, c.Out)
	ch, err := interview(c, cmd, ask)
	if errors.Is(err, errSkipped) {
		cmd.Println("Nothing changed.")
		return nil
	}
	if err != nil {
		return err
	}
	provider := "providers." + ch.row.Name
	return setConfig(file, setting{provider + ".apiBase", ch.base}, setting{provider + ".apiKey", ch.key},
		setting{"agents.defaults.model", ch.model}, setting{"agents.defaults.provider", ch.row.Name})
}

func interview(c *command, cmd *cobra.Command, ask *prompter) (ch choices, err error) {
	cmd.Println()
	if ch.row, err = askProvider(cmd, ask); err != nil {
		return ch, err
	}
	if ch.row.Direct || ch.row.Local {
		if ch.base, err = ask.line("Base URL", ch.row.BaseURL); err != nil {
			return ch, err
		}
		if ch.base == "" && ch.row.BaseURL == "" {
			return ch, usageError{fmt.Errorf("%s needs a base URL, such as http://127.0.0.1:8000/v1", ch.row.Name)}
		}
	}
	hint := "none"
	for _, name := range ch.row.EnvKeys {
		if c.getenv(name) != "" {
			hint = "the one in " + name
			break
		}
	}
	if ch.key, err = ask.secret("API key, not shown", hint); err != nil {
		return ch, err
	}
	ch.key = strings.Trim(ch.key, `"'`)
	if other := ownerOf(ch.key); other != "" && other != ch.row.Name && !ch.row.Direct {
		cmd.PrintErrf("Note: this looks like a key of %s, not of %s.\n", other, ch.row.Name)
	}
	if ch.model, err = ask.line("Model", ch.row.DefaultModel); err != nil {
		return ch, err
	}
	if ch.model == "" {
		ch.model = ch.row.DefaultModel
	}
	if ch.model == "" {
		return ch, usageError{fmt.Errorf("%s has no default model; run the wizard again and name one", ch.row.Name)}
	}
	return ch, nil
}

// askProvider asks until there is a known name; on a pipe a wrong one is an error.
func askProvider(cmd *cobra.Command, ask *prompter) (catalog.Row, error) {
	var names []string
	for _, r := range catalog.Rows() {
		if r.Auth == "" && !r.Speech { // sign-ins have "provider login"
			names = append(names, r.Name)
		}
	}
	cmd.Printf("Providers: %s\n", strings.Join(names, ", "))
	for {
		name, err := ask.line("Provider", "skip")
		if err != nil {
			return catalog.Row{}, err
		}
		if name == "" || name == "skip" {
			return catalog.Row{}, errSkipped
		}
		if row, ok := catalog.Lookup(strings.ToLower(strings.ReplaceAll(name, "-", "_"))); ok {
			return row, nil
		}
		err = fmt.Errorf("unknown provider %q", name)
		if near := text.NearestRatio(strings.ToLower(name), names, 0.6); near != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, near)
		}
		if !ask.terminal() {
			return catalog.Row{}, usageError{err}
		}
		cmd.Println(err)
	}
}

// ownerOf tells a provider by the way its keys begin; "" if they could be anybody's.
func ownerOf(key string) string {
	for _, r := range catalog.Rows() {
		if r.KeyPrefix != "" && strings.HasPrefix(key, r.KeyPrefix) {
			return r.Name
		}
	}
	return ""
}

// prompter asks questions on a terminal or a pipe.
type prompter struct {
	in  *os.File
	buf *bufio.Reader
	out io.Writer
}

func newPrompter(in *os.File, out io.Writer) *prompter {
	return &prompter{in: in, buf: bufio.NewReader(in), out: out}
}

func (p *prompter) terminal() bool { return term.IsTerminal(int(p.in.Fd())) }

// line asks for a line; an empty answer means what the brackets show. The end
// of the input skips everything that was not asked yet.
func (p *prompter) line(question, otherwise string) (string, error) {
	fmt.Fprint(p.out, label(question, otherwise))
	s, err := p.buf.ReadString('\n')
	if !p.terminal() {
		fmt.Fprintln(p.out) // nobody pressed Enter
	}
	if errors.Is(err, io.EOF) && s == "" {
		return "", errSkipped
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(s), nil
}

// secret reads without showing what is typed. The echo is off before the
// question appears, so that even a paste that comes at once stays hidden.
func (p *prompter) secret(question, otherwise string) (string, error) {
	if !p.terminal() {
		return p.line(question, otherwise)
	}
	old, err := term.MakeRaw(int(p.in.Fd()))
	if err != nil {
		return "", fmt.Errorf("hide the answer: %w", err)
	}
	s, err := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{p.in, p.out}, "").ReadPassword(label(question, otherwise))
	err = errors.Join(err, term.Restore(int(p.in.Fd()), old))
	if errors.Is(err, io.EOF) { // Ctrl-C or Ctrl-D
		fmt.Fprintln(p.out)
		return "", errSkipped
	}
	return strings.TrimSpace(s), err
}

func label(question, otherwise string) string {
	if otherwise != "" {
		question += " [" + otherwise + "]"
	}
	return question + ": "
}

// agree asks whether to go on, after it has shown what is at stake.
func (c *command) agree(cmd *cobra.Command, question string, show ...func()) error {
	ask := newPrompter(c.In, cmd.OutOrStdout())
	if !ask.terminal() {
		return usageError{errors.New("cannot ask for confirmation here; use --yes to continue")}
	}
	for _, f := range show {
		f()
	}
	answer, err := ask.line(question, "no")
	if err != nil && !errors.Is(err, errSkipped) {
		return err
	}
	if a := strings.ToLower(answer); a != "y" && a != "yes" {
		cmd.Println("Nothing was changed.")
		return failure{exitFailure}
	}
	return nil
}
