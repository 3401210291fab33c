package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// Use is a path that a program may run, and the name of the program.
type Use struct {
	Path    string // absolute
	Program string
}

// Runs holds what a command may run or build, as far as its text tells.
// Programs that are known to run nothing do not appear in it, whatever they
// read.
type Runs struct {
	Files []Use // programs, and files and folders that are handed to programs
	Dirs  []Use // where programs start, which may look there for what they run
	// The same of interpreters whose program stands in the command.
	InlineFiles, InlineDirs []Use
	Repos                   []Use // where git may run what the settings of the repository say
	Open                    bool  // it may run files that its text does not name

	// What other programs of the command read, and where they may put it.
	Sources, Targets []Use
	Fetched          bool // the targets may hold something from the network
}

// RunsOf reads what a command that starts in dir may run or build.
func RunsOf(command, dir string) Runs {
	file, bad := parse(command, "the command")
	if bad != nil {
		return Runs{Open: true}
	}

	r := &runs{defined: map[string]bool{}}
	r.s = &scan{
		g:      &guard{},
		cwd:    dir,
		vars:   map[string]string{"PATH": "/usr/bin:/bin"},
		unseen: func() { r.out.Open = true },
		stmt:   r.statement,
	}

	r.s.walk(file)
	return r.out
}

// runs collects what a walk comes by.
type runs struct {
	s       *scan
	out     Runs
	defined map[string]bool // functions; what is in them is seen for itself
}

// fed holds what a statement gives its programs to read.
type fed struct {
	files []string
	text  bool // in the command itself
}

func (r *runs) statement(st *syntax.Stmt) {
	switch c := st.Cmd.(type) {
	case *syntax.FuncDecl:
		if c.Name != nil {
			r.defined[c.Name.Value] = true
		}
	case *syntax.DeclClause:
		r.assigns(c.Args)
	case *syntax.CallExpr:
		r.assigns(c.Assigns)
		if argv := r.s.argv(c); len(argv) > 0 {
			r.command(argv, r.input(st))
		}
	}
}

// assigns looks at variables: search paths and the like are paths that programs
// load something from.
func (r *runs) assigns(list []*syntax.Assign) {
	for _, a := range list {
		if a.Name == nil || a.Value == nil {
			continue
		}
		value := r.s.literal(a.Value)
		if isUnknown(value) && dangerousVariable(a.Name.Value) {
			r.out.Open = true
		}
		r.word(&r.out.Files, a.Name.Value, "="+value)
	}
}

func (r *runs) input(st *syntax.Stmt) (in fed) {
	for _, redirect := range st.Redirs {
		switch redirect.Op {
		case syntax.RdrIn, syntax.RdrInOut:
			in.files = append(in.files, r.s.fields(redirect.Word)...)
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			in.text = true
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.AppClob, syntax.RdrAll, syntax.RdrAllClob, syntax.AppAll, syntax.AppAllClob:
			for _, file := range r.s.fields(redirect.Word) {
				r.path(&r.out.Targets, "", file)
			}
		}
	}
	return in
}

// command looks at a simple command and those it starts through wrappers.
func (r *runs) command(argv []string, in fed) {
	more := false // a wrapper adds words that the text does not show
	for _, cur := range effective(argv) {
		name := base(cur[0])
		if more || slices.ContainsFunc(cur, func(w string) bool { return strings.Contains(w, "{}") }) && !sameWords(cur, argv) {
			cur = append(slices.Clone(cur), unknownText)
		}

		switch {
		case isUnknown(cur[0]) || strings.ContainsAny(cur[0], "*?[") && len(cur[0]) > 1:
			r.out.Open = true
		case r.defined[cur[0]]:
			continue
		case name == "alias":
			for _, a := range cur[1:] {
				if _, text, ok := strings.Cut(a, "="); ok {
					r.s.script(text, "the alias")
				}
			}
			continue
		}

		if r.wrapper(name, cur) {
			more = more || name == "xargs" || name == "gxargs" || name == "parallel"
			continue
		}

		more = more || name == "fd" || name == "fdfind"
		r.program(name, cur, in)
	}
}

// sameWords reports whether two lists are the same one.
func sameWords(a, b []string) bool { return len(a) == len(b) && &a[0] == &b[0] }

// wrapper looks at a program that only starts the one its words name, which is
// looked at for itself.
func (r *runs) wrapper(name string, cur []string) bool {
	w, ok := wrapperOf(name)
	if !ok {
		return false
	}
	if len(cur) == 1 || query(name, cur) {
		return true
	}

	inner := w.inner(cur[1:])
	if len(inner) == 0 {
		return false
	}

	for _, word := range cur[1 : len(cur)-len(inner)] {
		if key, value, ok := strings.Cut(word, "="); ok && dangerousVariable(key) && isUnknown(value) {
			r.out.Open = true
		}
		r.word(&r.out.Files, name, word)
	}
	return true
}

// program looks at a command that starts nothing by its words.
func (r *runs) program(name string, cur []string, in fed) {
	words := cur[1:]
	if strings.Contains(cur[0], "/") && !systemProgram(cur[0]) {
		r.word(&r.out.Files, name, cur[0])
	} else if quiet(name, words) && !builds(name, words) || name == "git" && r.git(words) {
		r.moves(name, words, in)
		return
	}

	files, dirs := &r.out.Files, &r.out.Dirs
	code := -1
	switch use := shellArgs(words); {
	case isShell(name) && use.hasText:
		dirs, code = nil, slices.Index(words, use.text) // its text is looked at for itself
	case isShell(name) && use.stdin && in.text:
		dirs = nil
	case in.text && readsCode(cur):
		dirs = &r.out.InlineDirs
	case readsCode(cur) && len(in.files) == 0:
		r.out.Open = true
	default:
		if code = inlineCode(name, words); code >= 0 {
			dirs = &r.out.InlineDirs
		}
	}

	for i, word := range words {
		switch {
		case i != code:
			r.word(files, name, word)
		case dirs != nil:
			r.word(&r.out.InlineFiles, name, word)
		}
	}

	for _, file := range in.files {
		r.word(files, name, file)
	}

	switch {
	case dirs == nil:
	case r.s.cwd == "":
		r.out.Open = true
	default:
		*dirs = append(*dirs, Use{r.s.cwd, name})
	}
}

// moves notes what a program that runs nothing reads and writes: a later part of
// the command may run it.
func (r *runs) moves(name string, words []string, in fed) {
	fetches := name == "git" && slices.Contains(words, "clone") || name == "curl" || name == "wget"
	r.out.Fetched = r.out.Fetched || fetches
	switch name {
	case "cp", "mv", "ln", "tee", "dd", "tar", "zip", "unzip", "gzip", "gunzip", "xz", "unxz", "bzip2", "bunzip2", "zstd", "git", "curl", "wget":
		if name == "git" && !fetches {
			return
		}
		for _, word := range words {
			r.path(&r.out.Targets, name, word)
			if fetches { // into a folder with the name of the repository
				r.path(&r.out.Targets, name, strings.TrimSuffix(path.Base(word), ".git"))
			}
		}
	case "cd", "pushd", "find", "ls":
		return
	}

	for _, word := range append(slices.Clone(words), in.files...) {
		r.path(&r.out.Sources, name, word)
	}
}

// path notes a word that is a path, or the value of an option.
func (r *runs) path(list *[]Use, program, word string) {
	if _, value, ok := strings.Cut(word, "="); ok && value != "" {
		word = value
	}
	if full := r.s.join(staticPrefix(word)); word != "" && !isUnknown(word) && len(word) < 4096 && full != "" {
		*list = append(*list, Use{full, program})
	}
}

// word notes the paths that a word may stand for. Most words are none: whether
// there is a file is for others to see.
func (r *runs) word(list *[]Use, program, word string) {
	if isUnknown(word) && !strings.HasPrefix(word, "=") { // the caller knows what a variable means
		r.out.Open = true
	}

	parts := []string{word}
	if _, value, ok := strings.Cut(word, "="); ok {
		parts = append(parts, value)
	}
	if len(word) > 2 && word[0] == '-' {
		parts = append(parts, word[2:])
	}

	parts = append(parts, strings.FieldsFunc(word, func(c rune) bool { return strings.ContainsRune(" \t\n:;,|&<>()[]{}'\"`$=@", c) })...)
	for _, part := range parts {
		part = strings.TrimSuffix(strings.TrimPrefix(part, "@"), "/...")
		if i := strings.IndexAny(part, "*?["); i >= 0 {
			part = staticPrefix(part)
		}

		if part == "" || isUnknown(part) || len(part) > 4096 || strings.ContainsAny(part, "\x00") {
			continue
		}

		full := r.s.join(part)
		if full == "" {
			r.out.Open = true
			return
		}

		if use := (Use{full, program}); !slices.Contains(*list, use) {
			*list = append(*list, use)
		}
	}
}

// git looks at a git command; false: it starts what its words name.
func (r *runs) git(words []string) bool {
	dir := r.s.cwd
	rest := words
	for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' {
		value := ""
		if len(rest) > 1 {
			value = rest[1]
		}

		switch rest[0] {
		case "-C":
			if dir = r.s.join(value); isUnknown(value) {
				dir = ""
			}
			rest = rest[1:]

		case "-c":
			if isUnknown(value) && !strings.HasPrefix(value, "user.") {
				r.out.Open = true
			}
			r.word(&r.out.Files, "git", "="+value[strings.IndexByte(value, '=')+1:])
			rest = rest[1:]

		case "--no-pager", "-P", "--no-optional-locks":
		default: // it may be anything
			return false
		}

		rest = rest[min(1, len(rest)):]
	}

	if len(rest) == 0 {
		return true
	}
	if gitRunsOthers(words) {
		return false
	}

	// Each one that opens a repository follows its settings: git status starts
	// what core.fsmonitor names, git diff the filters and drivers.
	g, _ := globalsOf("git")
	switch sub := rest[0]; {
	case slices.Contains([]string{"clone", "init", "version", "help"}, sub):
		return true // of no repository yet
	case isUnknown(sub) || !slices.Contains(strings.Fields(g.builtin), sub):
		r.repo(dir)
		return false // an alias
	}

	if k, args, ok := lookup(append([]string{"git"}, rest...)); ok && k.fits(args) {
		r.repo(dir)
		return true
	}

	for _, w := range rest[1:] {
		if strings.HasPrefix(w, "--") && strings.Contains(w, "=") && !isUnknown(w) {
			r.word(&r.out.Files, "git", w)
		}
	}

	r.repo(dir)
	return true
}

func (r *runs) repo(dir string) {
	if dir == "" {
		r.out.Open = true
		return
	}
	r.out.Repos = append(r.out.Repos, Use{dir, "git"})
}

// inlineCode returns the place of the program among the words of an interpreter; -1
// if it is not there.
func inlineCode(name string, words []string) int {
	var letters string
	switch strings.TrimRight(name, "0123456789.") { // python3.12 is python
	case "python", "pypy":
		letters = "c"
	case "node", "nodejs", "bun":
		letters = "ep"
	case "perl", "ruby", "lua", "luajit", "osascript", "rscript":
		letters = "eE"
	case "php":
		letters = "r"
	default:
		return -1
	}

	for i, w := range words {
		switch {
		case len(w) < 2 || w[0] != '-':
			return -1 // a file
		case w == "--eval" || w == "--print" || !strings.HasPrefix(w, "--") && strings.ContainsRune(letters, rune(w[len(w)-1])):
			if i+1 < len(words) {
				return i + 1
			}
		}
	}

	return -1
}

// quiet reports programs that run nothing, with these words: what they read
// does not matter.
func quiet(name string, args []string) bool {
	if runsNothing(name) {
		return true
	}

	argv := append([]string{name}, args...)
	switch name {
	case "sed", "gsed":
		return quietSed(args)
	case "awk", "gawk", "mawk", "nawk":
		return quietAwk(args)
	case "tar":
		if len(args) > 0 && args[0] != "" && args[0][0] != '-' { // letters without a dash
			argv[1] = "-" + args[0]
		}
	}

	k, rest, ok := lookupIn(append(table(), movers()...), argv)
	return ok && name != "git" && (!k.starts || k.fits(rest))
}

// builds reports programs that only look, and build for it what the files of the
// folder say: go vet does what go.mod and #cgo lines name.
func builds(name string, args []string) bool {
	return name == "go" && (len(args) == 0 || args[0] != "version")
}

// runsNothing reports programs and builtins that start no other program and
// load no code with any option.
func runsNothing(name string) bool {
	switch name {
	case "cd", "pushd", "popd", "dirs", "test", "[", "true", "false", ":", "printf", "exit", "return", "break", "continue", "shift", "sleep", "wait", "read", "set", "unset",
		"umask", "type", "kill", "jobs", "times", "ulimit", "getopts", "shopt", "disown", "trap", "eval", "unalias",
		"cp", "mv", "rm", "rmdir", "unlink", "mkdir", "touch", "ln", "chmod", "chown", "chgrp", "mktemp", "tee", "dd", "truncate", "shred", "sync",
		"seq", "rev", "tac", "nl", "fold", "fmt", "column", "paste", "join", "comm", "uniq", "expand", "unexpand", "shuf", "od", "xxd", "hexdump", "strings", "base64", "base32", "cksum", "sum",
		"b2sum", "sha224sum", "sha384sum", "file", "tree", "which", "whereis", "hostname", "uptime", "free", "ps", "pgrep", "printenv", "cal", "tty", "getconf", "numfmt", "expr", "jq",
		"gzip", "gunzip", "zcat", "bzip2", "bunzip2", "bzcat", "xz", "unxz", "xzcat", "zstd", "unzip", "zipinfo",
		"find", "gfind", "fd", "fdfind": // what these start is looked at for itself
		return true
	}
	return false
}

// movers are programs that write or send what they read, but run nothing with
// the options listed here.
func movers() []known {
	return []known{
		{
			name: "tar", flags: "cxtruzjJvkpmOPha", values: "fC", starts: true,
			long:    "create extract get list append update gzip bzip2 xz zstd verbose file= directory= exclude= strip-components= keep-old-files preserve-permissions to-stdout auto-compress dereference totals wildcards no-same-owner",
			harmful: "use-compress-program I to-command checkpoint-action info-script F new-volume-script rsh-command rmt-command",
		},
		{
			name: "curl", flags: "sSfLOJIkgvi", values: "oXHdAemrub", starts: true,
			long: "silent show-error fail fail-with-body location remote-name remote-header-name head include verbose compressed create-dirs no-progress-meter output= request= header= data= data-raw= " +
				"data-binary= json= user-agent= referer= max-time= connect-timeout= retry= range= user= url= output-dir= write-out=",
			harmful: "config K engine cert-type key-type netrc-file",
		},
		{
			name: "wget", flags: "qcN", values: "OPtT", starts: true,
			long:    "quiet no-verbose continue timestamping output-document= directory-prefix= tries= timeout= show-progress",
			harmful: "execute e config use-askpass input-file i post-file",
		},
		{
			name: "zip", flags: "rqj9", starts: true,
			harmful: "unzip-command T",
		},
		{
			name: "rg", flags: "inlwcFovuSUN", values: "egtTABCm", starts: true,
			long:    "files hidden no-ignore ignore-case line-number files-with-matches word-regexp count fixed-strings only-matching glob= type= max-count= after-context= before-context= context= no-heading",
			harmful: "pre pre-glob hostname-bin search-zip z",
		},
	}
}

// sedCommand is a command of sed that prints, deletes or replaces, and does
// nothing else.
var sedCommand = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:(?:\d+|\$|/[^/]*/)(?:,(?:\d+|\$|\+\d+|/[^/]*/))?!?)?\s*(?:[pdq=]|s(?:/(?:[^/\\]|\\.)*/(?:[^/\\]|\\.)*/|\|(?:[^|\\]|\\.)*\|(?:[^|\\]|\\.)*\||#(?:[^#\\]|\\.)*#(?:[^#\\]|\\.)*#)[gpiI0-9]*)?\s*$`)
})

// quietSed reports a sed that runs nothing: its script consists of commands
// that are known.
func quietSed(args []string) bool {
	explicit, seen := false, false
	for i := 0; i < len(args); i++ {
		var script string
		switch a := args[i]; {
		case a == "-e" || a == "--expression":
			if i++; i >= len(args) {
				return false
			}
			script, explicit = args[i], true

		case strings.HasPrefix(a, "-i") || strings.HasPrefix(a, "--in-place"): // with a suffix
			continue
		case len(a) > 1 && a[0] == '-':
			if strings.Trim(a[1:], "nErsuz") != "" {
				return false
			}
			continue

		case explicit || seen:
			continue // a file
		default:
			script = a
		}

		seen = true
		if slices.ContainsFunc(strings.FieldsFunc(script, func(c rune) bool { return c == ';' || c == '\n' }), func(c string) bool { return !sedCommand().MatchString(c) }) {
			return false
		}
	}

	return seen
}

// quietAwk reports an awk that runs nothing: its program is in the command and
// has no pipe, no call of the system and nothing that loads code.
func quietAwk(args []string) bool {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-F" || a == "-v":
			i++
		case strings.HasPrefix(a, "-F") || strings.HasPrefix(a, "-v"):
		case len(a) > 1 && a[0] == '-':
			return false
		default:
			return !isUnknown(a) && !strings.ContainsAny(a, "|@\\") && !strings.Contains(a, "system") && !strings.Contains(a, "getline")
		}
	}
	return false
}
