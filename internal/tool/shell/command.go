package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// argv evaluates the words of a simple command.
func (s *scan) argv(c *syntax.CallExpr) []string {
	const maxWords = 1 << 15 // of all commands together; words can expand to more than their text
	var argv []string
	for _, w := range c.Args {
		argv = append(argv, s.fields(w)...)
	}

	if s.words += len(argv); s.words > maxWords {
		s.hidden()
		s.deny("it has too many words to be checked", "Write a script file and run that.")
		return argv[:min(len(argv), maxFields)]
	}
	return argv
}

// call judges a simple command.
func (s *scan) call(c *syntax.CallExpr) {
	s.assign(c.Assigns)
	argv := s.argv(c)
	if len(argv) == 0 {
		return
	}

	s.plain = append(s.plain, strings.Join(argv, " "))
	all := effective(argv)
	if s.each != nil {
		s.each(all)
	}

	for _, inner := range all {
		s.rules(base(inner[0]), inner)
		for _, text := range scripts(base(inner[0]), inner) {
			s.script(text, "the script inside it")
		}
	}

	s.reachAll(argv, all)
	s.effects(all)
}

// effects follows what a command does to the walk's own knowledge.
func (s *scan) effects(all [][]string) {
	for _, argv := range all {
		ops := operands(argv[1:], "")
		switch base(argv[0]) {
		case "cd", "pushd":
			switch {
			case len(ops) == 0:
				s.cwd = s.g.home
			case isUnknown(ops[0]) || ops[0] == "-" || strings.HasPrefix(ops[0], "~") || strings.HasPrefix(ops[0], "+"):
				s.cwd = ""
			default:
				s.cwd = s.join(ops[0])
			}

		case "popd":
			s.cwd = ""
		case "read", "mapfile", "readarray", "getopts", "unset":
			for _, name := range ops {
				s.vars[name] = unknownText
			}
		}
	}
}

// wrapper describes a program that runs another one given on its command line.
type wrapper struct {
	values  string // short options that take a value
	long    string // long options whose value is the next word
	skip    int    // words between the options and the program
	assigns bool   // NAME=value words may stand before the program
}

func wrapperOf(name string) (wrapper, bool) {
	switch name {
	case "sudo", "doas":
		return wrapper{values: "ugpCDRTthrU", long: "--user --group --prompt --chdir --host", assigns: true}, true
	case "env":
		return wrapper{values: "uC", long: "--unset --chdir", assigns: true}, true
	case "exec":
		return wrapper{values: "a"}, true
	case "command", "builtin", "nohup", "setsid", "busybox", "toybox", "fakeroot", "unbuffer", "caffeinate", "eatmydata":
		return wrapper{}, true
	case "nice":
		return wrapper{values: "n", long: "--adjustment"}, true
	case "ionice":
		return wrapper{values: "cnpPu", long: "--class --classdata"}, true
	case "timeout":
		return wrapper{values: "sk", long: "--signal --kill-after", skip: 1}, true
	case "chroot", "taskset", "chrt", "flock":
		return wrapper{values: "wE", long: "--timeout", skip: 1}, true
	case "stdbuf":
		return wrapper{values: "ioe", long: "--input --output --error"}, true
	case "time":
		return wrapper{values: "fo", long: "--format --output"}, true
	case "strace", "ltrace":
		return wrapper{values: "eoPsuabISX"}, true
	case "watch":
		return wrapper{values: "n", long: "--interval"}, true
	case "unshare", "nsenter", "pkexec", "runuser", "setpriv":
		return wrapper{values: "tSGuRw", long: "--target --user --root"}, true
	case "xargs", "gxargs":
		return wrapper{values: "aEIdLnPs", long: "--arg-file --delimiter --max-args --max-procs --max-chars"}, true
	case "parallel":
		return wrapper{values: "jaNnIL", long: "--jobs --arg-file --colsep"}, true
	}
	return wrapper{}, false
}

// effective lists a command and every command it starts through wrappers,
// outermost first. Each entry has at least one word.
func effective(argv []string) [][]string {
	var all [][]string
	for queue := [][]string{argv}; len(queue) > 0 && len(all) < maxFields; queue = queue[1:] {
		cur := queue[0]
		if len(cur) == 0 {
			continue
		}

		all = append(all, cur)
		name := base(cur[0])
		if w, ok := wrapperOf(name); ok && !query(name, cur) {
			queue = append(queue, w.inner(cur[1:]))
		}

		switch name {
		case "find", "gfind", "fd", "fdfind":
			queue = append(queue, actions(cur[1:])...)
		case "cmd":
			if i := slices.IndexFunc(cur, func(a string) bool { return strings.EqualFold(a, "/c") || strings.EqualFold(a, "/k") }); i > 0 {
				queue = append(queue, cur[i+1:])
			}
		}
	}

	return all
}

// query reports "command -v rm", which only asks where rm is.
func query(name string, argv []string) bool {
	return name == "command" && len(argv) > 1 && (strings.HasPrefix(argv[1], "-v") || strings.HasPrefix(argv[1], "-V"))
}

func (w wrapper) inner(args []string) []string {
	rest := args
	for len(rest) > 0 {
		a := rest[0]
		switch {
		case a == "--":
			rest = rest[1:]
			return w.program(rest)
		case strings.HasPrefix(a, "--"):
			rest = rest[1:]
			if len(rest) > 0 && slices.Contains(strings.Fields(w.long), a) {
				rest = rest[1:]
			}

		case len(a) > 1 && a[0] == '-':
			rest = rest[1:]
			// In a cluster the first letter with a value takes the rest of the word.
			if i := strings.IndexAny(a[1:], w.values); w.values != "" && i == len(a)-2 && len(rest) > 0 {
				rest = rest[1:]
			}

		default:
			return w.program(rest)
		}
	}

	return nil
}

func (w wrapper) program(rest []string) []string {
	for w.assigns && len(rest) > 0 && strings.Contains(rest[0], "=") {
		rest = rest[1:]
	}
	if len(rest) <= w.skip {
		return nil
	}
	return rest[w.skip:]
}

// actions returns the commands that find runs on what it finds.
func actions(args []string) [][]string {
	var out [][]string
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch":
			end := slices.IndexFunc(args[i+1:], func(a string) bool { return a == ";" || a == "+" })
			if end < 0 {
				end = len(args) - i - 1
			}
			out = append(out, args[i+1:i+1+end])
			i += end
		}
	}

	return out
}

// operands returns the words that are not options. values names the short
// options whose value is a word of its own.
func operands(args []string, values string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return append(out, args[i+1:]...)
		case len(a) > 1 && a[0] == '-':
			if !strings.HasPrefix(a, "--") && values != "" && strings.IndexAny(a[1:], values) == len(a)-2 {
				i++
			}
		default:
			out = append(out, a)
		}
	}

	return out
}

func isShell(name string) bool {
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh":
		return true
	}
	return false
}

// shellUse is how a shell was called: with a text (-c), a file, or neither,
// which means that it reads its commands from standard input.
type shellUse struct {
	text, file     string
	hasText, stdin bool
}

func shellArgs(args []string) shellUse {
	var u shellUse
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "-" || a == "--" || len(a) < 2 || a[0] != '-' && a[0] != '+':
			if a == "-" || a == "--" {
				if i++; i >= len(args) {
					u.stdin = !u.hasText
					return u
				}
			}

			if u.hasText {
				u.text = args[i]
			} else if !u.stdin {
				u.file = args[i]
				u.stdin = u.file == "/dev/stdin" || u.file == "/dev/fd/0"
			}
			return u

		case strings.HasPrefix(a, "--"):
			if a == "--rcfile" || a == "--init-file" {
				i++
			}
		default:
			u.hasText = u.hasText || strings.Contains(a, "c") && a[0] == '-'
			u.stdin = u.stdin || strings.Contains(a, "s") && a[0] == '-'
			if strings.HasSuffix(a, "o") || strings.HasSuffix(a, "O") {
				i++
			}
		}
	}

	u.stdin = !u.hasText
	return u
}

// scripts returns the texts that a command hands to a shell.
func scripts(name string, argv []string) []string {
	args := argv[1:]
	switch {
	case isShell(name):
		if u := shellArgs(args); u.hasText {
			return []string{u.text}
		}
	case name == "eval":
		return []string{strings.Join(args, " ")}
	case name == "trap":
		if ops := operands(args, ""); len(ops) > 1 {
			return ops[:1]
		}
	case name == "su" || name == "runuser" || name == "flock" || name == "script" || name == "busybox" && len(args) > 0:
		if t := option(args, "-c", "--command"); t != "" {
			return []string{t}
		}
	case name == "env":
		if t := option(args, "-S", "--split-string"); t != "" {
			return []string{t}
		}
	case name == "watch" || name == "parallel":
		w, _ := wrapperOf(name)
		if inner := w.inner(args); len(inner) > 0 && strings.ContainsAny(inner[0], " \t\n;|&") {
			return []string{strings.Join(inner, " ")}
		}
	}

	return nil
}

// option returns the value of a short or long option, whether attached or not.
func option(args []string, short, long string) string {
	for i, a := range args {
		switch {
		case (a == short || a == long) && i+1 < len(args):
			return args[i+1]
		case strings.HasPrefix(a, long+"="):
			return a[len(long)+1:]
		case strings.HasPrefix(a, short) && len(a) > len(short) && !strings.HasPrefix(a, "--"):
			return a[len(short):]
		}
	}
	return ""
}

// fetches reports programs whose output was written by others or is in
// disguise.
func fetches(name string) bool {
	switch name {
	case "curl", "wget", "aria2c", "http", "https", "nc", "ncat", "socat", "ftp", "base64", "base32", "xxd", "openssl", "uudecode":
		return true
	}
	return false
}

// readsCode reports an interpreter that takes its program from standard input.
func readsCode(argv []string) bool {
	name, args := base(argv[0]), argv[1:]
	if isShell(name) {
		return shellArgs(args).stdin
	}

	name = strings.TrimRight(name, "0123456789.")
	switch name {
	case "python", "pypy", "perl", "ruby", "node", "nodejs", "php", "lua", "luajit", "deno", "bun", "osascript", "tclsh":
	default:
		return false
	}

	for _, a := range args {
		switch {
		case a == "-" || a == "/dev/stdin" || a == "/dev/fd/0":
			return true
		case len(a) < 2 || a[0] != '-' || strings.HasPrefix(a, "--") || strings.ContainsAny(a, "cmeEpPrVvhn"):
			return false
		}
	}

	return true
}
