package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/shell"
)

// calls finds the calls of the program in a document: lines of code blocks, and
// code in sentences.
func calls(doc string) (list []string) {
	inline := regexp.MustCompile("`(nanobot [^`]+)`")
	block := false
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			block = !block
			continue
		}
		if !block {
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				list = append(list, m[1])
			}
			continue
		}
		for _, part := range regexp.MustCompile(`\s(\||&&|;|#|>)\s`).Split(" "+strings.TrimPrefix(line, "$ "), -1) {
			if part = strings.TrimSpace(part); strings.HasPrefix(part, "nanobot ") {
				list = append(list, part)
			}
		}
	}
	return list
}

// wrong says what is wrong with a call; "" if the program has such a command
// with such flags.
func wrong(call string) string {
	words, err := shell.Fields(call, func(string) string { return "x" })
	if err != nil || len(words) < 2 {
		return "" // not meant for a shell
	}
	words = words[1:]
	if !regexp.MustCompile(`^(-|[a-z])`).MatchString(words[0]) {
		return "" // a stand-in for any command
	}
	c := newProgram(Stdio{}, "", "")
	cmd, rest, err := c.root(words).Find(words)
	if err != nil {
		return err.Error()
	}
	if cmd.HasAvailableSubCommands() && len(rest) > 0 && regexp.MustCompile(`^[a-z][a-z-]+$`).MatchString(rest[0]) {
		return "there is no subcommand " + rest[0]
	}
	for _, word := range rest {
		if word == "--" {
			break
		}
		if name, _, _ := strings.Cut(word, "="); regexp.MustCompile(`^--[a-z]`).MatchString(name) && flagOf(cmd, strings.TrimPrefix(name, "--")) == nil && name != "--help" {
			return cmd.CommandPath() + " has no flag " + name
		}
	}
	return ""
}

func flagOf(cmd *cobra.Command, name string) *pflag.Flag {
	for c := cmd; c != nil; c = c.Parent() {
		if f := c.PersistentFlags().Lookup(name); f != nil {
			return f
		}
	}
	return cmd.Flags().Lookup(name)
}

// Every call of the program that the documents show is one that it knows.
func TestCallsOfTheDocuments(t *testing.T) {
	t.Parallel()
	files := []string{"../../README.md", "../../README.zh-CN.md", "../../CONTRIBUTING.md"}
	err := filepath.WalkDir("../../docs", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "decisions": // records of their time
			return fs.SkipDir
		case filepath.Ext(file) == ".md":
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 64 {
		t.Errorf("only %d pages were found", len(files))
	}
	seen := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls(string(b)) {
			seen++
			if why := wrong(call); why != "" {
				t.Errorf("%s: %s: %s", filepath.Base(file), call, why)
			}
		}
	}
	if seen < 300 {
		t.Errorf("only %d calls were found", seen)
	}
	for _, bad := range []string{"nanobot nosuch", "nanobot cron nosuch", "nanobot agent --nosuch"} {
		if wrong(bad) == "" {
			t.Errorf("%s is taken for a call", bad)
		}
	}
}
