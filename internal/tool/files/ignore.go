package files

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// noiseName reports names that are never listed or searched below the
// directory asked for: version control, caches and build output.
func noiseName(name string) bool {
	switch name {
	case ".git", "node_modules", "__pycache__", ".venv", "venv", "dist", "build", ".tox", ".mypy_cache",
		".pytest_cache", ".ruff_cache", ".coverage", "htmlcov":
		return true
	}
	return false
}

// ignores are the rules in force in a directory: those of .ignore files and, if
// they say nothing, those of .gitignore files. Hidden files count like others.
type ignores struct {
	own, git *ruleFile
}

// ruleFile is one ignore file; outer ones are asked when it has no answer.
type ruleFile struct {
	outer *ruleFile
	below string // the file's directory, relative to the start of the walk
	above string // the start relative to the file's directory, when that is further up
	rules []ignoreRule
}

type ignoreRule struct {
	negate  bool
	dirOnly bool
	name    nameMatch // for rules without a slash
	elems   []string  // for rules with one
}

// skip reports whether an entry is ignored.
func (g ignores) skip(dir, name string, isDir bool) bool {
	for _, chain := range []*ruleFile{g.own, g.git} {
		for f := chain; f != nil; f = f.outer {
			if ignored, known := f.decide(dir, name, isDir); known {
				return ignored
			}
		}
	}
	return false
}

func (f *ruleFile) decide(dir, name string, isDir bool) (ignored, known bool) {
	var elems []string
	for i := len(f.rules) - 1; i >= 0; i-- { //nolint:modernize // rules are not copied here
		r := &f.rules[i]
		if r.dirOnly && !isDir {
			continue
		}

		if r.elems == nil {
			if r.name.match(name) {
				return !r.negate, true
			}
			continue
		}

		if elems == nil {
			rel := strings.TrimPrefix(strings.TrimPrefix(dir, f.below), "/")
			elems = strings.Split(path.Join(f.above, rel, name), "/")
		}

		if matchElems(r.elems, elems) {
			return !r.negate, true
		}
	}

	return false, false
}

// parseIgnore reads the rules of an ignore file.
func parseIgnore(data []byte) (rules []ignoreRule) {
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		line = strings.TrimRight(line, "\r\n")
		if trimmed := strings.TrimRight(line, " \t"); !strings.HasSuffix(trimmed, `\`) {
			line = trimmed
		}

		if line == "" || line[0] == '#' {
			continue
		}

		var r ignoreRule
		if line, r.negate = strings.CutPrefix(line, "!"); line == "" {
			continue
		}

		line, r.dirOnly = strings.CutSuffix(line, "/")
		if strings.HasPrefix(line, `\#`) || strings.HasPrefix(line, `\!`) {
			line = line[1:]
		}

		line = strings.ReplaceAll(line, "[!", "[^")
		bad := line == ""
		for e := range strings.SplitSeq(line, "/") {
			_, err := path.Match(e, "")
			bad = bad || err != nil
		}

		if bad {
			continue
		}

		if strings.Contains(line, "/") {
			r.elems = strings.Split(strings.TrimPrefix(line, "/"), "/")
		} else {
			r.name = compileName(line)
		}

		rules = append(rules, r)
	}
	return rules
}

// blanket reports rules that ignore everything and then name exceptions, as the
// memory store's .gitignore does in the workspace: they say what is versioned,
// not what is worth searching.
func blanket(rules []ignoreRule) bool {
	for _, r := range rules {
		if r.negate {
			continue
		}
		if r.elems == nil && r.name.glob == "*" || len(r.elems) == 1 && (r.elems[0] == "*" || r.elems[0] == "**") {
			return true
		}
	}
	return false
}

// maxIgnoreBytes bounds an ignore file.
const maxIgnoreBytes = 1 << 20

// enter adds a directory's own ignore files to the inherited rules.
func (g ignores) enter(d *diskio.Dir, rel string, entries []fs.DirEntry, workspace bool) ignores {
	var git, own, repo bool
	for _, e := range entries {
		switch e.Name() {
		case ".gitignore":
			git = true
		case ".ignore":
			own = true
		case ".git":
			repo = true
		}
	}

	if repo {
		g.git = nil // rules end at the border of a repository
		g.git = g.git.with(readExclude(d), rel, workspace)
	}
	if git {
		g.git = g.git.with(readRules(d, ".gitignore"), rel, workspace)
	}
	if own {
		g.own = g.own.with(readRules(d, ".ignore"), rel, false)
	}
	return g
}

func (f *ruleFile) with(rules []ignoreRule, rel string, workspace bool) *ruleFile {
	if len(rules) == 0 || workspace && blanket(rules) {
		return f
	}
	return &ruleFile{outer: f, below: rel, rules: rules}
}

func readRules(d *diskio.Dir, name string) []ignoreRule {
	data, _, err := d.ReadFile(name, maxIgnoreBytes, nil, nil)
	if err != nil {
		return nil
	}
	return parseIgnore(data)
}

func readExclude(d *diskio.Dir) []ignoreRule {
	git, err := d.OpenDir(".git")
	if err != nil {
		return nil
	}

	defer func() { _ = git.Close() }()
	info, err := git.OpenDir("info")
	if err != nil {
		return nil
	}

	defer func() { _ = info.Close() }()
	return readRules(info, "exclude")
}

// inheritedIgnores collects the rules of the directories above the start of a
// walk, up to the border of its repository or else the workspace.
func (f *family) inheritedIgnores(start *diskio.Dir) ignores {
	var g ignores
	top := f.topAbove(start.Path())
	if top == "" {
		return g
	}

	rel, err := filepath.Rel(top, start.Path())
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return g
	}

	elems := strings.Split(filepath.ToSlash(rel), "/")
	for i := range elems {
		dir := filepath.Join(append([]string{top}, elems[:i]...)...)
		d, err := f.jail.OpenDir(dir)
		if err != nil {
			continue
		}

		entries, _ := d.Entries()
		before := g
		g = g.enter(d, "", entries, f.isWorkspace(d))
		above := strings.Join(elems[i:], "/")
		for _, pair := range [][2]*ruleFile{{g.git, before.git}, {g.own, before.own}} {
			for r := pair[0]; r != nil && r != pair[1]; r = r.outer {
				r.above = above
			}
		}

		_ = d.Close()
	}

	return g
}

func (f *family) isWorkspace(d *diskio.Dir) bool { return f.jail.Display(d.Path()) == "." }

// topAbove finds the outermost directory whose ignore files concern path.
func (f *family) topAbove(dir string) string {
	for range 32 {
		parent := filepath.Dir(dir)
		if _, err := f.jail.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if f.jail.Display(dir) == "." {
			return dir
		}
		if parent == dir {
			return ""
		}
		if _, err := f.jail.Stat(parent); err != nil {
			return dir
		}
		dir = parent
	}
	return ""
}
