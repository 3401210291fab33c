package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	long := "agent: keep " + strings.Repeat("x", 60) // 72 characters
	for name, c := range map[string]struct {
		message string
		lines   int
		want    []string // parts of the problems, in order
	}{
		"small change":          {"agent: keep the receipts of a turn\n", 30, nil},
		"large with body":       {"agent: keep the receipts\n\nThey are needed.\n", 31, nil},
		"large without body":    {"agent: keep the receipts\n", 31, []string{"31 lines and has no body"}},
		"only a trailer":        {"agent: keep it all\n\nSigned-off-by: A <a@b.c>\n", 31, []string{"no body"}},
		"only comments":         {"agent: keep it all\n\n# Please enter the message\n", 31, []string{"no body"}},
		"text behind scissors":  {"agent: keep it all\n\n# ---- >8 ----\n# no\ndiff --git a b\n", 31, []string{"no body"}},
		"several areas":         {"agent,runner: end a turn that repeats itself\n", 1, nil},
		"areas with spaces":     {"agent, llm/wire: end a turn that repeats itself\n", 1, nil},
		"hyphens and stars":     {"commit-msg,internal/*: read .golangci.yml\n", 1, nil},
		"as long as allowed":    {long + "\n", 1, nil},
		"too long":              {long + "x\n", 1, []string{"73 characters"}},
		"characters, not bytes": {"agent: keep " + strings.Repeat("ü", 60) + "\n", 1, nil},
		"full stop":             {"agent: keep the receipts.\n", 1, []string{"full stop"}},
		"no area":               {"keep the receipts\n", 1, []string{"no area"}},
		"no verb":               {"agent: who asks much gets all answers\n", 1, []string{`"who" is not a verb`}},
		"past tense":            {"agent: deleted the rules\n", 1, []string{`write "delete"`}},
		"third person":          {"agent: Stops the turn\n", 1, []string{`write "stop"`}},
		"gerund":                {"agent: running commands\n", 1, []string{`write "run"`}},
		"capital":               {"agent: Delete the rules\n", 1, []string{`write "delete"`}},
		"says how to add one":   {"agent: frobnicate the rules\n", 1, []string{verbsFile}},
		"verb alone":            {"agent: fix\n", 1, []string{"stands alone"}},
		"area alone":            {"agent: \n", 1, []string{"no area"}},
		"body too early":        {"agent: keep it all\nbecause\n", 1, []string{"second line"}},
		"several problems":      {"agent: answers.\n", 40, []string{"full stop", "answers", "no body"}},
		"merge":                 {"Merge branch 'w-misc'\n", 500, nil},
		"revert":                {"Revert \"agent: answers.\"\n\nThis reverts commit 1.\n", 500, nil},
		"fixup":                 {"fixup! agent: keep it all\n", 500, nil},
		"empty":                 {"# nothing\n", 500, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := check(c.message, c.lines)
			if len(got) != len(c.want) {
				t.Fatalf("check = %q, want %d problems", got, len(c.want))
			}
			for i, part := range c.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("problem %d is %q, want %q in it", i, got[i], part)
				}
			}
		})
	}
}

func TestSum(t *testing.T) {
	t.Parallel()
	if n := sum("3\t4\ta.go\n-\t-\tpicture.png\n10\t0\tb\tc.go\n"); n != 17 {
		t.Errorf("sum = %d, want 17", n)
	}
	if n := sum(""); n != 0 {
		t.Errorf("sum of nothing = %d", n)
	}
}

// The list is for people: sorted within its lines, each verb once.
func TestVerbs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for line := range strings.Lines(verbs) {
		words := strings.Fields(line)
		if !slices.IsSorted(words) {
			t.Errorf("not sorted: %s", line)
		}
		for _, w := range words {
			if seen[w] || w != strings.ToLower(w) || w[0] != words[0][0] {
				t.Errorf("%q is listed twice, in the wrong line or not in lower case", w)
			}
			seen[w] = true
		}
	}
	if len(seen) < 150 {
		t.Errorf("only %d verbs", len(seen))
	}
}

// The hook as git runs it: in a repository with the tool, on a commit that is
// too large for its message, on one that is fine, and on a merge.
func TestHook(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) {
		t.Helper()
		if out, err := git(args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, content string) {
		t.Helper()
		at := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	must("init", "-q", "-b", "main")
	write("tools/go.mod", "module tools\n\ngo 1.26\n")
	for from, to := range map[string]string{
		"main.go": "tools/commitmsg/main.go", "verbs.txt": "tools/commitmsg/verbs.txt", "../commit-msg": ".git/hooks/commit-msg",
	} {
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(to, string(raw))
	}
	write("a.txt", strings.Repeat("line\n", 31))
	must("add", "a.txt")
	if out, err := git("commit", "-m", "docs: add lines"); err == nil || !strings.Contains(out, "31 lines and has no body") {
		t.Fatalf("a large commit without a body: %v\n%s", err, out)
	}
	must("commit", "-m", "docs: add lines", "-m", "They are needed.")

	write("b.txt", "b\n")
	must("add", "b.txt")
	if out, err := git("commit", "-m", "docs: words, words"); err == nil || !strings.Contains(out, `"words," is not a verb`) {
		t.Errorf("a subject without a verb: %v\n%s", err, out)
	}
	must("checkout", "-q", "-b", "side")
	must("commit", "-m", "docs: add a word", "b.txt")
	must("checkout", "-q", "main")
	must("merge", "--no-ff", "-m", "words of the side", "side")
	must("revert", "--no-edit", "-m", "1", "HEAD")
}
