package app

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// seal takes what the agent follows, and what other programs run by themselves,
// away from commands: they see it read-only.
type seal struct {
	workspace string

	mu      sync.Mutex
	running int
	made    []string // repositories whose hooks stand there only for the seal
}

// followed returns what the agent follows of a folder, for the sandbox to make
// read-only, and whether a part of it cannot be sealed because it is not there
// or is a link. Files that do not exist need no seal: a new one is marked.
func (s *seal) followed(dir string) (paths []string, unsealed bool) {
	if !within(s.workspace, dir) && !within(resolved(s.workspace), dir) {
		return nil, false
	}
	for _, name := range followedFiles() {
		path := filepath.Join(s.workspace, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			paths = append(paths, path)
		}
	}
	for _, name := range followedFolders() {
		path := filepath.Join(s.workspace, name)
		if !isFolder(path) {
			_ = os.Mkdir(path, 0o700) // fails if something else is there
		}
		if !isFolder(path) {
			unsealed = true
			continue
		}
		paths = append(paths, path)
	}
	return paths, unsealed
}

// repositories returns the hooks and settings of the repositories in a folder,
// which name programs that git runs by itself; done says that the command has
// ended. Missing folders of hooks are made, so that they can be sealed.
func (s *seal) repositories(dir string) (paths []string, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	found := repositories(dir)
	if own := filepath.Join(dir, ".git"); isFolder(own) {
		found = append(found, own)
	}
	for _, dir := range found {
		hooks := filepath.Join(dir, "hooks")
		if s.makeHooks(dir) {
			s.made = append(s.made, dir)
		}
		paths = append(paths, hooks, filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"))
	}
	return paths, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end()
	})
}

// makeHooks makes the folder of hooks that a repository lacks. Commands may be
// changing names meanwhile, so no link is followed.
func (s *seal) makeHooks(repository string) (made bool) {
	tree, err := diskio.OpenTree(filepath.Dir(repository))
	if err != nil {
		return false
	}
	defer tree.Close() //nolint:errcheck // nothing was written through it
	if _, err := tree.Lstat(".git/hooks"); err == nil {
		return false
	}
	return tree.MkdirAll(".git/hooks", 0o700) == nil
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

// end forgets a command. With the last one go the empty folders; removing one
// earlier would also take it from under the commands that still run.
func (s *seal) end() {
	if s.running--; s.running > 0 {
		return
	}
	for _, dir := range s.made {
		if tree, err := diskio.OpenTree(filepath.Dir(dir)); err == nil {
			_ = tree.Remove(".git/hooks") // only if it is empty
			_ = tree.Close()
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
