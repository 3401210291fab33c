package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// allowed reports whether the user's allow list covers the whole command:
// every simple command in it, those inside substitutions, functions and
// subshells included, must be matched completely by a pattern.
func (g *guard) allowed(file *syntax.File, source string) bool {
	if len(g.allow) == 0 {
		return false
	}

	some, ok := false, true
	syntax.Walk(file, func(n syntax.Node) bool {
		st, isStmt := n.(*syntax.Stmt)
		if !ok || !isStmt {
			return ok
		}

		switch c := st.Cmd.(type) {
		case *syntax.CallExpr:
			some = true
			ok = !dangerousAssigns(c.Assigns) && !dangerousWords(c.Args) && g.covered(st, source)
		case *syntax.DeclClause:
			some = true
			ok = !dangerousAssigns(c.Args) && g.covered(st, source)
		case *syntax.CoprocClause, *syntax.LetClause, *syntax.FuncDecl, nil:
			ok = false // rare, and a way to give a listed name another meaning
		default:
			ok = len(st.Redirs) == 0 // the statements inside speak for themselves
		}

		return ok
	})
	return some && ok
}

// covered matches the text of one simple command. A pattern that does not
// mention redirection does not permit one that writes a file.
func (g *guard) covered(st *syntax.Stmt, source string) bool {
	end := st.Cmd.End().Offset()
	redirected := false
	for _, r := range st.Redirs {
		end = max(end, r.Word.End().Offset())
		switch r.Op {
		case syntax.RdrIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn:
		case syntax.DplOut:
			redirected = redirected || strings.Trim(r.Word.Lit(), "0123456789-") != "" || r.Word.Lit() == ""
		default:
			redirected = redirected || r.Word.Lit() != "/dev/null"
		}
	}

	start := st.Pos().Offset()
	if start > end || end > uint(len(source)) {
		return false
	}

	text := strings.TrimSpace(source[start:end])
	return slices.ContainsFunc(g.allow, func(p pattern) bool {
		return p.covers(text) && (!redirected || strings.Contains(p.source, ">"))
	})
}

// dangerousWords finds assignments handed to env and the like.
func dangerousWords(words []*syntax.Word) bool {
	return slices.ContainsFunc(words, func(w *syntax.Word) bool {
		name, _, ok := strings.Cut((&scan{g: &guard{}, shallow: true}).literal(w), "=")
		return ok && dangerousVariable(name)
	})
}

func dangerousAssigns(assigns []*syntax.Assign) bool {
	return slices.ContainsFunc(assigns, func(a *syntax.Assign) bool {
		return a.Name == nil && a.Value != nil && !plainWord(a.Value) || a.Name != nil && dangerousVariable(a.Name.Value)
	})
}

func plainWord(w *syntax.Word) bool { return w.Lit() != "" }

// dangerousVariable names variables that make a harmless program run or load
// something else. A command that sets one is never covered by a pattern.
func dangerousVariable(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range []string{"LD_", "DYLD_", "GIT_", "BASH_", "PYTHON", "PERL5", "RUBY", "NODE_", "NPM_", "JAVA_", "_JAVA_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}

	switch name {
	case "PATH", "ENV", "IFS", "CDPATH", "SHELL", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "PAGER", "MANPAGER", "LESSOPEN",
		"LESSCLOSE", "EDITOR", "VISUAL", "BROWSER", "GLIBC_TUNABLES", "GCONV_PATH", "HOME", "MAKEFLAGS", "CLASSPATH", "LUA_INIT", "PHPRC":
		return true
	}
	return false
}
