package shell

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// guard judges command texts. It does no name resolution and starts nothing;
// the only thing it asks the system is where symbolic links lead.
type guard struct {
	workspace   string
	roots       []string
	home        string
	restrict    bool
	sandboxed   bool     // the kernel keeps commands in the roots
	askRisky    bool     // the approval policy asks about risky commands
	protected   []string // absolute
	programs    []string // directories whose programs may be run by absolute path
	allow, deny []pattern
	powershell  bool
}

// refusal is why a command does not run, and what to do instead.
type refusal struct {
	code    tool.Code
	why     string
	instead string
}

func (r *refusal) text() string {
	if r.code == tool.DeniedPolicy {
		return strings.TrimSpace("the command was not run: " + strings.TrimSuffix(r.why, ".") + ". " + r.instead)
	}
	return strings.TrimSpace(strings.TrimSuffix(r.why, ".") + ". " + r.instead)
}

func deny(why, instead string) *refusal {
	return &refusal{code: tool.DeniedPolicy, why: why, instead: instead}
}

func newGuard(o Options, home string) (*guard, error) {
	g := &guard{
		workspace: filepath.Clean(o.Workspace), home: home, restrict: o.Restrict, sandboxed: o.Sandboxed, askRisky: o.AskRisky,
		powershell: runtime.GOOS == "windows",
	}
	for _, r := range o.Roots {
		g.roots = append(g.roots, filepath.Clean(r))
	}

	for _, p := range o.Protected {
		if p == "~" || strings.HasPrefix(p, "~/") {
			p = filepath.Join(home, p[1:])
		}
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("protected path %q: must be absolute or start with ~", p)
		}
		g.protected = append(g.protected, filepath.Clean(p))
	}

	const system = "/usr:/bin:/sbin:/opt:/nix:/snap"
	for _, list := range []string{system, o.PathPrepend, o.PathAppend} {
		for _, dir := range filepath.SplitList(list) {
			if filepath.IsAbs(dir) {
				g.programs = append(g.programs, filepath.Clean(dir))
			}
		}
	}

	var err error
	if g.allow, err = compile("allowPatterns", o.Allow); err != nil {
		return nil, err
	}
	if g.deny, err = compile("denyPatterns", o.Deny); err != nil {
		return nil, err
	}
	return g, nil
}

// pattern is a user's regular expression in both of its uses.
type pattern struct {
	source string
	search *regexp.Regexp
	full   *regexp.Regexp
}

func compile(key string, sources []string) ([]pattern, error) {
	var out []pattern
	for i, src := range sources {
		search, err := regexp.Compile(src)
		if err != nil {
			return nil, fmt.Errorf("exec %s[%d] %q: %w (lookaround and backreferences are not available)", key, i, src, err)
		}

		full, err := regexp.Compile(`\A(?:` + src + `)\z`)
		if err != nil {
			return nil, fmt.Errorf("exec %s[%d] %q: %w", key, i, src, err)
		}
		out = append(out, pattern{src, search, full})
	}

	return out, nil
}

// find reports whether the pattern occurs in the text as it is or in lower case.
func (p pattern) find(text string) bool {
	return p.search.MatchString(text) || p.search.MatchString(strings.ToLower(text))
}

func (p pattern) covers(text string) bool {
	return p.full.MatchString(text) || p.full.MatchString(strings.ToLower(text))
}

// check decides about a command that is to start in dir, a resolved absolute
// path. nil means it may run.
//
// The order: a command that the allow list covers skips the deny rules; any
// other must pass them, and is still refused if there is an allow list.
// Protected paths and the workspace restriction hold for both.
func (g *guard) check(command, dir string) *refusal {
	if g.powershell {
		return g.checkPowerShell(command)
	}

	file, bad := parse(command, "the command")
	if bad != nil {
		return bad
	}

	s := &scan{g: g.withLinks(), cwd: dir, vars: map[string]string{}}
	s.walk(file)
	if !g.allowed(file, command) {
		if r := g.userDenied(command, s.plain); r != nil {
			return r
		}
		if s.denied != nil {
			return s.denied
		}
		if s.risky != nil && s.reckless && !g.askRisky {
			return s.risky
		}
		if len(g.allow) > 0 {
			return notListed()
		}
	}

	return s.outside
}

func notListed() *refusal {
	return deny("it is not completely covered by the user's list of allowed commands",
		"Each part must match the list by itself; run the allowed parts in separate calls or ask the user.")
}

// userDenied searches the user's patterns in the text and in each simple
// command with its quotes removed, so that r”m is rm here, too.
func (g *guard) userDenied(command string, plain []string) *refusal {
	for _, p := range g.deny {
		hit := p.find(command)
		for _, text := range plain {
			hit = hit || p.find(text)
		}
		if hit {
			return deny(fmt.Sprintf("the user forbids commands that match %q", p.source), "Do it another way or ask the user.")
		}
	}
	return nil
}

// maxNesting bounds brackets inside brackets, which cost parser stack.
const maxNesting = 200

func parse(text, what string) (*syntax.File, *refusal) {
	depth, deepest := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			depth++
			deepest = max(deepest, depth)
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
	}

	if deepest > maxNesting {
		return nil, &refusal{tool.InvalidArgs, what + " is nested too deeply to be checked", "Write a script file and run that."}
	}

	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err == nil {
		return file, nil
	}

	at := err.Error()
	if pe, ok := errors.AsType[syntax.ParseError](err); ok {
		at = fmt.Sprintf("line %d, column %d: %s", pe.Pos.Line(), pe.Pos.Col(), pe.Text)
	}
	return nil, &refusal{tool.InvalidArgs, what + " is not valid bash: " + at, "Correct the syntax and try again."}
}

// scan is one walk over a command and the scripts inside it. It follows
// directory changes and constant variables in source order; what depends on
// the run (substitutions, unset variables) is an unknown.
type scan struct {
	g       *guard
	cwd     string            // "" once it is not known any more
	vars    map[string]string // constant values; a variable set twice is unknown
	depth   int               // of scripts inside scripts
	budget  int               // scripts looked at so far
	words   int               // words evaluated so far
	shallow bool              // substitutions are unknown without a look inside
	plain   []string          // the simple commands, quotes removed
	denied  *refusal          // by a rule that the allow list can lift
	outside *refusal          // by a rule that nothing lifts

	risky    *refusal // why a person should be asked
	reckless bool     // without a person to ask, risky means no

	each   func(all [][]string) // gets every simple command with those it starts, if set
	unseen func()               // is told that something runs whose text is not in the command, if set
	stmt   func(*syntax.Stmt)   // gets every statement before the walk enters it, if set
}

// hidden notes that something runs whose text is not in the command.
func (s *scan) hidden() {
	if s.unseen != nil {
		s.unseen()
	}
}

func (s *scan) deny(why, instead string) {
	if s.denied == nil {
		s.denied = deny(why, instead)
	}
}

// ask notes something that only a person can judge. Where no person is asked,
// reckless means that it does not run.
func (s *scan) ask(reckless bool, why, instead string) {
	if s.risky == nil || reckless && !s.reckless {
		s.risky = deny(why, instead)
	}
	s.reckless = s.reckless || reckless
}

func (s *scan) forbid(why, instead string) {
	if s.outside == nil {
		s.outside = deny(why, instead)
	}
}

// scope restores what a subshell changed.
type scope struct {
	restore bool
	cwd     string
}

func (s *scan) walk(root syntax.Node) {
	var scopes []scope
	syntax.Walk(root, func(n syntax.Node) bool {
		if n == nil {
			last := scopes[len(scopes)-1]
			if scopes = scopes[:len(scopes)-1]; last.restore {
				s.cwd = last.cwd
			}
			return true
		}

		sc := scope{cwd: s.cwd}
		switch n := n.(type) {
		case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst:
			sc.restore = true
		case *syntax.Stmt:
			sc.restore = n.Background
			if s.stmt != nil {
				s.stmt(n)
			}
			s.statement(n)

		case *syntax.CallExpr:
			s.call(n)
		case *syntax.DeclClause:
			s.assign(n.Args)
		case *syntax.FuncDecl:
			s.function(n)
		case *syntax.BinaryCmd:
			if isPipe(n) {
				sc.restore = true
				s.pipe(n)
			}

		case *syntax.WordIter:
			s.loop(n)
		}

		scopes = append(scopes, sc)
		return true
	})
}

func (s *scan) loop(n *syntax.WordIter) {
	s.set(n.Name.Value, unknownText)
	for _, w := range n.Items {
		for _, f := range s.fields(w) {
			s.reach(f)
		}
	}
}

// script judges a text that a command hands to a shell.
func (s *scan) script(text, what string) {
	const maxDepth, maxScripts = 6, 64
	if s.depth >= maxDepth || s.budget >= maxScripts {
		s.hidden()
		s.deny("it nests shells inside shells too deeply to be checked", "Write a script file and run that.")
		return
	}

	if strings.TrimSpace(strings.Trim(text, unknownText)) == "" {
		if text != "" {
			s.hidden()
			s.ask(false, "it runs text that is only known when it runs", readFirst)
		}
		return
	}

	file, bad := parse(text, what)
	if bad != nil {
		s.hidden()
		s.deny(bad.why, bad.instead)
		return
	}

	s.budget++
	s.depth++
	cwd := s.cwd
	s.walk(file)
	s.cwd = cwd
	s.depth--
}

// function refuses a function that starts itself in a pipe or in the
// background, which doubles until the machine stands still.
func (s *scan) function(n *syntax.FuncDecl) {
	if n.Name == nil {
		return
	}

	bomb := false
	var spawning []bool // of the enclosing nodes: is this a pipe or in the background?
	syntax.Walk(n.Body, func(c syntax.Node) bool {
		if c == nil {
			spawning = spawning[:len(spawning)-1]
			return true
		}

		within := len(spawning) > 0 && spawning[len(spawning)-1]
		switch c := c.(type) {
		case *syntax.Stmt:
			within = within || c.Background
		case *syntax.BinaryCmd:
			within = within || isPipe(c)
		case *syntax.CallExpr:
			bomb = bomb || within && len(c.Args) > 0 && s.literal(c.Args[0]) == n.Name.Value
		}

		spawning = append(spawning, within)
		return true
	})
	if bomb {
		s.deny(fmt.Sprintf("the function %q starts copies of itself without end (a fork bomb)", n.Name.Value), "")
	}
}

func isPipe(n *syntax.BinaryCmd) bool { return n.Op == syntax.Pipe || n.Op == syntax.PipeAll }

// base returns the name of a program without its directory.
func base(word string) string {
	return strings.TrimSuffix(strings.ToLower(path.Base(strings.ReplaceAll(word, `\`, "/"))), ".exe")
}
