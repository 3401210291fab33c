package sandbox

import (
	"io/fs"
	"os"
)

// removeAll removes a directory whose content a command made. Directories that
// it closed for all users are opened first.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}

	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(path, 0o700)
		}
		return nil
	})

	_ = root.Close()
	_ = os.RemoveAll(dir)
}
