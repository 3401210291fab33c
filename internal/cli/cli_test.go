package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Every kind of a failed model call has a code that is not success.
func TestKindCode(t *testing.T) {
	t.Parallel()
	want := map[llm.Kind]int{
		llm.Auth: exitAuth, llm.Permission: exitAuth, llm.Billing: exitAuth, llm.Configuration: exitConfig,
		llm.Connection: exitUnavailable, llm.Timeout: exitUnavailable, llm.RateLimited: exitUnavailable,
		llm.Overloaded: exitUnavailable, llm.ServerError: exitUnavailable, llm.StreamTruncated: exitUnavailable,
		llm.NotFound: exitFailure, llm.InvalidRequest: exitFailure, llm.UnsupportedParam: exitFailure,
		llm.UnsupportedImage: exitFailure, llm.ContextLength: exitFailure, llm.ContentFilter: exitFailure,
		llm.Refused: exitFailure, llm.Empty: exitFailure, llm.BudgetExceeded: exitFailure, "": exitFailure,
	}
	for _, k := range llm.Kinds() {
		if _, ok := want[k]; !ok {
			t.Errorf("no code is expected for kind %q", k)
		}
	}
	for k, code := range want {
		if got := kindCode(k); got != code {
			t.Errorf("kindCode(%q) = %d, want %d", k, got, code)
		}
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"usage", usageError{errors.New("x")}, exitUsage},
		{"told already", failure{exitConfig}, exitConfig},
		{"configuration", fmt.Errorf("load: %w", &config.Error{Kind: config.InvalidJSON}), exitConfig},
		{"session in use", fmt.Errorf("open: %w", &session.BusyError{}), exitUnavailable},
		{"turn", turnError{"no", llm.Auth}, exitAuth},
		{"model", fmt.Errorf("ask: %w", &llm.Error{Kind: llm.Configuration}), exitConfig},
		{"stopped", fmt.Errorf("ask: %w", nanobot.ErrStopped), exitInterrupted},
		{"interrupted", context.Canceled, exitInterrupted},
		{"anything else", fs.ErrPermission, exitFailure},
	}
	for _, tt := range tests {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%s: exitCode(%v) = %d, want %d", tt.name, tt.err, got, tt.want)
		}
	}
}

// A failed turn never looks like an answer, and nothing else is changed.
func TestFailing(t *testing.T) {
	t.Parallel()
	script := []bus.Outbound{
		{Kind: bus.Notice, Text: "n"},
		{Kind: bus.Final, Text: "sorry", Turn: &bus.Turn{Error: "sorry", ErrorKind: string(llm.Billing)}},
	}
	ask := failing(func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error] {
		return func(yield func(bus.Outbound, error) bool) {
			for _, o := range script {
				if !yield(o, nil) {
					return
				}
			}
		}
	})
	var kinds []string
	var last error
	for out, err := range ask(t.Context(), bus.Inbound{}) {
		kinds, last = append(kinds, string(out.Kind)), err
	}
	if got, want := strings.Join(kinds, ","), "notice,"; got != want {
		t.Errorf("kinds %q, want %q", got, want)
	}
	if got := exitCode(last); got != exitAuth || last.Error() != "sorry" {
		t.Errorf("error %v with code %d, want sorry with %d", last, got, exitAuth)
	}
}

// Every command says what it does, shows an example and explains its flags.
func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	c := newProgram(Stdio{}, "", "")
	root := c.root(nil)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > 64 {
			t.Errorf("%s: short help %q", path, cmd.Short)
		}
		if cmd.Example == "" && !strings.HasPrefix(path, "nanobot completion ") {
			t.Errorf("%s: no example", path)
		}
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
			if len([]rune(line)) > 84 && !strings.HasPrefix(path, "nanobot completion ") {
				t.Errorf("%s: line too long for a terminal: %q", path, line)
			}
		}
		var b strings.Builder
		writeHelp(&b, cmd)
		if got := b.String(); !strings.Contains(got, "Usage:\n  nanobot") || strings.Contains(got, "\n\n\n") {
			t.Errorf("%s: help is malformed:\n%s", path, got)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// A command that is named first is made alone, and is what it is in the whole
// tree.
func TestCommandAlone(t *testing.T) {
	t.Parallel()
	help := func(root *cobra.Command, name string) string {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		writeHelp(&b, cmd)
		return b.String()
	}
	c := newProgram(Stdio{}, "", "")
	whole := c.root(nil)
	for _, e := range c.nouns() {
		alone := c.root([]string{e.name, "x"})
		want := append([]string{e.name}, e.build().Aliases...)
		if e.build().Hidden { // for those who know it
			want = nil
		}
		if got := names(alone); !slices.Equal(got, want) {
			t.Errorf("%s: got the commands %q, want %q", e.name, got, want)
			continue
		}
		if got, want := help(alone, e.name), help(whole, e.name); got != want {
			t.Errorf("%s: got the help\n%s\nwant\n%s", e.name, got, want)
		}
	}
	for _, args := range [][]string{{}, {"--logs", "agent"}, {"help"}, {"models2"}, {"__complete", ""}} {
		if got, want := len(names(c.root(args))), len(names(whole)); got != want {
			t.Errorf("%q: got %d commands, want %d", args, got, want)
		}
	}
}

func TestPrompter(t *testing.T) {
	t.Parallel()
	if got, want := label("Model", "m"), "Model [m]: "; got != want {
		t.Errorf("label = %q, want %q", got, want)
	}
	if got, want := label("Model", ""), "Model: "; got != want {
		t.Errorf("label = %q, want %q", got, want)
	}
	if _, err := readQuestion(strings.NewReader(" \n")); exitCode(err) != exitUsage {
		t.Errorf("an empty question: %v", err)
	}
	if _, err := readQuestion(io.LimitReader(zeros{}, 11<<20)); exitCode(err) != exitUsage {
		t.Errorf("a huge question: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A call with a mistake in it says what the mistake is, and fails.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"agnet", "-m", "hi"}, `unknown command "agnet" for nanobot; did you mean nanobot agent?`},
		{[]string{"nosuch", "--help"}, `unknown command "nosuch" for nanobot`},
		{[]string{"config", "nosuch", "--help"}, `unknown command "nosuch" for nanobot config`},
		{[]string{"help", "nosuch"}, `unknown command "nosuch"`},
		{[]string{"agent", "--nosuch"}, "unknown flag: --nosuch"},
		{[]string{"agent", "-m", ""}, "the message is empty"},
		{[]string{"agent", " "}, "the message is empty"},
		{[]string{"agent", "-m", " ", "--json"}, "the message is empty"},
	} {
		dir := t.TempDir()
		file := func(name string) *os.File {
			f, err := os.Create(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		io := Stdio{In: file("in"), Out: file("out"), Err: file("err"), Env: []string{"HOME=" + dir, "NANOBOT_HOME=" + dir}}
		code := Main(t.Context(), c.args, io)
		said, err := os.ReadFile(io.Err.Name())
		if err != nil {
			t.Fatal(err)
		}
		if code != exitUsage || !strings.Contains(string(said), c.want) {
			t.Errorf("%q: code %d, %q; want %d, %q", c.args, code, said, exitUsage, c.want)
		}
		if out, err := os.ReadFile(io.Out.Name()); err != nil || len(out) > 0 {
			t.Errorf("%q: standard output %q, %v", c.args, out, err)
		}
	}
}
