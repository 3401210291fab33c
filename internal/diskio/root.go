package diskio

import "os"

// here names a folder by an entry that only folders have. The system then
// looks for the entry instead of opening whatever has the name of the folder,
// and opening a FIFO waits until another program writes to it. A look before
// the open would not do: commands swap names in between.
const here = string(os.PathSeparator) + "."

// OpenRoot is os.OpenRoot for a name that commands can change: it never waits.
func OpenRoot(dir string) (*os.Root, error) { return os.OpenRoot(dir + here) }

// OpenRootIn is OpenRoot for a name inside of another root.
func OpenRootIn(dir *os.Root, name string) (*os.Root, error) { return dir.OpenRoot(name + here) }
