package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Risk says why a person should look at a command before it runs although no
// rule refuses it: its text does not tell what it runs, because a program's
// name is only known when it runs or because unseen text is fed to an
// interpreter. A command that cannot be parsed is no risk; exec refuses it.
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
// approved in advance. So it is for everything that runs what its arguments or
// files say (interpreters, wrappers, build tools), for programs that are not
// known to only look or to have harmless subcommands, for assignments before a
// command, redirections into files, and words only the run decides.
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
		case *syntax.DeclClause, *syntax.FuncDecl, *syntax.LetClause, *syntax.CoprocClause, *syntax.ArithmCmd, *syntax.ProcSubst:
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
	name, args := argv[0], argv[1:]
	if slices.ContainsFunc(args, func(a string) bool { return runsProgram(name, a) }) {
		return "", false
	}
	if looksOnly(name) {
		return name, true
	}
	if len(args) > 0 && slices.Contains(strings.Fields(subcommands(name)), args[0]) {
		return name + " " + args[0], true
	}
	return "", false
}

// runsProgram reports options by which a harmless program starts another one,
// writes a file or reads further options.
func runsProgram(program, arg string) bool {
	if !strings.HasPrefix(arg, "-") {
		return isUnknown(arg) && strings.HasPrefix(arg, unknownText) // may become an option
	}
	name, _, _ := strings.Cut(strings.ToLower(arg), "=")
	for _, part := range []string{"exec", "program", "command", "pager", "editor", "--pre", "--output", "ext-diff", "textconv", "upload-pack", "receive-pack", "config", "hostname-bin", "files0-from", "gpg"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	switch {
	case isUnknown(arg):
		return true
	case strings.HasPrefix(arg, "--"):
		return false
	}
	switch program {
	case "ls", "ps", "grep", "egrep", "fgrep", "rg":
		return false // their letters only say what to show
	}
	return strings.ContainsAny(arg, "oOX") || arg == "-c" // a file to write, a pager, a setting
}

// looksOnly reports programs that only show something, whatever their
// arguments, apart from the options above.
func looksOnly(name string) bool {
	switch name {
	case "ls", "cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "rg", "cut", "tr", "sort", "diff", "cmp", "comm", "stat", "file", "du", "df",
		"pwd", "cd", "whoami", "id", "uname", "which", "basename", "dirname", "realpath", "readlink", "tree", "nl", "tac", "rev", "paste", "fold",
		"column", "jq", "md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "echo", "printf", "true", "false", "test", "[", ":", "seq", "sleep",
		"ps", "free", "uptime", "nproc", "strings", "hexdump", "od":
		return true
	}
	return false
}

// subcommands are the ones that can be approved for programs with many.
func subcommands(name string) string {
	switch name {
	case "git":
		return "status log diff show branch blame ls-files ls-tree rev-parse describe shortlog reflog add"
	case "go":
		return "build vet fmt list doc version"
	case "cargo":
		return "check fmt tree metadata version"
	case "npm", "pnpm", "yarn":
		return "ls list outdated view audit"
	case "pip", "pip3":
		return "list show freeze check"
	case "docker", "podman":
		return "ps images logs inspect version"
	case "kubectl":
		return "get describe logs version"
	case "systemctl":
		return "status list-units is-active"
	case "brew":
		return "list info search"
	case "apt":
		return "list show search"
	}
	return ""
}

// uses reports what matters for a command that keeps running: whether its
// output may come from the network, and whether a shell in it takes its
// commands from standard input.
func (g *guard) uses(command string) (fetched, shell bool) {
	if g.powershell {
		return networked(command), true
	}
	file, bad := parse(command, "the command")
	if bad != nil {
		return true, true
	}
	s := &scan{g: &guard{home: g.home}, vars: map[string]string{}, shallow: true}
	for n := range syntax.Preorder(file) {
		c, ok := n.(*syntax.CallExpr)
		if !ok || len(c.Args) == 0 {
			continue
		}
		s.assign(c.Assigns)
		for _, argv := range effective(s.argv(c)) {
			fetched = fetched || downloads(base(argv[0]))
			shell = shell || isShell(base(argv[0])) && readsCode(argv)
			for _, text := range scripts(base(argv[0]), argv) {
				fetched = fetched || networked(text)
			}
		}
	}
	return fetched, shell
}

// downloads reports programs that print what a stranger wrote.
func downloads(name string) bool {
	switch name {
	case "curl", "wget", "aria2c", "http", "https", "xh", "nc", "ncat", "netcat", "socat", "ftp", "lynx", "w3m", "links", "elinks", "telnet":
		return true
	}
	return false
}

// networked looks for such a program among the words of a text.
func networked(text string) bool {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return strings.ContainsRune(" \t\n;|&()'\"`$", r) })
	return slices.ContainsFunc(words, func(w string) bool {
		return downloads(base(w)) || w == "iwr" || w == "irm" || strings.HasPrefix(w, "invoke-")
	})
}
