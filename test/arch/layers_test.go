package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nanobot-go/nanobot"

// floors are the folders below internal/, the lowest first, with the Go library at
// the root below the command line that uses it. A package imports only its own floor
// and those below. The order is policy: it changes in a commit of its own with a
// decision record, never to make a build pass.
var floors = []string{"base", "bus", "llm", "tool", "guard", "core", "chat", "web", "run", library, "cli"}

const library = "."

// denied edges are forbidden although the floors would allow them. A package may
// always use packages below its own folder.
var denied = []string{
	// A platform translates; it knows no agent, no model and no tool.
	"internal/chat/** -> internal/llm/**",
	"internal/chat/** -> internal/tool/**",
	"internal/chat/** -> internal/guard/**",
	"internal/chat/** -> internal/core/**",
	// Who may talk to us is decided without a word of platforms; what platforms share
	// and what delivers for them do not know each other.
	"internal/chat/access -> internal/chat/**",
	"internal/chat/kit -> internal/chat/deliver",
	"internal/chat/deliver -> internal/chat/kit",
	"internal/chat/platform/** -> internal/chat/deliver",
	// What a message meets knows models and tools by their contracts alone.
	"internal/core/** -> internal/llm/*",
	"internal/core/** -> internal/tool/*",
	// Pages and programs reach the agent through what the gateway hands them.
	"internal/web/** -> internal/core/agent/**",
	"internal/web/** -> internal/core/turn/**",
	// Drivers of one kind never know each other.
	"internal/chat/platform/* -> internal/chat/platform/*",
	"internal/llm/* -> internal/llm/*",
	"internal/tool/* -> internal/tool/*",
	"internal/web/api -> internal/web/socket",
	"internal/web/socket -> internal/web/api",
	"internal/web/subject -> internal/web/api",
	"internal/web/subject -> internal/web/socket",
	"internal/web/api -> internal/web/subject",
	"internal/web/socket -> internal/web/subject",
}

// granted edges are legal although a pattern in denied names them: what drivers of
// models share, and the table of models.
var granted = []string{
	"internal/llm/* -> internal/llm/wire",
	"internal/llm/signin -> internal/llm/catalog",
	"internal/llm/trial -> internal/llm/catalog",
}

const vague = "util utils common helper helpers base types interfaces adapters models manager constants"

// glob matches a path with a pattern of package path; a /** at its end stands for
// the folder itself and all below it.
func glob(pattern, s string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/**"); ok {
		return s == folder || strings.HasPrefix(s, folder+"/")
	}
	ok, _ := path.Match(pattern, s)
	return ok
}

func isInit(d ast.Decl) bool {
	fn, ok := d.(*ast.FuncDecl)
	return ok && fn.Recv == nil && fn.Name.Name == "init"
}

// rank is the height of a package: its floor, then the programs and the tests of the
// whole. It is -1 for a folder that has no place.
func rank(pkg string) int {
	first, rest, _ := strings.Cut(pkg, "/")
	switch first {
	case "internal":
		floor, _, _ := strings.Cut(rest, "/")
		return slices.Index(floors, floor)
	case library:
		return slices.Index(floors, library)
	case "cmd":
		return len(floors)
	case "test":
		return len(floors) + 1
	}
	return -1
}

// isTestHelper reports whether a package is for tests: its folder, or one above it,
// ends with test.
func isTestHelper(pkg string) bool {
	return slices.ContainsFunc(strings.Split(pkg, "/"), func(part string) bool { return part != "test" && strings.HasSuffix(part, "test") })
}

func matches(patterns []string, from, to string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		a, b, _ := strings.Cut(p, " -> ")
		return glob(a, from) && glob(b, to)
	})
}

// legal reports whether a package may import another one.
func legal(from, to string) bool {
	switch {
	case rank(from) < 0, rank(to) < 0:
		return false
	case rank(to) > rank(from):
		return false
	case strings.HasPrefix(to, from+"/"): // parts of its own folder
		return true
	}
	return !matches(denied, from, to) || matches(granted, from, to)
}

func TestArchitecture(t *testing.T) {
	fset := token.NewFileSet()
	documented := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (d.Name()[0] == '.' || d.Name() == "testdata" || file == "web" || file == "tools" || file == "test/bench"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(file))
		documented[pkg] = documented[pkg] || f.Doc != nil
		check := func(ok bool, why string) {
			if !ok {
				t.Errorf("%s: %s", file, why)
			}
		}
		check(rank(pkg) >= 0, "package is on no floor")
		check(!slices.Contains(strings.Fields(vague), path.Base(pkg)), "package name says nothing")
		check(ast.IsGenerated(f) || fset.Position(f.FileEnd).Line <= 800, "over 800 lines")
		check(!slices.ContainsFunc(f.Decls, isInit), "func init")
		for _, imp := range f.Imports {
			dep, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module)
			if dep = strings.TrimPrefix(dep, "/"); dep == "" {
				dep = "."
			}
			if ours && !isTestHelper(pkg) {
				edge := pkg + " -> " + dep
				check(!isTestHelper(dep), edge+": test helper in product code")
				check(legal(pkg, dep), edge+": runs up, or is denied")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("%s: no package comment", pkg)
		}
	}
}

// The checker itself must be able to fail.
func TestArchitectureRules(t *testing.T) {
	for _, c := range []struct {
		from, to string
		legal    bool
	}{
		{"internal/core/agent", "internal/core/runner", true},
		{"internal/core/agent", "internal/guard", true},
		{"internal/guard", "internal/core/agent", false},
		{"internal/core/agent", "internal/llm", true},
		{"internal/core/agent", "internal/llm/openai", false},
		{"internal/core/turn/subagent", "internal/tool/shell", false},
		{"internal/tool/files", "internal/tool/shell", false},
		{"internal/tool/files", "internal/run/config", false},
		{"internal/llm/openai", "internal/llm/wire", true},
		{"internal/llm/openai", "internal/llm/anthropic", false},
		{"internal/chat/platform/telegram", "internal/chat", true},
		{"internal/chat/platform/telegram", "internal/chat/platform/slack", false},
		{"internal/chat/platform/telegram", "internal/core/agent", false},
		{"internal/chat", "internal/llm", false},
		{"internal/chat", "internal/chat/access", true},
		{"internal/chat/access", "internal/chat", false},
		{"internal/chat/deliver", "internal/chat/access", true},
		{"internal/chat/deliver", "internal/chat/kit", false},
		{"internal/chat/platform/telegram", "internal/chat/kit", true},
		{"internal/chat/platform/telegram", "internal/chat/deliver", false},
		{"internal/web", "internal/core/session", true},
		{"internal/web", "internal/core/agent", false},
		{"internal/web/socket", "internal/run/config", false},
		{"internal/web/subject", "internal/web", true},
		{"internal/web/subject", "internal/web/socket", false},
		{"internal/web/socket", "internal/web/subject", false},
		{"internal/run/settings", "internal/run/config", true},
		{"internal/run/app", "internal/llm/openai", true},
		{"internal/base/text", "internal/bus", false},
		{"internal/mystery", "internal/llm", false},
		{"cmd/nanobot", "internal/cli", true},
		{"internal/cli", ".", true},
		{"internal/run/gateway", ".", false},
	} {
		if got := legal(c.from, c.to); got != c.legal {
			t.Errorf("%s -> %s: legal = %v, want %v", c.from, c.to, got, c.legal)
		}
	}
}
