package arch_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

var update = flag.Bool("update", false, "rewrite generated documents")

const (
	configPage   = "docs/reference/configuration.md"
	configSchema = "docs/reference/config.schema.json"
	tableEnd     = "<!-- end generated table -->\n"
)

// object is a JSON object that remembers the order of its members.
type object struct {
	names  []string
	values map[string]json.RawMessage
}

func (o *object) UnmarshalJSON(b []byte) error {
	o.names, o.values = nil, map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &o.values); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return err
		}
		o.names = append(o.names, fmt.Sprint(name))
	}
	return nil
}

// schema is the part of JSON Schema that the table shows.
type schema struct {
	Description string          `json:"description"`
	Type        []string        `json:"type"`
	Properties  object          `json:"properties"`
	Additional  json.RawMessage `json:"additionalProperties"`
	Items       *schema         `json:"items"`
	Enum        []any           `json:"enum"`
	Default     json.RawMessage `json:"default"`
	Secret      bool            `json:"writeOnly"`
}

// rows lists the settings below path, one table row each. What every entry of a
// map has is listed once, as NAME.
func (s schema) rows(t *testing.T, path string) []string {
	t.Helper()
	var each schema
	open := len(s.Additional) > 0 && s.Additional[0] == '{' && json.Unmarshal(s.Additional, &each) == nil && len(each.Properties.names) > 0
	var out []string
	for _, name := range s.Properties.names {
		if name == "$schema" {
			continue
		}
		var sub schema
		if err := json.Unmarshal(s.Properties.values[name], &sub); err != nil {
			t.Fatalf("%s.%s: %v", path, name, err)
		}
		if open {
			sub.Properties.names = slices.DeleteFunc(sub.Properties.names, func(key string) bool {
				return each.Properties.values[key] != nil && compact(sub.Properties.values[key]) == compact(each.Properties.values[key])
			})
		}
		out = append(out, sub.rows(t, strings.TrimPrefix(path+"."+name, "."))...)
	}
	if open {
		out = append(out, each.rows(t, path+".<name>")...)
	}
	if len(out) > 0 {
		return out
	}
	return []string{fmt.Sprintf("| `%s` | %s | %s | %s |\n", path, s.kind(), s.value(), strings.ReplaceAll(s.Description, "|", `\|`))}
}

func compact(v json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, v) != nil {
		return string(v)
	}
	return out.String()
}

func (s schema) kind() string {
	if s.Secret {
		return "secret"
	}
	if len(s.Enum) > 0 {
		var words []string
		for _, v := range s.Enum {
			if v != nil && v != "" {
				words = append(words, fmt.Sprintf("`%v`", v))
			}
		}
		return strings.Join(words, ", ")
	}
	kinds := slices.DeleteFunc(slices.Clone(s.Type), func(k string) bool { return k == "null" })
	if s.Items != nil && len(kinds) == 1 {
		return "list"
	}
	if len(kinds) == 0 {
		return "any"
	}
	return strings.Join(kinds, " or ")
}

func (s schema) value() string {
	if len(s.Default) == 0 {
		return ""
	}
	return "`" + strings.ReplaceAll(compact(s.Default), "|", `\|`) + "`"
}

// The reference must tell of every setting, as the program knows it today.
func TestConfigReference(t *testing.T) {
	var root schema
	if err := json.Unmarshal(config.Schema(gateway.Sections(nil)), &root); err != nil {
		t.Fatal(err)
	}
	compareTable(t, "make docs", configPage, "| Setting | Type | Default | Meaning |\n| --- | --- | --- | --- |\n"+strings.Join(root.rows(t, ""), ""))
	compareDocument(t, "make docs", configSchema, string(config.Schema(gateway.Sections(nil))))
}

// compareTable compares the generated part of a page, which the command rewrites.
func compareTable(t *testing.T, command, file, table string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin := "<!-- begin generated table: " + command + " -->\n"
	head, rest, ok1 := strings.Cut(string(page), begin)
	_, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has lost the marks around its table", file)
	}
	compareDocument(t, command, file, head+begin+table+tableEnd+tail)
}

func compareDocument(t *testing.T, command, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("%s is stale; run %s (-want +got):\n%s", file, command, d)
	}
}

// documentPages lists the pages below docs/ without decision records and changes. A page
// that moves must not leave a test that reads them all without it, so there are
// at least as many as there were.
func documentPages(t *testing.T) []string {
	t.Helper()
	var pages []string
	err := filepath.WalkDir("docs", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "decisions" || d.Name() == "changes"):
			return fs.SkipDir
		case filepath.Ext(file) == ".md":
			pages = append(pages, filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 60 {
		t.Fatalf("only %d pages were found below docs", len(pages))
	}
	return pages
}

var pageLink = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)

// A link inside the repository must lead somewhere: to a file or folder, and to
// a heading if it names one.
func TestDocumentLinks(t *testing.T) {
	links, anchors := 0, map[string]map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (d.Name()[0] == '.' || d.Name() == "testdata" || d.Name() == "node_modules" || file == "internal"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md":
			return nil
		}
		body, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range pageLink.FindAllStringSubmatch(string(body), -1) {
			if strings.Contains(m[1], "://") || m[1]+m[2] == "" {
				continue
			}
			links++
			to := file
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: link to %s leads nowhere", file, m[1])
				continue
			}
			if m[2] == "" || filepath.Ext(to) != ".md" {
				continue
			}
			if anchors[to] == nil {
				anchors[to] = headingsOf(t, to)
			}
			if !anchors[to][m[2][1:]] {
				t.Errorf("%s: %s has no heading %s", file, to, m[2])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if links < 450 {
		t.Errorf("only %d links were found", links)
	}
}

// headingsOf are the anchors of a page, as code hosts make them of headings.
func headingsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	block := false
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
		}
		if title := strings.TrimLeft(line, "#"); !block && title != line && strings.HasPrefix(title, " ") {
			out[anchorOf(strings.TrimSpace(title))] = true
		}
	}
	return out
}

// anchorOf keeps letters, digits, hyphens and underscores, small, and makes
// hyphens of spaces.
func anchorOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// Each page below docs is in the index of docs, or, as a page of a chat platform,
// in the index of the platforms.
func TestPagesAreInTheIndex(t *testing.T) {
	const index, platforms = "docs/README.md", "docs/how-to/channels/README.md"
	named := map[string]bool{index: true}
	for _, file := range []string{index, platforms} {
		for _, m := range pageLink.FindAllStringSubmatch(string(readFile(t, file)), -1) {
			if to := filepath.ToSlash(filepath.Join(filepath.Dir(file), m[1])); m[1] != "" && (file == index || filepath.Dir(to) == filepath.Dir(file)) {
				named[to] = true
			}
		}
	}
	for _, page := range documentPages(t) {
		if !named[page] {
			t.Errorf("%s is in no index: add it to %s", page, index)
		}
	}
}

// What docs/troubleshooting.md quotes is what the program says: a quotation in
// the first column of a table "It says" stands in the source.
func TestTroubleshootingQuotes(t *testing.T) {
	var sources bytes.Buffer
	for _, dir := range []string{"internal", "web/src"} {
		err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			if ext := filepath.Ext(file); ext == ".go" || ext == ".ts" {
				sources.Write(readFile(t, file))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	says, seen := false, 0
	for line := range strings.Lines(string(readFile(t, "docs/troubleshooting.md"))) {
		switch {
		case !strings.HasPrefix(line, "|"):
			says = false
		case strings.HasPrefix(line, "| It says "):
			says = true
		case says:
			cell, _, _ := strings.Cut(line[1:], "|")
			for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
				seen++
				if !bytes.Contains(sources.Bytes(), []byte(m[1])) {
					t.Errorf("docs/troubleshooting.md quotes %q, which the program does not say", m[1])
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d quotations were found", seen)
	}
}

// The page about the data folder has every row of the table.
func TestDataFolderPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| Name | Holds | Backup | Tools may | If it is lost |\n| --- | --- | --- | --- | --- |\n")
	for _, e := range datadir.Data() {
		name := string(e.Name)
		if e.Folder {
			name += "/"
		}
		lost := "restore it from a backup"
		switch {
		case e.Derived:
			lost = "made again"
		case e.Backup == datadir.Never:
			lost = "gone"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, e.Holds, or(string(e.Backup), "no"), or(string(e.Access), "not touch it"), lost)
	}
	compareTable(t, "make docs", "docs/reference/data-folder.md", b.String())
}

func or(text, empty string) string {
	if text == "" {
		return empty
	}
	return text
}

// TestPromises compares docs/reference/promises.md with the tests: each row names at least one
// that exists.
func TestPromises(t *testing.T) {
	const page = "docs/reference/promises.md"
	body, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([\\w/]+): ([\\w.]+)`")
	rows := 0
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| Promise ") {
			continue
		}
		rows++
		held := named.FindAllStringSubmatch(line, -1)
		if len(held) == 0 {
			t.Errorf("%s: no test holds this promise: %s", page, line)
		}
		for _, m := range held {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s: there is no test %s in %s", page, m[2], m[1])
			}
		}
	}
	if rows < 40 {
		t.Errorf("%s has %d promises; they cannot be read", page, rows)
	}
}

// hasTest reports whether a folder has a test function, or a file, of that name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	if strings.Contains(name, ".") {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(body, []byte("\nfunc "+name+"(")) {
			return true
		}
	}
	return false
}
