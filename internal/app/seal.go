package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// followed are the files of a workspace that become part of every prompt, and
// the folders whose content does, or makes turns begin, or that other programs
// run by themselves.
func followed() (files, folders []string) {
	return []string{"AGENTS.md", "SOUL.md", "USER.md", "TOOLS.md", "HEARTBEAT.md"}, []string{"memory", "skills", "cron", "triggers", ".git"}
}

// seal takes what the agent follows away from commands of tainted turns: they
// see it read-only. A file that does not exist cannot be made read-only, so an
// empty one, which means the same to the agent, stands there while such
// commands run.
type seal struct {
	workspace string

	mu      sync.Mutex
	running int
	made    []string // what stands there only for the seal
}

// open reports links among the names: a link can be replaced although what it
// leads to is read-only.
func (s *seal) open() bool {
	files, folders := followed()
	for _, name := range append(files, folders...) {
		if info, err := os.Lstat(filepath.Join(s.workspace, name)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// begin returns what is to be read-only for a command; done says that it ended.
func (s *seal) begin() (paths []string, done func(), err error) { return s.beginIn(s.workspace) }

// beginIn is begin for a command that is kept inside a folder.
func (s *seal) beginIn(dir string) (paths []string, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files, folders := followed()
	if !within(s.workspace, dir) && !within(resolved(s.workspace), dir) {
		files, folders = nil, nil
	}
	s.running++
	for _, name := range files {
		path := filepath.Join(s.workspace, name)
		made, err := writeNew(path, nil)
		if err != nil {
			s.end()
			return nil, nil, fmt.Errorf("protect %s from a command: %w", name, err)
		}
		if made {
			s.made = append(s.made, path)
		}
		paths = append(paths, path)
	}
	for _, name := range folders {
		path := filepath.Join(s.workspace, name)
		if name != ".git" { // an empty one would be a broken repository
			if err := os.Mkdir(path, 0o700); err == nil {
				s.made = append(s.made, path)
			} else if !errors.Is(err, fs.ErrExist) {
				s.end()
				return nil, nil, fmt.Errorf("protect %s from a command: %w", name, err)
			}
		}
		paths = append(paths, path)
	}
	found := repositories(dir)
	if own := filepath.Join(dir, ".git"); len(folders) == 0 && isFolder(own) {
		found = append(found, own)
	}
	for _, dir := range found {
		// Both can name programs that git runs by itself.
		hooks := filepath.Join(dir, "hooks")
		if os.Mkdir(hooks, 0o700) == nil {
			s.made = append(s.made, hooks)
		}
		paths = append(paths, hooks, filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"))
	}
	return paths, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end()
	}), nil
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// resolved is a path without links, if it exists.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// end forgets a command. With the last one go the empty files; removing one
// earlier would also take it from under the commands that still run.
func (s *seal) end() {
	if s.running--; s.running > 0 {
		return
	}
	for _, path := range s.made {
		if info, err := os.Lstat(path); err == nil && (info.IsDir() || info.Size() == 0) {
			_ = os.Remove(path) // a folder only if it is empty
		}
	}
	s.made = nil
}

const (
	// The search for repositories inside a workspace looks this deep, and at so
	// many folders, the shallow ones first: it runs before every sealed command
	// and must not take longer than that.
	repositoryDepth   = 3
	repositoryFolders = 256
)

// repositories lists the folders named .git below a workspace, its own aside.
// What lies deeper, behind a link or in a folder of packages is not found, and
// neither is a repository that a command makes itself or moves elsewhere.
func repositories(workspace string) []string {
	var out []string
	level := []string{workspace}
	left := repositoryFolders
	for range repositoryDepth + 1 {
		var next []string
		for _, dir := range level {
			if left--; left < 0 {
				return out
			}
			list, _ := os.ReadDir(dir) // what cannot be read here cannot be reached by the command
			for _, e := range list {
				switch path := filepath.Join(dir, e.Name()); {
				case !e.IsDir():
				case e.Name() == ".git":
					if dir != workspace {
						out = append(out, path)
					}
				case e.Name()[0] != '.' && e.Name() != "node_modules" && e.Name() != "__pycache__":
					next = append(next, path)
				}
			}
		}
		level = next
	}
	return out
}

// pins are the folders that must stay where they are for the sealed paths to
// mean something: what is mounted cannot be renamed.
func pins(paths []string) []string {
	var out []string
	for _, path := range paths {
		if dir := filepath.Dir(path); filepath.Base(path) == "hooks" && filepath.Base(dir) == ".git" {
			out = append(out, dir)
		}
	}
	return out
}
