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

// layers is the architecture, lowest line first. A package may import only
// packages on lower lines; packages on one line never import each other; an
// exact name beats a glob. The data is policy: it changes in a commit of its
// own with a decision record, never to make a build pass.
var layers = []string{
	"internal/wait internal/recent internal/phrase internal/winjob test/channels/certify test/program",
	"internal/datadir internal/diskio internal/httpsafe internal/socket internal/text internal/markdown internal/document internal/sandbox",
	"internal/store internal/keyring",
	"internal/oauth",
	"internal/bus internal/llm internal/config internal/daemon internal/gitstore internal/origin internal/store/*",
	"internal/llm/wire",
	"internal/tool internal/llm/catalog internal/llm/chain",
	"internal/bus/* internal/llm/* internal/tool/*",
	"internal/session internal/skill internal/runner internal/change",
	"internal/guard",
	"internal/session/* internal/memory internal/schedule",
	"internal/agent/prompt",
	"internal/agent/*",
	"internal/agent",
	"internal/webui/auth",
	"internal/channel internal/api internal/webui internal/webui/pages internal/tui",
	"internal/channel/* internal/backup internal/provider",
	"internal/app",
	"internal/webui/settings",
	"internal/gateway",
	"internal/doctor",
	".",
	"internal/cli",
	"cmd/*",
}

// denied edges are forbidden although the order would allow them. A package may
// always use the packages below it.
var denied = []string{
	"internal/channel -> internal/agent",
	"internal/channel -> internal/agent/*",
	"internal/channel/* -> internal/agent",
	"internal/channel/* -> internal/agent/*",
	"internal/api -> internal/agent",
	"internal/api -> internal/agent/*",
	"internal/webui -> internal/agent",
	"internal/webui -> internal/agent/*",
	"internal/tui -> internal/agent",
	"internal/tui -> internal/agent/*",
	"internal/agent -> internal/config",
	"internal/memory -> internal/config",
	"internal/schedule -> internal/config",
	"internal/runner -> internal/config",
	"internal/session -> internal/config",
	"internal/skill -> internal/config",
	"internal/tool -> internal/config",
	"internal/*/* -> internal/config",
	"internal/channel -> internal/config",
	"internal/api -> internal/config",
	"internal/agent -> internal/*/*",
	"internal/memory -> internal/*/*",
	"internal/schedule -> internal/*/*",
}

// granted edges are legal although a glob in denied names them: the settings for
// web clients edit the configuration file.
var granted = []string{"internal/webui/settings -> internal/config"}

const vague = "util utils common helper helpers base types interfaces adapters models manager constants"

func glob(pat, s string) bool { ok, _ := path.Match(pat, s); return ok }

func isInit(d ast.Decl) bool {
	fn, ok := d.(*ast.FuncDecl)
	return ok && fn.Recv == nil && fn.Name.Name == "init"
}

// rank is the line that names pkg, else the first line with a matching glob, else -1.
func rank(pkg string) int {
	line := func(same func(pat, pkg string) bool) int {
		return slices.IndexFunc(layers, func(l string) bool {
			return slices.ContainsFunc(strings.Fields(l), func(pat string) bool { return same(pat, pkg) })
		})
	}
	if i := line(func(a, b string) bool { return a == b }); i >= 0 {
		return i
	}
	return line(glob)
}

func deniedEdge(edge string) bool {
	return !slices.Contains(granted, edge) && slices.ContainsFunc(denied, func(p string) bool {
		from, to, _ := strings.Cut(p, " -> ")
		a, b, _ := strings.Cut(edge, " -> ")
		return !strings.HasPrefix(b, a+"/") && glob(from, a) && glob(to, b)
	})
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
		check(rank(pkg) >= 0, "package is in no layer")
		check(!slices.Contains(strings.Fields(vague), path.Base(pkg)), "package name says nothing")
		check(ast.IsGenerated(f) || fset.Position(f.FileEnd).Line <= 800, "over 800 lines")
		check(!slices.ContainsFunc(f.Decls, isInit), "func init")
		for _, imp := range f.Imports {
			dep, ours := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module)
			if dep = strings.TrimPrefix(dep, "/"); dep == "" {
				dep = "."
			}
			if ours && !strings.HasSuffix(pkg, "test") {
				edge := pkg + " -> " + dep
				check(!strings.HasSuffix(dep, "test"), edge+": test helper in product code")
				check(rank(dep) < rank(pkg), edge+": not a lower layer")
				check(!deniedEdge(edge), edge+": denied")
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
		{"internal/agent", "internal/runner", true},
		{"internal/runner", "internal/agent", false},
		{"internal/tool/files", "internal/tool/shell", false},
		{"internal/agent", "internal/llm/openai", false},
		{"internal/agent", "internal/agent/prompt", true},
		{"internal/agent/prompt", "internal/agent", false},
		{"internal/app", "internal/llm/openai", true},
		{"internal/tool/files", "internal/config", false},
		{"internal/webui/settings", "internal/config", true},
		{"internal/channel/telegram", "internal/agent", false},
		{"internal/mystery", "internal/llm", false},
	} {
		ok := rank(c.from) >= 0 && rank(c.to) < rank(c.from) && !deniedEdge(c.from+" -> "+c.to)
		if ok != c.legal {
			t.Errorf("%s -> %s: legal = %v, want %v", c.from, c.to, ok, c.legal)
		}
	}
}
