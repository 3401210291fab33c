//go:build !linux

package keyring

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/zalando/go-keyring"
)

// library is the keyring of macOS or Windows. Its calls cannot be stopped: one
// that takes too long is left behind, and what it yields is dropped.
type library struct{}

func systemOf(func(string) string) (System, string) {
	switch runtime.GOOS {
	case "darwin", "windows":
		return library{}, ""
	}
	return nil, "there is no system keyring for " + runtime.GOOS
}

// BusSocket returns the file that a bus address names.
func BusSocket(string) (string, bool) { return "", false }

// bounded waits for a call until its context ends.
func bounded(ctx context.Context, call func() (string, error)) (string, error) {
	type result struct {
		value string
		err   error
	}
	got := make(chan result, 1) // room for the result of a call left behind
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("the library failed: %v", p)
			}
			got <- r
		}()
		r.value, r.err = call()
	}()

	select {
	case r := <-got:
		if errors.Is(r.err, keyring.ErrNotFound) {
			return "", errNotFound
		}
		return r.value, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (library) Get(ctx context.Context, service, user string) (string, error) {
	return bounded(ctx, func() (string, error) { return keyring.Get(service, user) })
}

func (library) Set(ctx context.Context, service, user, value string) error {
	_, err := bounded(ctx, func() (string, error) { return "", keyring.Set(service, user, value) })
	return err
}

func (library) Delete(ctx context.Context, service, user string) error {
	_, err := bounded(ctx, func() (string, error) { return "", keyring.Delete(service, user) })
	return err
}

// Limit returns what the system's keyring takes: macOS passes the value on a
// command line of 4096 bytes after making it a third longer, Windows has 2560
// bytes.
func (library) Limit() int {
	if runtime.GOOS == "darwin" {
		return 2700
	}
	return 2560
}
