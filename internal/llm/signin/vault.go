package signin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/zalando/go-keyring"
)

// service is our name in the keyring.
const service = "nanobot"

// vault is a keyring.
type vault interface {
	Get(service, user string) (string, error)
	Set(service, user, value string) error
	Delete(service, user string) error
	Limit() int // of a value, in bytes
}

// vaultWait bounds one call: a locked keyring asks its user first, and there
// may be nobody in front of the screen.
const vaultWait = 30 * time.Second

var errVaultBusy = errors.New("it did not answer; is it locked?")

// askVault calls the keyring, whose calls cannot be stopped. A call that takes
// too long is left behind and what it yields is dropped.
func askVault(ctx context.Context, call func() (string, error)) (string, error) {
	type result struct {
		value string
		err   error
	}
	got := make(chan result, 1) // room for the result of a call left behind
	go func() {
		v, err := call()
		got <- result{v, err}
	}()
	t := time.NewTimer(vaultWait)
	defer t.Stop()
	select {
	case r := <-got:
		return r.value, r.err
	case <-t.C:
		return "", errVaultBusy
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

type keyringVault struct{}

// systemVault is the keyring of this system, nil where there is none. Without
// a session bus the library would start one, which nobody asked for.
func systemVault(getenv func(string) string) vault {
	switch runtime.GOOS {
	case "darwin", "windows":
		return keyringVault{}
	case "linux":
		if getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
			return keyringVault{}
		}
		if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
			if _, err := os.Stat(filepath.Join(dir, "bus")); err == nil {
				return keyringVault{}
			}
		}
	}
	return nil
}

func (keyringVault) Get(service, user string) (string, error) { return keyring.Get(service, user) }
func (keyringVault) Set(service, user, value string) error    { return keyring.Set(service, user, value) }
func (keyringVault) Delete(service, user string) error        { return keyring.Delete(service, user) }

// Limit is what the system's keyring takes: macOS passes the value on a command
// line of 4096 bytes after making it a third longer, Windows has 2560 bytes.
func (keyringVault) Limit() int {
	switch runtime.GOOS {
	case "darwin":
		return 2700
	case "windows":
		return 2560
	}
	return 64 << 10
}
