package arch_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// changeTitle is the first line of a change.
var changeTitle = regexp.MustCompile(`^# (New|Fixed|Security): .*[^.]$`)

// wrongChange says what is wrong with the text of a change; "" is nothing.
func wrongChange(text string) string {
	title, body, _ := strings.Cut(text, "\n")
	body = strings.TrimSpace(body)
	switch {
	case !changeTitle.MatchString(title):
		return `the first line is not "# New: ", "# Fixed: " or "# Security: " with a title without a full stop`
	case utf8.RuneCountInString(title) > 95:
		return "the title has more than 80 characters"
	case body == "":
		return "it does not say what was and what is now"
	case utf8.RuneCountInString(body) > 600:
		return "it has more than 600 characters"
	}
	return ""
}

// Changes since the last version have the form that docs/changes/README.md describes.
func TestChanges(t *testing.T) {
	files, err := filepath.Glob("docs/changes/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("docs/changes is gone")
	}
	for _, file := range files {
		if filepath.Base(file) == "README.md" {
			continue
		}
		if filepath.Ext(file) != ".md" {
			t.Errorf("%s is not a change: its name does not end in .md", file)
		} else if why := wrongChange(string(readFile(t, file))); why != "" {
			t.Errorf("%s: %s", file, why)
		}
	}
}

// The check itself must be able to fail.
func TestWrongChange(t *testing.T) {
	const good = "# Fixed: an answer shown twice after a reload\n\nIt was shown twice. It is shown once.\n"
	if why := wrongChange(good); why != "" {
		t.Errorf("a good change: %s", why)
	}
	for name, text := range map[string]string{
		"no kind":     strings.Replace(good, "Fixed: ", "", 1),
		"other kind":  strings.Replace(good, "Fixed", "Repaired", 1),
		"full stop":   strings.Replace(good, "reload\n", "reload.\n", 1),
		"long title":  strings.Replace(good, "reload", strings.Repeat("reload ", 10)+"x", 1),
		"no text":     "# New: a page about costs\n",
		"long text":   good + strings.Repeat("and so on ", 60),
		"an old form": "kind: fixed\n\nIt is shown once.\n",
	} {
		if wrongChange(text) == "" {
			t.Errorf("%s: the change is accepted", name)
		}
	}
}
