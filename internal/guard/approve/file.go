package approve

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file holds what a name in a call stands for.
type file struct {
	name     string
	abs      string // without links as far as it exists
	dev, ino uint64 // of the file, or of the nearest directory that exists
	info     fs.FileInfo
	err      error // why it cannot be used; fs.ErrNotExist for a new file
}

// file looks at a name through the jail.
func (p *Policy) file(name string) file {
	f := file{name: name}
	if f.abs, f.err = p.Jail.Path(name); f.err != nil {
		return f
	}

	if f.info, f.err = p.Jail.Stat(name); f.err == nil {
		f.dev, f.ino = identity(f.info)
	}

	for rest, at := "", f.abs; ; {
		if target, err := filepath.EvalSymlinks(at); err == nil {
			f.abs = filepath.Join(target, rest)
			if f.info == nil {
				if info, err := os.Lstat(target); err == nil {
					f.dev, f.ino = identity(info)
				}
			}
			return f
		}

		parent := filepath.Dir(at)
		if parent == at {
			return f
		}
		rest, at = filepath.Join(filepath.Base(at), rest), parent
	}
}

func (p *Policy) workspace() string {
	ws := p.Jail.Workspace()
	if target, err := filepath.EvalSymlinks(ws); err == nil {
		return target
	}
	return ws
}

func (p *Policy) inWorkspace(abs string) bool {
	rel, err := filepath.Rel(p.workspace(), abs)
	return err == nil && filepath.IsLocal(rel)
}

// inProject reports whether a path is in the folder that the person chose for
// the conversation.
func (s *subject) inProject(abs string) bool {
	if s.call.Project.Dir == "" {
		return false
	}
	rel, err := filepath.Rel(s.call.Project.Dir, abs)
	return err == nil && filepath.IsLocal(rel)
}

// relative returns a path as seen from the workspace, or unchanged outside it.
func (p *Policy) relative(abs string) string {
	if rel, err := filepath.Rel(p.workspace(), abs); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return abs
}

// special says why a tainted turn may not write a file, %s, by itself: the agent
// takes it for instructions, or other programs take it for settings. Settings
// are told by their form, a name that begins with a dot, because no list of
// programs is complete. Whatever else a tainted turn writes is marked, so that
// running it later is contained. Spelling does not matter, as on some disks it
// does not matter for opening either.
func special(rel string) string {
	rel = strings.ToLower(filepath.ToSlash(rel))
	parts := strings.Split(rel, "/")
	base := parts[len(parts)-1]
	switch {
	case instructions(base), slices.Contains(parts[:len(parts)-1], "skills"), parts[0] == "memory":
		return "the file %s holds instructions the agent follows"
	case slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, ".") && part != "." && part != ".." }):
		return "the file %s is a setting that programs read by themselves"
	}
	return ""
}

// instructions are the files that agents follow, in whichever folder they lie.
func instructions(base string) bool {
	switch base {
	case "agents.md", "soul.md", "user.md", "memory.md", "heartbeat.md", "tools.md", "identity.md", "bootstrap.md", "skill.md", "claude.md", "gemini.md":
		return true
	}
	return false
}
