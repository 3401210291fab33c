package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// fresh is a new home and an empty folder in it, with nothing configured.
func fresh(t *testing.T) (run func(script string) (stdout, all string)) {
	t.Helper()
	home := t.TempDir()
	dir := filepath.Join(home, "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return func(script string) (string, string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", script)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb", "GORACE=atexit_sleep_ms=0"}
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v\n%s%s", script, err, out.String(), errs.String())
		}
		return out.String(), out.String() + errs.String()
	}
}

// needsDemo ends tests that cannot see the demo model: a model server runs on
// this machine, or there is no shell for the examples.
func needsDemo(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" || !noLocalServer() {
		t.Skip("the demo model does not answer here, or there is no shell")
	}
}

// What the demo model proposes works in a new, empty place, and none of its
// answers shows a text that is meant for a model.
func TestDemoSuggestions(t *testing.T) {
	t.Parallel()
	needsDemo(t)
	run := fresh(t)
	for _, question := range []string{"what can you do?", "你能做什么？"} {
		said, _ := run("nanobot agent -m '" + question + "'")
		proposed := regexp.MustCompile(`(?m)^- (.+)$`).FindAllStringSubmatch(said, -1)
		if len(proposed) < 4 {
			t.Fatalf("%q: %q proposes %d things", question, said, len(proposed))
		}
		for _, p := range proposed {
			answer, _ := run("nanobot agent -m '" + p[1] + "'")
			for _, bad := range []string{"did not work", "没有成功", "not available", "Error", "Exit code", "[", "1| ", "End of file"} {
				if strings.Contains(answer, bad) {
					t.Errorf("%s: the answer contains %q:\n%s", p[1], bad, answer)
				}
			}
		}
	}
	for _, wrong := range []string{"read nosuch.txt", "read /etc/hostname", "list files in nosuch", "search for x in nosuch", "run `ls nosuch`"} {
		answer, _ := run("nanobot agent -m '" + wrong + "'")
		for _, bad := range []string{"Error:", "[", "ask the user", "try a different", "STDERR"} {
			if strings.Contains(answer, bad) {
				t.Errorf("%s: the answer contains %q:\n%s", wrong, bad, answer)
			}
		}
	}
}

// The examples of the READMEs and of the pages for a first look, which need no
// account, run as they are written.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	needsDemo(t)
	block := regexp.MustCompile("(?s)\n```sh\n(.*?)\n```")
	example := regexp.MustCompile(`nanobot agent -m|^nanobot status$|^nanobot undo`)
	ran := 0
	for _, file := range []string{"README.md", "README.zh-CN.md", "docs/tutorial/first-chat.md", "docs/reference/demo.md"} {
		page, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		run := fresh(t)
		for _, m := range block.FindAllStringSubmatch(string(page), -1) {
			for line := range strings.SplitSeq(m[1], "\n") {
				line = strings.TrimSpace(regexp.MustCompile(`\s#.*$`).ReplaceAllString(line, ""))
				line = strings.Replace(line, "go run ./cmd/nanobot", "nanobot", 1)
				if !example.MatchString(line) {
					continue
				}
				ran++
				// git is not there in every environment, nor a repository
				if out, all := run("git() { echo a difference; }; " + line); strings.TrimSpace(out) == "" || strings.Contains(out, "did not work") || strings.Contains(out, "没有成功") {
					t.Errorf("%s: %s:\n%s", file, line, all)
				}
			}
		}
	}
	if ran < 16 {
		t.Errorf("only %d examples ran", ran)
	}
}
