package guard

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/origin"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/approve"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// maxOutside bounds the files that a question is about.
const maxOutside = 16

// outside names the files from outside that a command is going to run or build.
// Commands of guests need no question: all their files are from outside.
func (t *tracker) outside(c tool.Call, command, dir string) []approve.Outside {
	found := t.outsideOf(c, c.Project.Dir, command, dir)
	if c.Project.Started && t.posture.Sandbox == sandbox.None { // else it does not reach the workspace
		found = append(found, t.outsideOf(c, "", command, dir)...)
	}
	return found[:min(len(found), maxOutside)]
}

// outsideOf is outside for the files of one folder; "" is the workspace.
func (t *tracker) outsideOf(c tool.Call, root, command, dir string) []approve.Outside {
	if c.Scope != "" {
		return nil
	}
	rec, err := t.origins.of(root)
	if err != nil || rec == nil {
		return nil // without a record nothing runs
	}
	if root == "" {
		root = t.jail.Workspace()
	}
	m := &marks{rec: rec, root: resolved(root), always: slices.DeleteFunc([]string{t.media, t.share}, func(p string) bool { return p == "" })}
	if command == "" {
		m.open()
		return m.found
	}
	m.judge(shell.RunsOf(command, dir), c.Tainted)
	return m.found
}

// marks compares what a command runs with the record.
type marks struct {
	rec    *origin.Store
	root   string   // that names are shown relative to
	always []string // folders in which everything came from outside
	found  []approve.Outside
}

// judge looks at everything a command runs. Code that stands in the command is
// the turn's own: a tainted turn is judged by other rules.
func (m *marks) judge(r shell.Runs, tainted bool) {
	files, dirs := r.Files, r.Dirs
	if !tainted {
		files, dirs = slices.Concat(files, r.InlineFiles), slices.Concat(dirs, r.InlineDirs)
	}
	for _, u := range files {
		m.path(u)
	}
	for _, u := range dirs {
		m.folder(u, false)
	}
	for _, u := range r.Repos {
		m.repository(u.Path)
	}
	if r.Open || m.moved(r, slices.Concat(files, dirs)) {
		m.open()
	}
}

func (m *marks) full() bool { return len(m.found) >= maxOutside }

// add notes something that runs. What lies in a folder that came from outside as
// a whole stands for it: one yes is enough for a clone.
func (m *marks) add(path, at, key, covers string) {
	if whole := m.whole(path); whole != "" {
		at, key, covers = whole, "folder\x00"+whole, "what is in "+quoted(m.name(whole))
	}
	o := approve.Outside{Name: m.name(path), Key: key, At: at, Covers: covers}
	if !m.full() && !slices.Contains(m.found, o) {
		m.found = append(m.found, o)
	}
}

// whole is the outermost folder around a path in which everything came from
// outside; "" if there is none.
func (m *marks) whole(path string) string {
	for _, dir := range m.always {
		if diskio.Within(path, resolved(dir)) {
			return resolved(dir)
		}
	}
	return m.rec.Folder(path)
}

// path looks at something that a program is given, by its name and by what
// links make of it.
func (m *marks) path(u shell.Use) {
	for i, path := range []string{u.Path, resolved(u.Path)} {
		info, err := os.Lstat(path)
		if err != nil || i > 0 && path == u.Path || m.full() {
			return
		}
		if !m.recorded(path) {
			continue
		}
		if info.IsDir() {
			m.folder(shell.Use{Path: path, Program: u.Program}, true)
			continue
		}
		if m.foreign(path) {
			m.file(path)
		}
	}
}

// recorded reports a place that the record is about: programs of the system and
// their folders are not.
func (m *marks) recorded(path string) bool {
	return diskio.Within(path, m.root) || slices.ContainsFunc(m.always, func(dir string) bool { return diskio.Within(path, resolved(dir)) })
}

func (m *marks) foreign(path string) bool { return m.whole(path) != "" || m.rec.Foreign(path) }

// file notes a file, with the content it has now.
func (m *marks) file(path string) {
	key, covers := "", ""
	if sum, ok := origin.Sum(path); ok {
		key, covers = "file\x00"+path+"\x00"+hex.EncodeToString(sum[:]), quoted(m.name(path))+" as it is now"
	}
	m.add(path, "", key, covers)
}

// folder looks at a folder that a program starts in, or is given.
func (m *marks) folder(u shell.Use, deep bool) {
	dir := resolved(u.Path)
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !m.recorded(dir) {
		return
	}
	if m.whole(dir) != "" {
		m.add(dir, "", "", "")
		return
	}
	for _, path := range m.rec.Held(dir, deep, maxOutside) {
		m.add(path, dir, "dir\x00"+dir+"\x00"+u.Program, quoted(u.Program)+" in "+quoted(m.name(dir)))
	}
}

// repository looks at what git reads its orders from. Settings that start no
// program, which is what a clone has, are no orders.
func (m *marks) repository(dir string) {
	for dir = resolved(dir); diskio.Within(dir, m.root); dir = filepath.Dir(dir) {
		at := filepath.Join(dir, ".git")
		info, err := os.Lstat(at)
		if err != nil {
			continue
		}
		if !info.IsDir() { // the settings are somewhere else
			m.path(shell.Use{Path: at, Program: "git"})
			return
		}
		for _, name := range []string{"config", "config.worktree"} {
			path := filepath.Join(at, name)
			if _, err := os.Lstat(path); err == nil && m.foreign(path) && !plainGitConfig(path) {
				m.file(path)
			}
		}
		for _, path := range m.rec.Held(filepath.Join(at, "hooks"), false, maxWatchedHooks) {
			if !strings.HasSuffix(path, ".sample") {
				m.file(path)
			}
		}
		return
	}
}

// maxWatchedHooks bounds the hooks of a repository that are looked at.
const maxWatchedHooks = 256

// plainGitConfig reports settings of a repository that git and clones write
// themselves and that name no program.
func plainGitConfig(path string) bool {
	tree, err := diskio.OpenTreeAt(filepath.Dir(path))
	if err != nil {
		return false
	}
	defer tree.Close() //nolint:errcheck // read only
	b, err := tree.ReadFile(filepath.Base(path), 64<<10)
	if err != nil || strings.Contains(string(b), "\\\n") {
		return false
	}
	section := ""
	for line := range strings.Lines(strings.ToLower(string(b))) {
		line = strings.TrimSpace(line)
		switch name, _, _ := strings.Cut(line, "="); {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			head, rest, _ := strings.Cut(line[1:], "]")
			if rest != "" {
				return false
			}
			section, _, _ = strings.Cut(head, " ")
		default:
			switch section + "." + strings.TrimSpace(name) {
			case "core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase", "core.precomposeunicode", "core.symlinks",
				"remote.url", "remote.fetch", "branch.remote", "branch.merge", "branch.rebase", "user.name", "user.email", "init.defaultbranch", "submodule.active", "submodule.url":
			default:
				return false
			}
		}
	}
	return true
}

// moved reports whether a command may run what another part of it puts in place,
// from files that came from outside or from the network.
func (m *marks) moved(r shell.Runs, uses []shell.Use) bool {
	runs := slices.ContainsFunc(uses, func(u shell.Use) bool {
		return slices.ContainsFunc(r.Targets, func(t shell.Use) bool { return diskio.Within(u.Path, t.Path) })
	})
	if !runs || r.Fetched {
		return runs
	}
	probe := &marks{rec: m.rec, root: m.root, always: m.always}
	for _, u := range r.Sources {
		probe.path(u)
	}
	return len(probe.found) > 0
}

// open notes that a command may run anything it can read. Only the same call can
// be allowed for longer.
func (m *marks) open() {
	names := m.rec.Held(m.root, true, maxOutside)
	if len(names) == 0 {
		if example := filepath.FromSlash(m.rec.Example(m.root)); filepath.IsAbs(example) { // beside the workspace
			names = []string{example}
		} else if example != "" {
			names = []string{filepath.Join(m.root, example)}
		}
	}
	for _, path := range names {
		m.found = append(m.found, approve.Outside{Name: m.name(path)})
	}
}

// name is a path for people: relative to the folder of the conversation.
func (m *marks) name(path string) string {
	if rel, err := filepath.Rel(m.root, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

func quoted(name string) string { return `"` + name + `"` }
