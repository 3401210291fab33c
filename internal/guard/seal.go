package guard

import (
	"path"
	"path/filepath"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// seal makes files that the agent follows, and files that other programs run on
// their own, read-only for commands.
type seal struct {
	workspace string

	mu      sync.Mutex
	running int
	made    []stand
}

// stand is a folder of hooks that exists only for the seal: the resolved folder
// where the search began, and the name below it.
type stand struct{ base, name string }

// open opens a folder that a command works in. Only the path of the workspace
// itself may contain links, because the owner chose it.
func (s *seal) open(dir string) (*diskio.Tree, error) {
	if dir == s.workspace {
		return diskio.OpenTree(dir)
	}
	return diskio.OpenTreeAt(dir)
}

// followed returns the files of a folder that the agent follows, for the sandbox
// to make read-only, and whether one cannot be sealed because it is missing or a
// link. Missing files do not need a seal: new ones are marked.
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
// ended. It creates missing folders of hooks, so that they can be sealed. Commands
// may rename files at the same time, so it follows no link.
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
		return nil, done // the command cannot work there either
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

// end removes a command. The last one also removes the empty folders: removing
// them earlier would also remove them for commands that still run.
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
	// These limit the depth and the number of folders of the search for
	// repositories in a workspace, shallow folders first: it runs before every
	// sealed command.
	repositoryDepth   = 3
	repositoryFolders = 256
)

// repositories lists the folders named .git below a tree, without the tree's own.
// It does not find what is deeper, behind a link or in a folder of packages, nor a
// repository that a command creates or moves.
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

// pins returns the folders above the sealed paths. They are mounted, too, because
// a mounted folder cannot be renamed.
func pins(paths []string) []string {
	var out []string
	for _, path := range paths {
		if dir := filepath.Dir(path); filepath.Base(path) == "hooks" && filepath.Base(dir) == ".git" {
			out = append(out, dir)
		}
	}
	return out
}
