package guard

import (
	"path"
	"path/filepath"
	"sync"

	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
)

// seal takes what the agent follows, and what other programs run by themselves,
// away from commands: they see it read-only.
type seal struct {
	workspace string

	mu      sync.Mutex
	running int
	made    []stand
}

// stand is a folder of hooks that stands there only for the seal: where the
// search began, without links, and its name from there.
type stand struct{ base, name string }

// open opens a folder that a command works in. Only the way to the workspace
// itself may contain links, because the owner chose it.
func (s *seal) open(dir string) (*diskio.Tree, error) {
	if dir == s.workspace {
		return diskio.OpenTree(dir)
	}
	return diskio.OpenTreeAt(dir)
}

// followed returns what the agent follows of a folder, for the sandbox to make
// read-only, and whether a part of it cannot be sealed because it is not there
// or is a link. Files that do not exist need no seal: a new one is marked.
func (s *seal) followed(dir string) (paths []string, unsealed bool) {
	if !diskio.Within(s.workspace, dir) && !diskio.Within(resolved(s.workspace), dir) {
		return nil, false
	}
	tree, err := diskio.OpenTree(s.workspace)
	if err != nil {
		return nil, true
	}
	defer tree.Close() //nolint:errcheck // only folders were made through it

	for _, name := range datadir.FollowedFiles() {
		if info, err := tree.Lstat(name); err == nil && info.Mode().IsRegular() {
			paths = append(paths, filepath.Join(s.workspace, filepath.FromSlash(name)))
		}
	}
	for _, name := range datadir.FollowedFolders() {
		if tree.MkdirAll(name, 0o700) != nil { // something else is there, or a link
			unsealed = true
			continue
		}
		paths = append(paths, filepath.Join(s.workspace, filepath.FromSlash(name)))
	}
	return paths, unsealed
}

// repositories returns the hooks and settings of the repositories in a folder,
// which name programs that git runs by itself; done says that the command has
// ended. Missing folders of hooks are made, so that they can be sealed. Commands
// may be changing names meanwhile, so no link is followed.
func (s *seal) repositories(dir string) (paths []string, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	done = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end()
	})

	tree, err := s.open(dir)
	if err != nil {
		return nil, done // a command cannot work there, either
	}
	defer tree.Close() //nolint:errcheck // only folders were made through it
	found := repositories(tree)
	if info, err := tree.Lstat(".git"); err == nil && info.IsDir() {
		found = append(found, ".git")
	}
	for _, repository := range found {
		hooks := path.Join(repository, "hooks")
		if tree.Mkdir(hooks, 0o700) == nil {
			s.made = append(s.made, stand{tree.Path(), hooks})
		}
		for _, part := range []string{"hooks", "config", "config.worktree"} {
			paths = append(paths, filepath.Join(dir, filepath.FromSlash(repository), part))
		}
	}

	return paths, done
}

// end forgets a command. With the last one go the empty folders; removing one
// earlier would also take it from under the commands that still run.
func (s *seal) end() {
	if s.running--; s.running > 0 {
		return
	}
	for _, m := range s.made {
		if tree, err := diskio.OpenTreeAt(m.base); err == nil {
			if info, err := tree.Lstat(m.name); err == nil && info.IsDir() {
				_ = tree.Remove(m.name) // only if it is empty
			}
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

// repositories lists the folders named .git below a tree, its own aside. What
// lies deeper, behind a link or in a folder of packages is not found, and neither
// is a repository that a command makes itself or moves elsewhere.
func repositories(tree *diskio.Tree) []string {
	var out []string
	level := []string{"."}
	left := repositoryFolders
	for range repositoryDepth + 1 {
		var next []string
		for _, dir := range level {
			if left--; left < 0 {
				return out
			}
			list, _ := tree.ReadDir(dir) // what cannot be read here cannot be reached by the command
			for _, e := range list {
				switch name := path.Join(dir, e.Name()); {
				case !e.IsDir():
				case e.Name() == ".git":
					if dir != "." {
						out = append(out, name)
					}
				case e.Name()[0] != '.' && e.Name() != "node_modules" && e.Name() != "__pycache__":
					next = append(next, name)
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
