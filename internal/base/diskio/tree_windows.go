package diskio

import "os"

// renameBetween moves a name. Windows renames by path, below the root's own
// handle, so links that appear after both folders were checked lead at most to
// another folder inside the tree.
func (t *Tree) renameBetween(_, _ *os.Root, from, to string) error { return t.root.Rename(from, to) }
