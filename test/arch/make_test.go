package arch_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each target of the Makefile says what it does, for make help, and each target
// that a page names exists.
func TestMakeTargets(t *testing.T) {
	makefile := string(readFile(t, "Makefile"))
	var described []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):.*## .`).FindAllStringSubmatch(makefile, -1) {
		described = append(described, m[1])
	}
	phony := regexp.MustCompile(`(?m)^\.PHONY: (.*)$`).FindStringSubmatch(makefile)
	if phony == nil {
		t.Fatal("the Makefile lists no targets")
	}
	for target := range strings.FieldsSeq(phony[1]) {
		if !slices.Contains(described, target) {
			t.Errorf("make %s has no text for make help", target)
		}
	}

	call := regexp.MustCompile("(?m)(?:`|^ *|\\$ )make ([a-z][a-z-]*)")
	calls := 0
	for _, page := range append(documentPages(t), "README.md", "README.zh-CN.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/changes/README.md") {
		for _, m := range call.FindAllStringSubmatch(codeOf(string(readFile(t, page))), -1) {
			calls++
			if !slices.Contains(described, m[1]) {
				t.Errorf("%s: there is no make %s", page, m[1])
			}
		}
	}
	if calls < 30 {
		t.Errorf("only %d calls of make were found", calls)
	}
}

// codeOf is what a page shows as code, a line for each piece.
func codeOf(page string) string {
	var out strings.Builder
	block := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
			continue
		}
		if block {
			out.WriteString(line)
			continue
		}
		for _, m := range regexp.MustCompile("`[^`]+`").FindAllString(line, -1) {
			out.WriteString(m + "\n")
		}
	}
	return out.String()
}
