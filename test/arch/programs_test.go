package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// starters are the files that start another program. Repositories of the
// workspace are read and written by gitstore: the program git is never run by
// us, so no hook, fsmonitor, filter, external diff, pager, alias or credential
// helper of a repository runs with our rights. A command of the model may run
// git, in its sandbox.
var starters = []string{
	"internal/cli/browser.go",                      // a browser
	"internal/cli/editor.go",                       // the user's editor
	"internal/run/config/command.go",               // ${cmd:...} of the configuration, if the environment allows it
	"internal/chat/kit/child.go",                   // programs of ours beside a channel
	"internal/chat/platform/terminal/desktop_*.go", // the notifications of macOS and Windows
	"internal/run/daemon/restart*.go",              // ourselves
	"internal/run/daemon/manager.go",               // the service manager
	"internal/run/daemon/process_*.go",             // ourselves
	"internal/llm/azure/azure.go",                  // az, for a token
	"internal/llm/bedrock/profile.go",              // credential_process of the user's profile
	"internal/base/sandbox/*.go",                   // a trial of the sandbox
	"internal/tool/mcp/process.go",                 // servers of the configuration
	"internal/tool/shell/run.go",                   // commands of the model
	"internal/tool/shell/run_windows.go",           // taskkill
}

// startsProgram reports calls that start a program, and whether git is named.
func startsProgram(f *ast.File) (starts, git bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fn, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, _ := fn.X.(*ast.Ident)
		if pkg == nil {
			return true
		}
		switch pkg.Name + "." + fn.Sel.Name {
		case "exec.Command", "exec.CommandContext", "os.StartProcess", "syscall.Exec", "syscall.ForkExec", "syscall.StartProcess", "unix.Exec":
			starts = true
		case "exec.LookPath":
		default:
			return true
		}
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s, _ := strconv.Unquote(lit.Value)
				git = git || strings.TrimSuffix(path.Base(filepath.ToSlash(s)), ".exe") == "git"
			}
		}
		return true
	})
	return starts, git
}

func TestProgramsWeStart(t *testing.T) {
	fset := token.NewFileSet()
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (d.Name()[0] == '.' || strings.HasSuffix(d.Name(), "test") || slices.Contains([]string{"testdata", "web", "tools", "bench"}, d.Name())):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			return err
		}
		starts, git := startsProgram(f)
		if git {
			t.Errorf("%s runs git: use gitstore, which runs nothing that a repository names", file)
		}
		if !starts {
			return nil
		}
		i := slices.IndexFunc(starters, func(pat string) bool { return glob(pat, filepath.ToSlash(file)) })
		if i < 0 {
			t.Errorf("%s starts a program and is not among the starters", file)
			return nil
		}
		found[starters[i]] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pat := range starters {
		if !found[pat] {
			t.Errorf("%s starts no program any more: take it out of the starters", pat)
		}
	}
}

// The checker itself must be able to fail.
func TestProgramsWeStartRules(t *testing.T) {
	for src, want := range map[string][2]bool{
		`exec.Command("git", "status")`:                    {true, true},
		`exec.CommandContext(ctx, "/usr/bin/git", "diff")`: {true, true},
		`exec.LookPath("git")`:                             {false, true},
		`exec.Command(editor, "git")`:                      {true, true},
		`exec.Command("open", url)`:                        {true, false},
		`fmt.Println("git")`:                               {false, false},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+src+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if starts, git := startsProgram(f); starts != want[0] || git != want[1] {
			t.Errorf("%s: starts %v, git %v", src, starts, git)
		}
	}
}
