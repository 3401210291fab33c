// Command changelog joins the changes of docs/changes into the part of
// CHANGELOG.md about one version, and removes their files.
//
//	go run ./changelog -root .. -version 0.2.0
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	root := flag.String("root", ".", "`folder` of the repository")
	version := flag.String("version", "", "the `version`, such as 0.2.0")
	flag.Parse()
	if err := run(*root, *version, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "changelog:", err)
		os.Exit(1)
	}
}

// kinds are the headings of a version, in their order.
var kinds = []string{"New", "Fixed", "Security"}

var (
	form  = regexp.MustCompile(`(?s)^# (New|Fixed|Security): ([^\n]+)\n\n(.+)$`)
	digit = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
)

func run(root, version string, now time.Time) error {
	if !digit.MatchString(version) {
		return fmt.Errorf("the version %q is not three numbers, such as 0.2.0", version)
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "changes", "*.md"))
	if err != nil {
		return err
	}
	entries := map[string]string{}
	var joined []string
	for _, file := range files {
		if filepath.Base(file) == "README.md" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		m := form.FindStringSubmatch(strings.TrimSpace(string(text)))
		if m == nil {
			return fmt.Errorf("%s does not have the form that docs/changes/README.md describes", file)
		}
		body := strings.ReplaceAll(m[3], "\n", "\n  ")
		entries[m[1]] += fmt.Sprintf("- **%s.** %s\n", m[2], body)
		joined = append(joined, file)
	}

	log := filepath.Join(root, "CHANGELOG.md")
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	next, err := insert(string(text), version, now.Format(time.DateOnly), sections(entries))
	if err != nil {
		return err
	}
	if err := os.WriteFile(log, []byte(next), 0o644); err != nil {
		return err
	}
	for _, file := range joined {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}

// sections are the entries below their headings; "" is nothing.
func sections(entries map[string]string) string {
	var out strings.Builder
	for _, kind := range kinds {
		if entries[kind] != "" {
			fmt.Fprintf(&out, "\n### %s\n\n%s", kind, entries[kind])
		}
	}
	return out.String()
}

// insert gives a version its date and adds sections to its end. A version that
// the changelog does not have is put before all others.
func insert(log, version, date, sections string) (string, error) {
	waiting := "## " + version + " (not released yet)\n"
	released := "## " + version + " (" + date + ")\n"
	first := strings.Index(log, "\n## ") + 1
	switch before, part, found := strings.Cut(log, waiting); {
	case found:
		end := len(part)
		if next := strings.Index(part, "\n## "); next >= 0 {
			end = next + 1
		}
		own := strings.TrimRight(part[:end], "\n") + "\n"
		rest := part[end:]
		if rest != "" {
			rest = "\n" + rest
		}
		return before + released + own + sections + rest, nil
	case strings.Contains(log, "\n## "+version+" "):
		return "", fmt.Errorf("version %s is released already", version)
	case sections == "":
		return "", fmt.Errorf("docs/changes has no change for version %s", version)
	case first == 0:
		return "", fmt.Errorf("CHANGELOG.md has no version")
	}
	return log[:first] + released + sections + "\n" + log[first:], nil
}
