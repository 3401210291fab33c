// Command mutate breaks the program on purpose and looks whether a test notices.
// It runs all breakages of breakages.txt, which a test must notice, and a few
// random ones in each package: a comparison or a logical operator is replaced
// by another one. Files are never changed: go test gets an overlay.
//
//	go run ./tools/mutate [-n 4] [-seed 1] [-most 0.4] internal/core/runner ...
//
// The tests of a package stand in its folder, or where an = behind its name says.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed breakages.txt
var breakages string

// mutant is one breakage of a file.
type mutant struct {
	file     string // below the root of the repository
	at       int    // offset in it
	old, new string
	line     int
	pkg      string // whose tests run
	must     bool   // a test has to notice it
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %q becomes %q", m.file, m.line, m.old, m.new)
}

// swaps are what operators become.
var swaps = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS,
	token.GTR: token.LEQ, token.LEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	fl := flag.NewFlagSet("mutate", flag.ContinueOnError)
	root := fl.String("root", ".", "the repository")
	n := fl.Int("n", 4, "random breakages per package")
	seed := fl.Uint64("seed", 1, "of the choice")
	most := fl.Float64("most", 0.4, "share of random breakages that may go unnoticed: some change nothing")
	if err := fl.Parse(args); err != nil {
		return err
	}

	all, err := named(*root, breakages)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // a repeatable choice
	for _, pkg := range fl.Args() {
		found, err := candidates(*root, pkg)
		if err != nil {
			return err
		}
		rng.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
		all = append(all, found[:min(*n, len(found))]...)
	}

	tried, survived, missed := 0, 0, 0
	for _, m := range all {
		noticed, err := try(ctx, *root, m)
		if err != nil {
			return err
		}
		word := "noticed "
		if !noticed {
			word = "SURVIVED"
		}
		fmt.Fprintln(out, word, m)
		switch {
		case !m.must:
			tried++
			if !noticed {
				survived++
			}
		case !noticed:
			missed++
		}
	}
	fmt.Fprintf(out, "%d of %d random breakages went unnoticed, and %d of those that must not\n", survived, tried, missed)
	if missed > 0 || float64(survived) > *most*float64(tried) {
		return errors.New("the tests notice too little")
	}
	return nil
}

// tested splits a name from the package whose tests are run, by default the given one.
func tested(name, byDefault string) (string, string) {
	if name, tests, ok := strings.Cut(name, "="); ok {
		return name, tests
	}
	return name, byDefault
}

// named reads a list of breakages: per line a file, a text that stands in it
// once, and what it becomes, with tabs between them.
func named(root, list string) (all []mutant, err error) {
	for row := range strings.Lines(list) {
		if row = strings.TrimRight(row, "\n"); row == "" || row[0] == '#' {
			continue
		}
		parts := strings.Split(row, "\t")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%q: want a file, a text and another one", row)
		}
		file, tests := tested(parts[0], path.Dir(parts[0]))
		src, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		if strings.Count(string(src), parts[1]) != 1 {
			return nil, fmt.Errorf("%s: %q stands there %d times, want once", parts[0], parts[1], strings.Count(string(src), parts[1]))
		}
		at := strings.Index(string(src), parts[1])
		all = append(all, mutant{
			file: file, at: at, old: parts[1], new: parts[2], must: true,
			line: 1 + strings.Count(string(src[:at]), "\n"), pkg: tests,
		})
	}
	return all, nil
}

// candidates finds the operators of a package that can be swapped. Tests of
// errors are left out: most of them guard against what never happens.
func candidates(root, pkg string) (all []mutant, err error) {
	pkg, tests := tested(pkg, pkg)
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		base := filepath.Base(file)
		if strings.HasSuffix(base, "_test.go") || slices.ContainsFunc([]string{"_windows.", "_darwin.", "_other."}, func(s string) bool { return strings.Contains(base, s) }) {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			e, ok := n.(*ast.BinaryExpr)
			if !ok || swaps[e.Op] == token.ILLEGAL || isErr(e.X) {
				return true
			}
			pos := set.Position(e.OpPos)
			all = append(all, mutant{file: pkg + "/" + base, at: pos.Offset, line: pos.Line, old: e.Op.String(), new: swaps[e.Op].String(), pkg: tests})
			return true
		})
	}
	return all, nil
}

func isErr(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && strings.HasSuffix(strings.ToLower(id.Name), "err")
}

// try runs the tests of a package with a breakage and reports whether they fail.
func try(ctx context.Context, root string, m mutant) (noticed bool, err error) {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	file, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return false, err
	}
	src, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	broken := slices.Concat(src[:m.at], []byte(m.new), src[m.at+len(m.old):])
	copied := filepath.Join(dir, "broken.go")
	if err := os.WriteFile(copied, broken, 0o600); err != nil {
		return false, err
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {file: copied}})
	if err != nil {
		return false, err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay="+overlay, "-count=1", "-timeout=15m", "./"+m.pkg) //nolint:gosec // our own packages
	cmd.Dir = root
	said, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if strings.Contains(string(said), "[build failed]") || strings.Contains(string(said), "[setup failed]") {
		if m.must {
			return false, fmt.Errorf("%s does not build:\n%s", m, said)
		}
		return true, nil // the compiler notices it
	}
	return err != nil, nil
}
