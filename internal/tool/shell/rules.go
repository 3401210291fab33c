package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	askUser   = "If it is really needed, ask the user to run it."
	readFirst = "Save it to a file, read the file, then run it."
)

// rules applies the built-in deny list to one command.
func (s *scan) rules(name string, argv []string) {
	args := argv[1:]
	switch {
	case strings.Contains(argv[0], fetchedText):
		s.ask(true, "it would run downloaded or decoded text as a command", readFirst)
	case isUnknown(argv[0]) || strings.ContainsAny(argv[0], "*?") || strings.Contains(argv[0], "[") && len(argv[0]) > 2:
		if r, f := rmFlags(args); r && f {
			s.ask(true, "the program that gets -r and -f is only known when it runs", "Write the program's name plainly.")
		} else {
			s.ask(false, "the program is only known when it runs", "Write the program's name plainly.")
		}

	case name == "rm":
		s.remove(args)
	case name == "find" || name == "gfind":
		for _, a := range args {
			if a == "-delete" {
				s.deny("find -delete removes everything it matches", "List the matches first, then remove the named files with rm.")
			}
		}

	case name == "mkfs" || strings.HasPrefix(name, "mkfs.") || name == "diskpart" || name == "wipefs" || name == "mkswap" || name == "blkdiscard" || name == "format":
		s.deny(name+" destroys the contents of a disk", askUser)
	case name == "del" && hasSwitch(args, "/f", "/q", "/s"), (name == "rmdir" || name == "rd") && hasSwitch(args, "/s", "/q"):
		s.deny(name+" with these switches removes without asking", "Remove named files one by one.")
	case powers(name, args):
		s.deny(name+" would stop or suspend this machine", askUser)
	case name == "kill":
		for i, a := range args {
			if a == agentPID || a == "-1" && i > 0 {
				s.deny("it would kill the agent itself or every process of the user", "Name the process to kill by its number.")
			}
		}

	case name == "source" || name == ".":
		if len(args) > 0 && strings.Contains(args[0], fetchedText) {
			s.ask(true, "it would run downloaded or decoded text", readFirst)
		}
	case isShell(name):
		if strings.Contains(shellArgs(args).file, fetchedText) {
			s.ask(true, "it would run downloaded or decoded text", readFirst)
		}
	case name == "powershell" || name == "pwsh":
		if r := powerShellRules(strings.Join(args, " ")); r != nil {
			s.deny(r.why, r.instead)
		}
	}

	for _, target := range writes(name, args) {
		s.target(target)
	}
}

// rmFlags finds -r and -f in every spelling: clusters, capitals, long names
// and their abbreviations, before or after the operands.
func rmFlags(args []string) (recursive, force bool) {
	for _, a := range args {
		switch {
		case a == "--":
			return recursive, force
		case strings.HasPrefix(a, "--") && len(a) > 2:
			recursive = recursive || strings.HasPrefix("--recursive", a)
			force = force || strings.HasPrefix("--force", a)
		case strings.HasPrefix(a, "-"):
			recursive = recursive || strings.ContainsAny(a, "rR")
			force = force || strings.Contains(a, "f")
		}
	}
	return recursive, force
}

func (s *scan) remove(args []string) {
	recursive, force := rmFlags(args)
	if recursive && force {
		s.deny("rm with -r and -f together removes whole trees without any check",
			"Look at what is there, then remove the named files or one named directory without -f, or ask the user.")
		return
	}

	if !recursive {
		return
	}

	for _, op := range operands(args, "") {
		where := s.join(op)
		if isUnknown(op) || strings.Trim(op, "./*") == "" || where == "/" || where == s.g.home || where == s.g.workspace {
			s.deny(fmt.Sprintf("rm -r of %q is too broad", strings.ReplaceAll(op, unknownText, "(unknown)")),
				"Name the one directory to remove.")
		}
	}
}

func hasSwitch(args []string, switches ...string) bool {
	for _, a := range args {
		for _, sw := range switches {
			if strings.HasPrefix(strings.ToLower(a), sw) {
				return true
			}
		}
	}
	return false
}

func powers(name string, args []string) bool {
	switch name {
	case "shutdown", "reboot", "halt", "poweroff":
		return true
	case "init", "telinit":
		return len(args) > 0 && strings.Contains("06sS1", args[0])
	case "systemctl", "loginctl":
		for _, a := range operands(args, "HMtsnop") {
			switch a {
			case "poweroff", "reboot", "halt", "suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate", "kexec", "soft-reboot", "rescue", "emergency":
				return true
			default:
				return false
			}
		}
	}
	return false
}

// writes lists the files that well-known programs write or remove.
func writes(name string, args []string) []string {
	switch name {
	case "tee", "truncate", "sponge", "rm", "unlink", "shred":
		return operands(args, "sr")
	case "ln":
		return operands(args, "tS") // a second name is a way to write unseen
	case "dd":
		for _, a := range args {
			if f, ok := strings.CutPrefix(a, "of="); ok {
				return []string{f}
			}
		}

	case "sed", "gsed", "perl":
		for _, a := range args {
			if strings.HasPrefix(a, "--in-place") || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "i") {
				return operands(args, "ef")
			}
		}

	case "cp", "mv", "install", "rsync", "scp":
		ops := operands(args, "tSmog")
		dir := option(args, "-t", "--target-directory")
		if name == "mv" {
			return append(ops, dir)
		}

		if dir == "" && len(ops) > 1 {
			dir, ops = ops[len(ops)-1], ops[:len(ops)-1]
		}

		out := []string{dir}
		if path.Base(path.Clean(dir)) == "memory" {
			for _, op := range ops {
				out = append(out, path.Join(dir, path.Base(op)))
			}
		}
		return out

	case "sort":
		return []string{option(args, "-o", "--output")}
	case "curl":
		return []string{option(args, "-o", "--output")}
	case "wget":
		return []string{option(args, "-O", "--output-document")}
	case "find", "gfind":
		for i, a := range args {
			if strings.HasPrefix(a, "-fprint") || a == "-fls" {
				return args[i+1 : min(i+2, len(args))]
			}
		}
	}
	return nil
}

// target refuses files that nothing may write: disks, and the agent's own history.
func (s *scan) target(file string) {
	switch {
	case file == "":
	case isDevice(file):
		s.deny(fmt.Sprintf("writing to %s would damage a disk or the system", file), askUser)
	case isHistory(file):
		s.deny(fmt.Sprintf("%s is written by the agent only", path.Base(file)), "Reading it is fine; keep notes in another file.")
	}
}

// isDevice reports device files except the ones that only swallow, supply or pass on.
func isDevice(file string) bool {
	rest, ok := strings.CutPrefix(path.Clean(file), "/dev/")
	if !ok {
		return false
	}

	first, _, _ := strings.Cut(rest, "/")
	switch first {
	case "null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty", "fd", "shm", "pts", "ptmx", "tcp", "udp", "mqueue":
		return false
	}
	return true
}

// isHistory matches the agent's history and its cursor, also through a
// wildcard that means them.
func isHistory(file string) bool {
	name := strings.ToLower(path.Base(file))
	for _, own := range []string{"history.jsonl", ".dream_cursor"} {
		if name == own {
			return true
		}
		if m, err := path.Match(name, own); err == nil && m && strings.Trim(name, "*?") != "" {
			return true
		}
	}

	return false
}

// statement judges redirections and what they feed to a shell.
func (s *scan) statement(st *syntax.Stmt) {
	call, _ := st.Cmd.(*syntax.CallExpr)
	for _, r := range st.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.AppClob, syntax.RdrAll, syntax.RdrAllClob, syntax.AppAll, syntax.AppAllClob:
			for _, file := range s.fields(r.Word) {
				s.target(file)
				s.reach(file)
			}

		case syntax.DplOut:
			if file := s.literal(r.Word); strings.Trim(file, "0123456789-") != "" {
				s.target(file)
				s.reach(file)
			}

		case syntax.RdrIn:
			for _, file := range s.fields(r.Word) {
				s.reach(file)
				if strings.Contains(file, fetchedText) && call != nil && s.runsStdin(call) {
					s.pipedCode()
				}
			}

		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			body := r.Hdoc
			if r.Op == syntax.WordHdoc {
				body = r.Word
			}

			if body == nil || call == nil {
				continue
			}

			for _, argv := range effective(s.argv(call)) {
				if isShell(base(argv[0])) && readsCode(argv) {
					s.script(s.literal(body), "the text for "+base(argv[0]))
				}
			}
		}
	}
}

// pipe refuses to feed the output of one command to an interpreter as its
// program: the owner has not seen that program.
func (s *scan) pipe(n *syntax.BinaryCmd) {
	for c := range syntax.Preorder(n.Y) {
		st, ok := c.(*syntax.Stmt)
		if !ok {
			continue
		}

		call, ok := st.Cmd.(*syntax.CallExpr)
		if ok && !readsInput(st) && s.runsStdin(call) {
			s.pipedCode()
			return
		}
	}
}

func (s *scan) pipedCode() {
	s.hidden()
	s.ask(true, "it pipes text into an interpreter as a program that nobody has seen", readFirst)
}

func readsInput(st *syntax.Stmt) bool {
	for _, r := range st.Redirs {
		switch r.Op {
		case syntax.RdrIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			return r.N == nil
		}
	}
	return false
}

func (s *scan) runsStdin(c *syntax.CallExpr) bool {
	return slices.ContainsFunc(effective(s.argv(c)), readsCode)
}
