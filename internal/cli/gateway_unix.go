//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReload sends c a signal whenever the configuration should be read again.
func notifyReload(c chan os.Signal) { signal.Notify(c, syscall.SIGHUP) }
