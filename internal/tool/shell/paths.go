package shell

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// The checks of this file keep an honest command inside the workspace and away
// from protected files. They see the paths that are written in the command; a
// program that builds a path by itself is the sandbox's business, and where
// there is one nothing is guessed from text.

// withLinks returns the guard with every root and protected path also in the form
// that symbolic links give it. Links change, so this is asked again for each
// call.
func (g *guard) withLinks() *guard {
	c := *g
	c.roots = []string{g.workspace}
	c.roots = linked(append(c.roots, g.roots...))
	c.protected = linked(g.protected)

	if g.sandboxed {
		// The kernel keeps the rest away, and it does not guess. Inside the
		// roots not every sandbox can make an exception.
		c.restrict = false
		c.protected = slices.DeleteFunc(c.protected, func(p string) bool { return !c.inside(p) })
	}
	return &c
}

func linked(paths []string) []string {
	out := slices.Clone(paths)
	for _, p := range paths {
		if target, err := filepath.EvalSymlinks(p); err == nil && target != p {
			out = append(out, target)
		}
	}
	return out
}

// inside reports whether a cleaned absolute path lies in the workspace or in
// one of the roots.
func (g *guard) inside(p string) bool {
	return slices.ContainsFunc(g.roots, func(root string) bool { return under(p, root) })
}

func under(p, root string) bool {
	return p == root || strings.HasPrefix(p, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
}

// isProtected reports whether a cleaned absolute path is, or may through its
// wildcards be, a protected file or inside a protected directory.
func (g *guard) isProtected(p string) bool {
	for _, prot := range g.protected {
		if g.opened(p, prot) {
			continue
		}
		if under(p, prot) || strings.EqualFold(p, prot) {
			return true
		}
		if strings.ContainsAny(p, "*?[") && mayMatch(p, prot) {
			return true
		}
	}

	rest, ok := strings.CutPrefix(p, "/proc/")
	if !ok || g.sandboxed {
		return false
	}

	_, file, _ := strings.Cut(strings.TrimPrefix(rest, "self/task/"), "/")
	file, _, _ = strings.Cut(file, "/")
	switch file {
	case "environ", "mem", "maps", "fd", "cwd", "root":
		return true
	}
	return false
}

// opened reports whether a path lies in a root that is itself inside of a
// protected directory, such as a workspace in the folder of our own data.
func (g *guard) opened(p, prot string) bool {
	return slices.ContainsFunc(g.openings(), func(root string) bool { return root != prot && under(root, prot) && under(p, root) })
}

// openings returns the workspace and the roots, whether links were resolved or not.
func (g *guard) openings() []string { return append([]string{g.workspace}, g.roots...) }

// mayMatch compares a path with wildcards, element by element, with a path
// that is at least as long as it or whose parent it reaches.
func mayMatch(pattern, target string) bool {
	pp, tt := strings.Split(pattern, "/"), strings.Split(target, "/")
	if len(pp) < len(tt) {
		return false
	}

	for i, t := range tt {
		if ok, err := path.Match(pp[i], t); err != nil || !ok {
			return false
		}
	}
	return true
}

// join places a path word in the directory the walk stands in; "" if that is unknown.
func (s *scan) join(word string) string {
	switch {
	case filepath.IsAbs(word):
		return filepath.Clean(word)
	case s.cwd == "":
		return ""
	default:
		return filepath.Join(s.cwd, word)
	}
}

// reachAll judges the words of a simple command. all are the commands it
// starts; their names may be absolute paths of installed programs.
func (s *scan) reachAll(argv []string, all [][]string) {
	for _, inner := range all {
		word := inner[0]
		if strings.Contains(word, "/") && !s.g.installed(path.Clean(word)) {
			s.reach(word)
		}
	}

	names := map[string]bool{}
	for _, inner := range all {
		names[inner[0]] = true
	}

	last := all[len(all)-1]
	text := textWords(base(last[0]), last[1:])
	for _, a := range argv {
		switch {
		case names[a]:
		case text[a]:
			s.literalSecrets(a)
		default:
			s.reach(a)
		}
	}

	// A bare cd goes home.
	if n := base(last[0]); (n == "cd" || n == "pushd") && len(operands(last[1:], "")) == 0 {
		s.reach(s.g.home)
	}
}

// installed reports a program of the system or of the search path: naming it
// in full is the same as finding it there.
func (g *guard) installed(program string) bool {
	return slices.ContainsFunc(g.programs, func(dir string) bool { return under(program, dir) })
}

// textWords returns the arguments that are text or patterns, not files: whatever
// echo prints, the expression of sed, the pattern of grep.
func textWords(name string, args []string) map[string]bool {
	text := map[string]bool{}
	switch name {
	case "echo", "printf", "tr", "expr", "basename", "dirname", "seq", "true", "false", ":":
		for _, a := range args {
			text[a] = true
		}
	case "sed", "gsed", "awk", "gawk", "mawk", "grep", "egrep", "fgrep", "rg", "ag", "jq", "perl":
		explicit := false
		for i, a := range args {
			if (a == "-e" || a == "--regexp" || a == "--expression" || a == "-F" || a == "-f" && name == "jq") && i+1 < len(args) {
				text[args[i+1]] = true
				explicit = explicit || a != "-F"
			}
		}

		if ops := operands(args, "efmABCFvg"); !explicit && len(ops) > 0 {
			text[ops[0]] = true
		}

	case "cut", "sort", "column", "paste", "xargs":
		for i, a := range args {
			if (a == "-d" || a == "-t" || a == "-s") && i+1 < len(args) {
				text[args[i+1]] = true
			}
		}
	}

	return text
}

// reach judges one word that may name a file.
func (s *scan) reach(word string) {
	s.literalSecrets(word)
	for _, c := range candidates(word) {
		if c.sure || rooted(c.path) {
			s.path(c.path)
		}
	}
}

// candidate is a part of a word that looks like a path. Unless it is sure, it
// counts only if its first directory exists, because a slash is also a
// division, a delimiter and a part of many names.
type candidate struct {
	path string
	sure bool
}

func candidates(word string) []candidate {
	if rest, ok := strings.CutPrefix(word, "file://"); ok {
		return []candidate{{"/" + strings.TrimLeft(rest, "/"), true}}
	}
	if strings.Contains(word, "://") {
		return nil
	}
	if strings.ContainsAny(word, " \t\n(") {
		return quotedPaths(word)
	}

	var out []candidate
	if !strings.HasPrefix(word, "-") {
		out = append(out, candidate{word, true})
	} else if len(word) > 2 && word[1] != '-' && (strings.Contains(word[2:], "/") || strings.HasPrefix(word[2:], "..")) {
		out = append(out, candidate{word[2:], false}) // -I/usr/include
	}

	if _, v, ok := strings.Cut(word, "="); ok {
		out = append(out, candidate{v, strings.HasPrefix(word, "-")})
	}
	if v, ok := strings.CutPrefix(word, "@"); ok {
		out = append(out, candidate{v, true}) // curl -d @file
	}

	if strings.Contains(word, ":") {
		for v := range strings.SplitSeq(word, ":") {
			out = append(out, candidate{v, false}) // search paths, mounts, remote copies
		}
	}
	return out
}

// quotedPaths finds absolute paths inside a program text such as the argument
// of python -c.
func quotedPaths(text string) []candidate {
	var out []candidate
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`()[]{},;=<>|&", r) }) {
		if strings.HasPrefix(w, "/") && len(w) > 1 || strings.HasPrefix(w, "~/") || strings.HasPrefix(w, "../") {
			out = append(out, candidate{w, false})
		}
	}
	return out
}

// rooted reports whether an absolute path starts with a directory that exists;
// other paths are taken as they are.
func rooted(p string) bool {
	if !strings.HasPrefix(p, "/") {
		return strings.HasPrefix(p, "~") || strings.Contains(p, "..")
	}
	first, _, _ := strings.Cut(strings.TrimLeft(p, "/"), "/")
	if first == "" {
		return false
	}
	_, err := os.Lstat("/" + first)
	return err == nil
}

// path judges one path.
func (s *scan) path(p string) {
	if p == "" || len(p) > 4096 || s.outside != nil {
		return
	}

	if p == "~" || strings.HasPrefix(p, "~/") {
		p = s.g.home + p[1:]
	}

	if strings.HasPrefix(p, "~") && len(p) < 64 && !strings.HasPrefix(p, "~$") {
		s.leave(p)
		return
	}

	up := slices.Contains(strings.Split(p, "/"), "..")
	if i := strings.IndexAny(p, unknownSet); i >= 0 {
		// Only the part before the unknown can be judged.
		if i == 0 || up {
			if up {
				s.leave(p)
			}
			return
		}

		p = p[:strings.LastIndex(p[:i], "/")+1]
		if p == "" {
			return
		}
	}

	full := s.join(p)
	if full == "" {
		if up {
			s.leave(p)
		}
		return
	}

	if s.g.isProtected(full) {
		s.protect(p)
		return
	}

	target := diskio.ResolveExisting(staticPrefix(full))
	if s.g.isProtected(target) {
		s.protect(p)
		return
	}
	if !s.g.restrict || harmlessDevice(full) {
		return
	}

	if !s.g.inside(target) {
		s.leave(p)
	}
}

func (s *scan) leave(p string) {
	if s.g.restrict {
		s.forbid(fmt.Sprintf("%q is outside the workspace", strings.Map(visible, p)),
			"Only paths inside "+s.g.workspace+" may be used.")
	}
}

func (s *scan) protect(p string) {
	s.forbid(fmt.Sprintf("%q is protected", strings.Map(visible, p)), "It holds secrets or the agent's own state; work without it.")
}

// visible shows the characters that stand for unknown parts of a word as "?".
func visible(r rune) rune {
	if strings.ContainsRune(unknownSet, r) {
		return '?'
	}
	return r
}

// literalSecrets refuses a protected path wherever it stands in a word, for
// example inside the text of a script.
func (s *scan) literalSecrets(word string) {
	for _, prot := range s.g.protected {
		rest := word
		for _, root := range s.g.openings() {
			if root != prot && under(root, prot) {
				rest = without(rest, s.spellings(root))
			}
		}

		for _, sp := range s.spellings(prot) {
			if i := strings.Index(rest, sp); i >= 0 && boundary(rest[i+len(sp):]) {
				s.protect(sp)
			}
		}
	}
}

// spellings returns the ways to write a path.
func (s *scan) spellings(p string) []string {
	out := []string{p}
	if rel, ok := strings.CutPrefix(p, strings.TrimSuffix(s.g.home, "/")+"/"); ok {
		out = append(out, "~/"+rel, "$HOME/"+rel, "${HOME}/"+rel)
	}
	return out
}

// without returns a text without the paths that begin with one of these, as far as
// they do not lead back up.
func without(text string, paths []string) string {
	for _, p := range paths {
		for at := 0; ; {
			i := strings.Index(text[at:], p)
			if i < 0 {
				break
			}

			i += at
			tail := text[i+len(p):]
			if end := strings.IndexAny(tail, "'\"` \t\n);,:|&<>]}"); end >= 0 {
				tail = tail[:end]
			}

			if !boundary(tail) || strings.Contains(tail, "..") {
				at = i + len(p)
				continue
			}

			text = text[:i] + text[i+len(p):]
			at = i
		}
	}
	return text
}

func boundary(rest string) bool {
	return rest == "" || strings.ContainsRune("/'\"` \t\n);,:|&<>]}", rune(rest[0]))
}

// staticPrefix returns the directory above the first wildcard.
func staticPrefix(p string) string {
	i := strings.IndexAny(p, "*?[")
	if i < 0 {
		return p
	}
	return filepath.Dir(p[:i] + "x")
}

func harmlessDevice(p string) bool {
	rest, ok := strings.CutPrefix(p, "/dev/")
	if !ok {
		return false
	}
	switch rest {
	case "null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty":
		return true
	}
	return strings.HasPrefix(rest, "fd/")
}

// errOutside says that a path leads out of the places that are open.
var errOutside = errors.New("it leads outside")

// resolveInside resolves the links of a path whose every step is inside. It
// looks at nothing else: whether there is something behind a link that leads
// outside makes no difference.
func resolveInside(path string, inside func(string) bool) (string, error) {
	const most = 40 // links, as in the kernel
	for range most {
		if !inside(path) {
			return "", errOutside
		}

		root := path
		for up := filepath.Dir(root); up != root && inside(up); up = filepath.Dir(root) {
			root = up
		}

		next, err := followLink(root, path)
		if err != nil {
			return "", err
		}
		if next == "" {
			return filepath.EvalSymlinks(path) // what is left are links above the root
		}
		path = next
	}

	return "", errors.New("too many links")
}

// followLink returns a path with its first link below root replaced by what it names,
// "" when there is none.
func followLink(root, path string) (string, error) {
	rest, err := filepath.Rel(root, path)
	if err != nil || rest == "." {
		return "", err
	}

	at := root
	parts := strings.Split(rest, string(filepath.Separator))
	for i, part := range parts {
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}

		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(next)
			if err != nil {
				return "", err
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(at, target)
			}
			return filepath.Join(append([]string{target}, parts[i+1:]...)...), nil
		}

		at = next
	}

	return "", nil
}
