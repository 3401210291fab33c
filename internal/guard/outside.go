package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

const (
	// maxOutside limits how many files one question lists.
	maxOutside = 16
	// maxHeld limits the files from outside that a lasting answer covers, where a
	// folder holds files of the owner, too.
	maxHeld = 4096
	// maxState limits the entries that are looked at to sum up a folder. An answer
	// about a larger one does not last.
	maxState = 20_000
)

// outside returns the files from outside that a command would run or build.
// Commands of guests are not asked about: all their files are from outside.
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
		return nil // the command is refused without a record
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

// marks collects what a command runs that the record marks as from outside.
type marks struct {
	rec    *origin.Store
	root   string   // names are shown relative to it
	always []string // folders in which everything came from outside
	found  []approve.Outside
	states map[string]string // of folders that were summed up
}

// judge checks everything that a command runs. Code in the command line itself
// belongs to the turn: the rules for tainted turns cover it.
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

// add records something that runs. A file in a folder that came from outside as a
// whole is recorded as that folder, so that one approval covers a clone. What git
// keeps for itself is not part of the folder, since git changes it all the time.
func (m *marks) add(path string, o approve.Outside) {
	o.Name = m.name(path)
	if whole := m.whole(path); whole != "" && !ofGit(path) {
		o = approve.Outside{Name: o.Name, At: whole}
		if state, ok := m.state(whole); ok {
			o.State = state
			o.Key, o.Covers = "folder\x00"+whole, "what is in "+quoted(m.name(whole))+" as it is now"
		}
	}

	if !m.full() && !slices.Contains(m.found, o) {
		m.found = append(m.found, o)
	}
}

// state sums up what files and folders hold at this moment; false if that is too
// much. Contents are told by what no program can set back, the time of the last
// change of the inode, since thousands of files are not read for each command.
func (m *marks) state(paths ...string) (string, bool) {
	key := strings.Join(paths, "\x00")
	if known, ok := m.states[key]; ok {
		return known, known != ""
	}

	h, left := sha256.New(), maxState
	for _, path := range paths {
		_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error { //nolint:gosec // a path of the record
			if left--; left < 0 {
				return fs.SkipAll
			}
			if err != nil {
				_, _ = fmt.Fprintf(h, "%q unreadable\n", path)
				return nil //nolint:nilerr // a command cannot read it either
			}

			if e.IsDir() {
				if e.Name() == gitFolder {
					return fs.SkipDir
				}
				return nil // its files tell
			}

			info, err := e.Info()
			if err != nil {
				return nil //nolint:nilerr // it is gone
			}

			_, _ = fmt.Fprintf(h, "%q %v %d %d %d\n",
				path, info.Mode(), info.Size(), info.ModTime().UnixNano(), origin.Changed(path).UnixNano())
			return nil
		})
	}

	sum := ""
	if left >= 0 {
		sum = hex.EncodeToString(h.Sum(nil))
	}
	if m.states == nil {
		m.states = map[string]string{}
	}

	m.states[key] = sum
	return sum, sum != ""
}

const gitFolder = ".git"

// ofGit reports whether a path is or lies in a folder of git.
func ofGit(path string) bool {
	return slices.Contains(strings.Split(filepath.ToSlash(path), "/"), gitFolder)
}

// whole returns the outermost folder around a path in which everything came from
// outside, or "".
func (m *marks) whole(path string) string {
	for _, dir := range m.always {
		if diskio.Within(path, resolved(dir)) {
			return resolved(dir)
		}
	}
	return m.rec.Folder(path)
}

// path checks an argument of a program, both by its name and by the target of its
// links.
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

// recorded reports whether the record covers a path. It does not cover programs of
// the system and their folders.
func (m *marks) recorded(path string) bool {
	return diskio.Within(path, m.root) || slices.ContainsFunc(m.always, func(dir string) bool { return diskio.Within(path, resolved(dir)) })
}

func (m *marks) foreign(path string) bool { return m.whole(path) != "" || m.rec.Foreign(path) }

// file records a file with its current content.
func (m *marks) file(path string) {
	key, covers := "", ""
	if sum, ok := origin.Sum(path); ok {
		key, covers = "file\x00"+path+"\x00"+hex.EncodeToString(sum[:]), quoted(m.name(path))+" as it is now"
	}
	m.add(path, approve.Outside{Key: key, Covers: covers})
}

// folder checks a folder that a program starts in or takes as an argument.
func (m *marks) folder(u shell.Use, deep bool) {
	dir := resolved(u.Path)
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !m.recorded(dir) {
		return
	}
	if m.whole(dir) != "" {
		m.add(dir, approve.Outside{})
		return
	}

	held := m.rec.Held(dir, deep, maxHeld)
	o := approve.Outside{At: dir}
	if state, ok := m.state(held...); ok && len(held) < maxHeld {
		o.State = state
		o.Key, o.Covers = "dir\x00"+dir+"\x00"+u.Program, quoted(u.Program)+" in "+quoted(m.name(dir))+" as it is now"
	}

	for _, path := range held[:min(len(held), maxOutside)] {
		m.add(path, o)
	}
}

// repository checks the files from which git starts programs: hooks and settings.
// Settings that start no program, as in a fresh clone, do not count. All folders
// above are looked at, since what is not a repository does not end git's search.
func (m *marks) repository(dir string) {
	for dir = resolved(dir); diskio.Within(dir, m.root); dir = filepath.Dir(dir) {
		if bareRepository(dir) {
			m.gitDir(dir)
		}

		at := filepath.Join(dir, ".git")
		info, err := os.Lstat(at)
		switch {
		case err != nil:
		case info.IsDir():
			m.gitDir(at)
		default: // a link, or a file with the name of the folder
			m.path(shell.Use{Path: at, Program: "git"})
			m.gitDir(linkedGitDir(at))
		}

		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// gitDir checks a folder of git, with those of the submodules and worktrees that
// it holds: git status looks at them as well.
func (m *marks) gitDir(at string) {
	m.gitSettings(at)
	for _, pattern := range []string{"modules/*", "modules/*/*", "modules/*/modules/*", "worktrees/*"} {
		found, _ := filepath.Glob(filepath.Join(literalGlob(at), filepath.FromSlash(pattern))) // the pattern is right
		for _, inner := range found[:min(len(found), maxWatchedHooks)] {
			m.gitSettings(inner)
		}
	}

	// A worktree has its settings in the folder that commondir names.
	if b, err := os.ReadFile(filepath.Join(at, "commondir")); err == nil {
		if common := strings.TrimSpace(string(b)); common != "" {
			m.path(shell.Use{Path: filepath.Join(at, "commondir"), Program: "git"})
			m.gitSettings(joined(at, common))
		}
	}
}

// gitSettings checks the settings and hooks of one folder of git.
func (m *marks) gitSettings(at string) {
	for _, name := range []string{"config", "config.worktree"} {
		path := resolved(filepath.Join(at, name))
		_, err := os.Lstat(path) //nolint:gosec // it is only looked at, and the record decides about it
		if err == nil && m.recorded(path) && m.foreign(path) && !plainGitConfig(path) {
			m.file(path)
		}
	}

	hooks := resolved(filepath.Join(at, "hooks"))
	found := m.rec.Held(hooks, false, maxWatchedHooks)
	if m.recorded(hooks) && m.whole(hooks) != "" { // such as the shared folder, which has no record
		found = nil
		list, _ := os.ReadDir(hooks)
		for _, e := range list[:min(len(list), maxWatchedHooks)] {
			found = append(found, filepath.Join(hooks, e.Name()))
		}
	}

	for _, path := range found {
		if !strings.HasSuffix(path, ".sample") {
			m.file(path)
		}
	}
}

// bareRepository reports whether git takes a folder itself for a repository.
func bareRepository(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// linkedGitDir returns the folder that a .git which is not a folder stands
// for.
func linkedGitDir(at string) string {
	b, err := os.ReadFile(at) // a link to a folder is none to read
	if err != nil {
		return resolved(at)
	}
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir:")
	if !ok {
		return resolved(at)
	}
	return resolved(joined(filepath.Dir(at), strings.TrimSpace(dir)))
}

// joined is a path that may be relative to a folder.
func joined(dir, path string) string {
	if path = filepath.FromSlash(path); filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// literalGlob is a path as part of a pattern.
func literalGlob(path string) string {
	if runtime.GOOS == "windows" { // there is no escape, and no such file names
		return path
	}
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// maxWatchedHooks limits how many hooks of a repository are checked.
const maxWatchedHooks = 256

// plainGitConfig reports whether a repository has only settings that git itself
// writes and that name no program.
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

// moved reports whether one part of a command may run a file that another part
// creates from files from outside or from the network.
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

// open records that a command may run anything it can read. A lasting approval
// then covers only the identical call.
func (m *marks) open() {
	names := m.rec.Held(m.root, true, maxHeld)
	if len(names) == 0 {
		if example := filepath.FromSlash(m.rec.Example(m.root)); filepath.IsAbs(example) { // beside the workspace
			names = []string{example}
		} else if example != "" {
			names = []string{filepath.Join(m.root, example)}
		}
	}

	state, _ := m.state(names...)
	if len(names) == maxHeld {
		state = ""
	}

	for _, path := range names[:min(len(names), maxOutside)] {
		m.found = append(m.found, approve.Outside{Name: m.name(path), State: state})
	}
}

// name returns a path as it is shown: relative to the conversation's folder.
func (m *marks) name(path string) string {
	if rel, err := filepath.Rel(m.root, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

func quoted(name string) string { return `"` + name + `"` }
