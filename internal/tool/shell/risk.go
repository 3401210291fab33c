package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Risk says why a person should look at a command before it runs although no
// rule refuses it: its text does not tell what it runs, because a program's
// name is only known when it runs or because unseen text is fed to an
// interpreter. A command that cannot be parsed is not a risk; exec refuses it.
func Risk(command string) (reason string, risky bool) {
	file, bad := parse(command, "the command")
	if bad != nil {
		return "", false
	}

	s := &scan{g: &guard{}, vars: map[string]string{}}
	s.walk(file)
	if s.risky == nil {
		return "", false
	}
	return s.risky.why, true
}

// Prefix names the commands of a text by the words that a person can approve
// once for many calls: "ls" or "git status", sorted, each once. ok is false if
// that would permit more than it says: then only exactly the same text may be
// approved in advance. So it is for every program and every option that the
// table of known ones does not list, for assignments before a command,
// redirections into files, and words only the run decides.
func Prefix(command string) (words []string, ok bool) {
	file, bad := parse(command, "the command")
	if bad != nil {
		return nil, false
	}

	s := &scan{g: &guard{}, vars: map[string]string{}, shallow: true}
	ok = true
	for n := range syntax.Preorder(file) {
		switch n := n.(type) {
		case *syntax.Stmt:
			ok = ok && !n.Background && !n.Coprocess && !writesFile(n.Redirs)
		case *syntax.CallExpr:
			if len(n.Args) == 0 && len(n.Assigns) == 0 {
				continue
			}
			word, plain := s.prefix(n)
			ok = ok && plain
			words = append(words, word)

		case *syntax.DeclClause, *syntax.FuncDecl, *syntax.LetClause, *syntax.CoprocClause, *syntax.ArithmCmd, *syntax.ProcSubst, *syntax.CmdSubst, *syntax.TestClause, *syntax.ArithmExp:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}

	slices.Sort(words)
	return slices.Compact(words), len(words) > 0
}

func writesFile(redirs []*syntax.Redirect) bool {
	return slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool {
		switch r.Op {
		case syntax.RdrIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn:
			return false
		case syntax.DplOut:
			return strings.Trim(r.Word.Lit(), "0123456789-") != "" || r.Word.Lit() == ""
		default:
			return r.Word.Lit() != "/dev/null"
		}
	})
}

// prefix names one simple command.
func (s *scan) prefix(c *syntax.CallExpr) (word string, ok bool) {
	argv := s.argv(c)
	if len(c.Assigns) > 0 || len(argv) == 0 || s.denied != nil || strings.ContainsAny(argv[0], unknownSet+"/\\*?[") {
		return "", false
	}
	k, rest, ok := lookup(argv)
	return k.name, ok && k.fits(rest)
}

// typed reports whether a shell in a command that keeps running takes its
// commands from standard input.
func (g *guard) typed(command string) bool {
	if g.powershell {
		return true
	}

	file, bad := parse(command, "the command")
	if bad != nil {
		return true
	}

	s := &scan{g: &guard{home: g.home}, vars: map[string]string{}, shallow: true}
	for n := range syntax.Preorder(file) {
		c, ok := n.(*syntax.CallExpr)
		if !ok || len(c.Args) == 0 {
			continue
		}

		s.assign(c.Assigns)
		for _, argv := range effective(s.argv(c)) {
			if isShell(base(argv[0])) && readsCode(argv) {
				return true
			}
		}
	}

	return false
}
