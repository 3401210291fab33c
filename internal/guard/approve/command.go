package approve

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is a shell text as far as it can be read without running it.
type command struct {
	simple [][]string // words of every simple command in it, quotes removed; unknown parts are left out
	plain  bool       // one simple command of fixed words: no redirection, assignment, expansion or list
	// repeatable says that the text does the same when it is run again: it
	// neither hands work to an interpreter or wrapper nor sets variables nor
	// uses the output of other commands nor leaves the name of a program open.
	repeatable bool
}

func parseCommand(text string) command {
	var c command
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return c
	}

	c.repeatable = true
	fixed := true
	for n := range syntax.Preorder(f) {
		switch n := n.(type) {
		case *syntax.CallExpr:
			words := make([]string, 0, len(n.Args))
			for i, w := range n.Args {
				lit, known := literal(w)
				fixed = fixed && known
				if i == 0 && (!known || runsOthers(lit)) {
					c.repeatable = false
				}
				words = append(words, lit)
			}

			if len(n.Assigns) > 0 || slices.ContainsFunc(words, startsProgram) {
				c.repeatable = false
			}
			if len(words) > 0 {
				c.simple = append(c.simple, words)
			}
		case *syntax.DeclClause, *syntax.FuncDecl, *syntax.CoprocClause, *syntax.CmdSubst, *syntax.ProcSubst:
			c.repeatable = false
		}
	}

	if len(f.Stmts) == 1 && len(c.simple) == 1 {
		st := f.Stmts[0]
		call, ok := st.Cmd.(*syntax.CallExpr)
		c.plain = ok && fixed && len(call.Assigns) == 0 && len(st.Redirs) == 0 && !st.Background && !st.Negated && !st.Coprocess
	}
	return c
}

// literal returns a word without its quotes; known is false if a part of it is only
// decided when the command runs.
func literal(w *syntax.Word) (text string, known bool) {
	var b strings.Builder
	known = true
	var parts func(list []syntax.WordPart, quoted bool)
	parts = func(list []syntax.WordPart, quoted bool) {
		for _, p := range list {
			switch p := p.(type) {
			case *syntax.Lit:
				b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
				known = known && (quoted || !strings.ContainsAny(p.Value, "*?[{~"))
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
				known = known && !p.Dollar
			case *syntax.DblQuoted:
				known = known && !p.Dollar
				parts(p.Parts, true)
			default:
				known = false
			}
		}
	}

	parts(w.Parts, false)
	return b.String(), known
}

// startsProgram reports arguments by which harmless programs run others.
func startsProgram(word string) bool {
	switch word {
	case "-exec", "-execdir", "-ok", "-okdir":
		return true
	}

	name, _, _ := strings.Cut(word, "=")
	if !strings.HasPrefix(name, "--") {
		return false
	}

	for _, part := range []string{"program", "exec", "command"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, "-pack")
}

// runsOthers reports interpreters and wrappers: a yes to one says nothing about
// what it runs next time.
func runsOthers(word string) bool {
	name := strings.ToLower(strings.TrimSuffix(filepath.Base(filepath.FromSlash(word)), ".exe"))
	if name == "." {
		return true
	}

	switch strings.TrimRight(name, "0123456789.") { // python3.12 is python
	case "sh", "bash", "zsh", "dash", "ksh", "mksh", "fish", "csh", "tcsh", "ash", "busybox", "toybox", "pwsh", "powershell", "cmd",
		"env", "xargs", "gxargs", "parallel", "sudo", "doas", "su", "pkexec", "runuser", "setpriv", "chroot", "unshare", "nsenter",
		"nohup", "setsid", "nice", "ionice", "timeout", "stdbuf", "time", "watch", "strace", "ltrace", "gdb", "script", "expect", "screen", "tmux",
		"eval", "exec", "source", "command", "builtin", "trap", "alias", "coproc",
		"python", "pypy", "node", "nodejs", "deno", "bun", "bunx", "perl", "ruby", "php", "lua", "luajit", "tclsh", "osascript", "awk", "gawk", "mawk", "nawk",
		"sed", "gsed", "ed", "vi", "vim", "nvim", "emacs", "ssh", "npx", "uvx", "pipx", "flatpak", "snap", "systemd-run", "at", "batch", "crontab",
		"java", "mono", "wine", "jshell", "scala", "groovy", "julia", "rscript", "r", "ghci", "ocaml", "swift", "sqlite", "psql", "mysql":
		return true
	}

	return builds(word)
}

// builds reports programs that run what a project's files say.
func builds(word string) bool {
	switch filepath.Base(word) {
	case "make", "gmake", "ninja", "cmake", "just", "rake", "npm", "pnpm", "yarn", "uv", "poetry", "cargo", "gradle", "mvn", "ant", "go", "dotnet",
		"docker", "podman", "kubectl":
		return true
	}
	return false
}

// runsNothing reports programs that never run a file they are given, so the
// content of their arguments does not matter for an approval.
func runsNothing(word string) bool {
	switch filepath.Base(word) {
	case "cat", "head", "tail", "ls", "wc", "stat", "file", "echo", "printf", "mkdir", "touch", "rm", "cp", "mv", "diff", "cmp", "grep",
		"md5sum", "sha1sum", "sha256sum", "sha512sum", "du", "df", "basename", "dirname", "realpath", "readlink", "ln", "chmod", "rmdir", "tr", "cut", "jq":
		return true
	}
	return false
}

// files names what a command may run: programs given by path, and whatever is
// handed to a program that could run it. Words inside a word (sh -c '...') count.
func (c command) files() (names []string) {
	add := func(name string) {
		if name != "" && len(name) < 4096 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, words := range c.simple {
		if runsNothing(words[0]) {
			continue
		}
		for _, w := range words {
			add(w)
			if _, value, ok := strings.Cut(w, "="); ok {
				add(value)
			}

			if strings.ContainsAny(w, " \t\n;|&<>()") {
				for part := range strings.FieldsFuncSeq(w, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()'\"`$", r) }) {
					add(part)
				}
			}
		}
	}

	return names
}

// implied returns the files that the programs of a command read their orders from
// without being told.
func (c command) implied() (names []string) {
	for _, words := range c.simple {
		for _, name := range impliedFiles(words[0]) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// runsFiles reports whether a command runs what files say, of which its words
// name at most some.
func (c command) runsFiles() bool {
	return slices.ContainsFunc(c.simple, func(words []string) bool {
		name := filepath.Base(words[0])
		if name == "git" { // hooks
			return !slices.Contains([]string{"status", "log", "diff", "show", "branch"}, append(words, "")[1])
		}
		return strings.Contains(words[0], "/") || runsOthers(words[0]) || readsProject(name) || words[0] == ""
	})
}

// readsProject reports programs that load code of the project they are called in.
func readsProject(name string) bool {
	switch name {
	case "pytest", "tox", "nox", "ctest", "meson", "bazel", "task", "gradlew", "mvnw", "sbt", "terraform", "tofu", "ansible", "ansible-playbook",
		"pre-commit", "direnv", "jest", "vitest", "mocha", "webpack", "vite", "eslint", "tsc", "mypy", "phpunit", "rspec", "bundle", "composer", "mix", "rebar3", "stack", "cabal", "zig":
		return true
	}
	return false
}

// impliedFiles returns what a program reads its orders from without being
// told.
func impliedFiles(program string) []string {
	switch filepath.Base(program) {
	case "make", "gmake":
		return []string{"GNUmakefile", "makefile", "Makefile"}
	case "npm", "npx", "pnpm", "yarn", "bun":
		return []string{"package.json", ".npmrc"}
	case "just":
		return []string{"justfile", "Justfile"}
	case "rake":
		return []string{"Rakefile"}
	case "cargo":
		return []string{"Cargo.toml", "build.rs"}
	case "docker", "podman":
		return []string{"Dockerfile", "compose.yaml", "docker-compose.yml"}
	case "pytest":
		return []string{"conftest.py"}
	case "git":
		return []string{".git/config"}
	}
	return nil
}
