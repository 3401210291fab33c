package cli

import "os"

// notifyReload does nothing: Windows has no such signal, the file is watched.
func notifyReload(chan os.Signal) {}
