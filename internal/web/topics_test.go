package web_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/web"
)

// Every topic can be subscribed to, the pages do so, and the reference names it. The
// gateway ignores topics that are not in Topics, so a page would wait for ever.
func TestTopics(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages := filepath.Join(root, "web", "src", "state", "read.ts")
	reference := filepath.Join(root, "docs", "reference", "websocket.md")

	want := slices.Sorted(slices.Values(declaredTopics(t)))
	for where, got := range map[string][]string{
		"Topics() in internal/web/topics.go":           web.Topics(),
		"topics in web/src/state/read.ts":              quoted(t, pages, `(?s)export const topics = \[(.*?)\]`, `"(\w+)"`),
		"the paragraph in docs/reference/websocket.md": quoted(t, reference, `what happens outside of its chats: ([^.]*)\.`, "`(\\w+)`"),
	} {
		for _, topic := range want {
			if !slices.Contains(got, topic) {
				t.Errorf("%s: add the topic %q", where, topic)
			}
		}
		for _, topic := range got {
			if !slices.Contains(want, topic) {
				t.Errorf("%s: remove %q, or declare a constant Topic... for it in internal/web/topics.go", where, topic)
			}
		}
	}
}

// declaredTopics returns the values of the constants whose names begin with Topic.
func declaredTopics(t *testing.T) (topics []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "topics.go", nil, parser.SkipObjectResolution)
	must(t, err)

	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Topic") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is not a string literal", spec.Names[0].Name)
		}
		topic, err := strconv.Unquote(literal.Value)
		must(t, err)
		topics = append(topics, topic)
		return true
	})
	return topics
}

// quoted returns the names in the part of a file that the first pattern finds.
func quoted(t *testing.T, path, part, name string) (names []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)

	found := regexp.MustCompile(part).FindSubmatch(data)
	if found == nil {
		t.Fatalf("%s: nothing matches %s; correct the pattern in this test", path, part)
	}
	for _, m := range regexp.MustCompile(name).FindAllSubmatch(found[1], -1) {
		names = append(names, string(m[1]))
	}
	return names
}
