package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Match says whether a command does what a rule names.
type Match int

// The answers. Perhaps is what only the run decides: a word that depends on
// output or on the environment, a script, an interpreter, an alias.
const (
	Never Match = iota
	Perhaps
	Surely
)

// Matches reports whether a command, or anything that its text makes it start,
// is one that the words of a rule name: a program, perhaps a subcommand, other
// words and options. It looks at what the shell would run: quotes, constant
// variables, wrappers such as env, options before a subcommand, scripts in the
// text, functions and aliases make no difference.
func Matches(command, rule string) Match {
	want := strings.Fields(rule)
	if len(want) == 0 {
		return Surely
	}

	file, bad := parse(command, "the command")
	if bad != nil {
		return Perhaps
	}

	m := &matcher{want: newInvocation(want), words: want, aliases: map[string][]string{}, defined: map[string]bool{}}
	for n := range syntax.Preorder(file) {
		if f, ok := n.(*syntax.FuncDecl); ok && f.Name != nil {
			m.defined[f.Name.Value] = true
		}
	}

	s := &scan{g: &guard{}, vars: map[string]string{}, each: m.see, unseen: m.perhaps}
	s.walk(file)
	for n := range syntax.Preorder(file) {
		if a, ok := n.(*syntax.Assign); ok && a.Name != nil && a.Value != nil {
			m.variable(a.Name.Value, s.literal(a.Value))
		}
	}
	return m.found
}

// variable looks at a variable that a command is given: its value may be what a
// program runs.
func (m *matcher) variable(name, value string) {
	if dangerousVariable(name) || strings.ContainsAny(value, " \t/") {
		m.perhaps()
	}
}

// matcher compares what a walk comes by with a rule.
type matcher struct {
	words   []string // of the rule
	want    invocation
	found   Match
	aliases map[string][]string
	defined map[string]bool // functions; what is in them is seen for itself
	depth   int
}

func (m *matcher) perhaps() { m.found = max(m.found, Perhaps) }

// see judges a simple command and those it starts through wrappers.
func (m *matcher) see(all [][]string) {
	open := false // the wrapper adds words that the text does not show
	for _, argv := range all {
		name := base(argv[0])
		if m.alias(name, argv) {
			return
		}

		if name == "env" || name == "sudo" || name == "doas" {
			for _, w := range argv[1:] {
				if key, value, ok := strings.Cut(w, "="); ok && !strings.HasPrefix(key, "-") {
					m.variable(key, value)
				}
			}
		}

		if slices.ContainsFunc(argv, func(w string) bool { return strings.Contains(w, "{}") }) || open {
			argv = append(slices.Clone(argv), unknownText)
		}

		open = open || name == "xargs" || name == "gxargs" || name == "parallel"
		m.found = max(m.found, m.judge(argv))
		if !m.defined[argv[0]] && opaque(name, argv) {
			m.perhaps()
		}
	}
}

// alias follows names that the text itself defines.
func (m *matcher) alias(name string, argv []string) bool {
	if name == "alias" {
		for _, a := range argv[1:] {
			if key, text, ok := strings.Cut(a, "="); ok {
				m.aliases[key] = strings.Fields(text)
				m.see([][]string{append(strings.Fields(text), unknownText)})
			}
		}
		return true
	}

	words, ok := m.aliases[argv[0]]
	if !ok || len(words) == 0 || m.depth > 4 {
		return false
	}

	m.depth++
	m.see(effective(append(slices.Clone(words), argv[1:]...)))
	m.depth--
	return true
}

// judge compares one command with the rule.
func (m *matcher) judge(argv []string) Match {
	if isUnknown(argv[0]) || strings.ContainsAny(argv[0], "*?[") && len(argv[0]) > 1 {
		return Perhaps
	}

	got, rule := newInvocation(argv), strings.Join(m.words, " ")
	if strings.Contains(got.text(), rule) || strings.Contains(strings.Join(argv, " "), rule) {
		return Surely
	}
	if got.program == m.want.program {
		return got.compare(m.want)
	}
	return m.within(argv)
}

// within looks for a rule that begins in the middle of a command, such as a
// name of a file.
func (m *matcher) within(argv []string) Match {
	if len(m.words) == 1 {
		if strings.ContainsAny(m.words[0], "/.") && slices.ContainsFunc(argv[1:], isUnknown) {
			return Perhaps
		}
		return Never
	}

	for i := 1; i < len(argv); i++ {
		if argv[i] != m.words[0] {
			continue
		}
		for j, w := range m.words[1:] {
			switch k := i + 1 + j; {
			case k >= len(argv):
			case isUnknown(argv[k]):
				return Perhaps
			case argv[k] == w:
				continue
			}
			break
		}
	}

	return Never
}

// invocation is a command taken apart: the program without its directory, the
// subcommand and other words, and the options. Options that stand before the
// subcommand are left out where we know them.
type invocation struct {
	program string
	sub     bool     // words[0] is a subcommand for sure
	words   []string // no options
	options []string
	unknown bool // words or options that only the run decides
	other   bool // the subcommand may be another one: an alias, or one that the run puts before it
}

func newInvocation(argv []string) invocation {
	inv := invocation{program: base(argv[0])}
	rest := argv[1:]
	g, ok := globalsOf(inv.program)
	if ok {
		var open bool
		rest, open = g.skip(rest)
		inv.sub = len(rest) > 0
		inv.other = open || inv.sub && g.builtin != "" && !slices.Contains(strings.Fields(g.builtin), rest[0])
	}

	for i, w := range rest {
		switch {
		case isUnknown(w) || strings.ContainsAny(w, "*?["): // a pattern becomes what is there
			inv.unknown = true
			w += unknownText
			if !strings.HasPrefix(w, "-") {
				inv.words = append(inv.words, w)
			}

		case w == "--":
			inv.words = append(inv.words, rest[i+1:]...)
			inv.unknown = inv.unknown || slices.ContainsFunc(rest[i+1:], isUnknown)
			return inv
		case len(w) > 1 && w[0] == '-':
			inv.options = append(inv.options, w)
		default:
			inv.words = append(inv.words, w)
		}
	}

	return inv
}

// text returns the command in one spelling.
func (inv invocation) text() string {
	return strings.Join(slices.Concat([]string{inv.program}, inv.words, inv.options), " ")
}

// compare reports whether a command of the same program has the words and the
// options that a rule wants.
func (inv invocation) compare(want invocation) Match {
	return min(inv.compareWords(want.words), inv.compareOptions(want.options))
}

func (inv invocation) compareWords(want []string) Match {
	for i, w := range want {
		switch {
		case i >= len(inv.words):
			if inv.unknown || inv.other {
				return Perhaps
			}
			return Never

		case isUnknown(inv.words[i]):
			return Perhaps // it may also be several words
		case inv.words[i] == w:
		case i == 0 && inv.sub && inv.other:
			return Perhaps
		case i == 0 && inv.sub:
			return Never
		default:
			return inv.scattered(want)
		}
	}
	return Surely
}

// scattered is for programs whose options we do not know: some of the words may
// be values of them.
func (inv invocation) scattered(want []string) Match {
	if inv.unknown {
		return Perhaps
	}

	rest := inv.words
	for _, w := range want {
		i := slices.Index(rest, w)
		if i < 0 {
			return Never
		}
		rest = rest[i+1:]
	}

	return Perhaps
}

// compareOptions finds options in clusters and abbreviations. Whether a long
// and a short one mean the same is not known.
func (inv invocation) compareOptions(want []string) Match {
	out := Surely
	for _, w := range want {
		out = min(out, inv.hasOption(w))
	}
	return out
}

func (inv invocation) hasOption(want string) Match {
	long := strings.HasPrefix(want, "--")
	letters, name := "", want
	other := inv.unknown
	for _, o := range inv.options {
		switch bare, _, _ := strings.Cut(o, "="); {
		case o == want || bare == want:
			return Surely
		case strings.HasPrefix(o, "--"):
			if long && len(bare) > 2 && strings.HasPrefix(name, bare) {
				return Surely // an abbreviation
			}
			other = other || !long

		default:
			letters += o[1:]
			other = other || long
		}
	}

	if !long {
		missing := strings.Trim(want[1:], letters)
		if letters != "" && missing == "" {
			return Surely
		}
	}

	if other {
		return Perhaps
	}
	return Never
}

// globals are the options of a program that stand before its subcommand.
type globals struct {
	values  string // that take the next word
	builtin string // subcommands that cannot be aliases; "" where there are no aliases
}

func globalsOf(program string) (globals, bool) {
	switch program {
	case "git":
		return globals{
			values: "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source --list-cmds",
			builtin: "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout cherry cherry-pick clean clone commit config count-objects describe diff " +
				"difftool fetch format-patch fsck gc grep gui help init log ls-files ls-remote ls-tree merge merge-base mergetool mv notes prune pull push range-diff rebase reflog remote repack " +
				"replace request-pull reset restore rev-list rev-parse revert rm send-email shortlog show show-branch show-ref sparse-checkout stash status submodule switch tag update-index " +
				"update-ref verify-commit verify-tag version whatchanged worktree write-tree",
		}, true

	case "docker", "podman":
		return globals{values: "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey --root --runroot --storage-driver --url --connection"}, true
	case "kubectl", "helm", "oc":
		return globals{values: "-n --namespace --context --kubeconfig --cluster --user --as -s --server --token --request-timeout -v"}, true
	case "npm", "pnpm", "yarn":
		return globals{values: "-C --prefix --dir --cwd -w --workspace --filter --loglevel --userconfig --registry --cache"}, true
	case "go":
		return globals{values: "-C"}, true
	case "cargo":
		return globals{values: "-C --config -Z --color --manifest-path"}, true
	case "gh":
		return globals{values: "-R --repo"}, true
	case "systemctl":
		return globals{values: "-H --host -M --machine -t --type -s --signal -p --property -n -o --root"}, true
	case "apt", "apt-get":
		return globals{values: "-o -c -t --option --config-file --target-release"}, true
	case "pip", "pip3", "uv":
		return globals{values: "--python --log --proxy --cache-dir --directory --project"}, true
	case "terraform", "tofu":
		return globals{}, true
	}
	return globals{}, false
}

// skip leaves out the options before the subcommand. open says that one of
// their values is known only to the run: it may be several words, of which one
// is the subcommand.
func (g globals) skip(args []string) (rest []string, open bool) {
	for len(args) > 0 {
		a := args[0]
		switch {
		case a == "--" || len(a) < 2 || a[0] != '-' && a[0] != '+' || isUnknown(a):
			return args, open
		case slices.Contains(strings.Fields(g.values), a):
			open = open || len(args) > 1 && isUnknown(args[1])
			args = args[min(2, len(args)):]
		default:
			args = args[1:]
		}
	}
	return nil, open
}

// opaque reports programs that may run what the command does not show: a file,
// their input, a text in another language. Those are all but the ones that are
// known to run nothing, and those whose words say what they run.
func opaque(name string, argv []string) bool {
	args := argv[1:]
	switch {
	case strings.Contains(argv[0], "/") && !systemProgram(argv[0]):
		return true
	case isShell(name):
		return !shellArgs(args).hasText
	case name == "git":
		return gitRunsOthers(args)
	}

	if w, ok := wrapperOf(name); ok && (len(args) == 0 || query(name, argv) || len(w.inner(args)) > 0) {
		return false
	}
	return !quiet(name, args)
}

// gitRunsOthers reports options and subcommands by which git starts what they
// name.
func gitRunsOthers(args []string) bool {
	for i, a := range args {
		lower := strings.ToLower(a)
		switch {
		case strings.HasPrefix(a, "--exec-path=") || strings.HasPrefix(a, "--config-env"), a == "--exec" || strings.HasPrefix(a, "--exec="), a == "-x" && slices.Contains(args, "rebase"):
			return true
		case (a == "foreach" || a == "run") && i > 0 && (args[i-1] == "submodule" || args[i-1] == "bisect"), a == "filter-branch":
			return true
		case i > 0 && args[i-1] == "-c" && (strings.HasPrefix(lower, "alias.") || strings.Contains(a, "!") || isUnknown(a)):
			return true
		}
	}
	return false
}

// systemProgram reports programs in directories that are not the project's.
func systemProgram(name string) bool {
	dir := path.Dir(path.Clean(name))
	for _, system := range []string{"/usr", "/bin", "/sbin", "/opt", "/nix", "/snap"} {
		if dir == system || strings.HasPrefix(dir, system+"/") {
			return !isUnknown(name)
		}
	}
	return false
}
