// Command commitmsg checks the message of a commit before git makes it. The hook
// tools/commit-msg calls it with the file that holds the message.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxSubject  = 72 // characters
	bodyFrom    = 30 // changed lines; more of them need a body
	verbsFile   = "tools/commitmsg/verbs.txt"
	exampleLine = `"sandbox: freeze the workspace when a turn ends"`
)

//go:embed verbs.txt
var verbs string

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: commitmsg FILE")
		os.Exit(2)
	}
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the commit message:", err)
		os.Exit(2)
	}
	changed, err := staged()
	if err != nil {
		fmt.Fprintln(os.Stderr, "count the staged lines:", err)
		os.Exit(2)
	}
	if changed.merge {
		return
	}

	problems := check(string(raw), changed.lines)
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "commit message: "+p)
	}
	if len(problems) > 0 {
		fmt.Fprintf(os.Stderr, "Example of a subject: %s. The rules are in CONTRIBUTING.md.\n", exampleLine)
		os.Exit(1)
	}
}

type change struct {
	lines int  // added and removed
	merge bool // the commit ends a merge
}

// staged reads what the commit will contain. It runs in the folder where git
// starts hooks, to which GIT_INDEX_FILE may be relative.
func staged() (change, error) {
	if exec.Command("git", "rev-parse", "-q", "--verify", "MERGE_HEAD").Run() == nil {
		return change{merge: true}, nil
	}
	out, err := exec.Command("git", "diff", "--cached", "--numstat").Output()
	if err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("git diff: %w: %s", err, e.Stderr)
		}
		return change{}, err
	}
	return change{lines: sum(string(out))}, nil
}

// sum adds up the output of git diff --numstat. Binary files have "-" and count
// as nothing.
func sum(numstat string) int {
	total := 0
	for line := range strings.Lines(numstat) {
		for _, field := range strings.SplitN(line, "\t", 3)[:min(2, strings.Count(line, "\t"))] {
			if n, err := strconv.Atoi(field); err == nil {
				total += n
			}
		}
	}
	return total
}

var (
	subjectForm = regexp.MustCompile(`^[\w./*-]+(?:, ?[\w./*-]+)*: (.*)$`)
	trailer     = regexp.MustCompile(`^[A-Z][A-Za-z]*(?:-[A-Za-z]+)+: `)
)

// check says what is wrong with a message for a commit that changes so many lines.
func check(message string, lines int) (problems []string) {
	text := visible(message)
	if len(text) == 0 {
		return nil // git itself refuses an empty message
	}
	subject := text[0]
	if exempt(subject) {
		return nil
	}

	if n := utf8.RuneCountInString(subject); n > maxSubject {
		problems = append(problems, fmt.Sprintf("the subject has %d characters; shorten it to %d and put the rest into the body.", n, maxSubject))
	}
	if strings.HasSuffix(subject, ".") {
		problems = append(problems, "the subject ends with a full stop; remove it.")
	}
	if m := subjectForm.FindStringSubmatch(subject); m == nil {
		problems = append(problems, `the subject has no area; begin with the package and a colon, separate several with commas.`)
	} else if why := badVerb(m[1]); why != "" {
		problems = append(problems, why)
	}
	if len(text) > 1 && text[1] != "" {
		problems = append(problems, "the second line is not empty; separate the subject from the body.")
	}
	if lines > bodyFrom && !hasBody(text[1:]) {
		problems = append(problems, fmt.Sprintf("the commit changes %d lines and has no body; say why, and what you measured.", lines))
	}
	return problems
}

// exempt reports whether git or a later rebase wrote the subject.
func exempt(subject string) bool {
	return slices.ContainsFunc([]string{"Merge ", `Revert "`, `Reapply "`, "fixup! ", "squash! ", "amend! "},
		func(p string) bool { return strings.HasPrefix(subject, p) })
}

// visible is a message as git will store it: without comments, without what
// follows the scissors, without empty lines at its beginning.
func visible(message string) (out []string) {
	for line := range strings.Lines(message) {
		line = strings.TrimRight(line, " \t\r\n")
		if strings.HasPrefix(line, "# ---") && strings.Contains(line, ">8") {
			break
		}
		if strings.HasPrefix(line, "#") || line == "" && len(out) == 0 {
			continue
		}
		out = append(out, line)
	}
	return out
}

func hasBody(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return l != "" && !trailer.MatchString(l) })
}

// badVerb says what is wrong with the first word behind the area.
func badVerb(rest string) string {
	word, _, more := strings.Cut(strings.TrimSpace(rest), " ")
	known := strings.Fields(verbs)
	switch {
	case !slices.Contains(known, word):
		hint := "begin with a verb"
		if base := imperative(word, known); base != "" {
			hint = fmt.Sprintf("write %q", base)
		}
		return fmt.Sprintf("%q is not a verb in the imperative that this check knows: %s, or add the verb to %s.", word, hint, verbsFile)
	case !more:
		return fmt.Sprintf("%q stands alone; say what the commit changes.", word)
	}
	return ""
}

// imperative is the known verb of which a word is another form, or "".
func imperative(word string, known []string) string {
	word = strings.ToLower(word)
	stems := []string{word}
	for _, end := range []string{"s", "es", "d", "ed", "ing"} {
		if stem, ok := strings.CutSuffix(word, end); ok && stem != "" {
			stems = append(stems, stem, stem+"e", stem[:len(stem)-1])
		}
	}
	for _, stem := range stems {
		if slices.Contains(known, stem) {
			return stem
		}
	}
	return ""
}
