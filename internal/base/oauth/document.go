package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Document is a JSON document in which logins are kept. Processes that share
// it take turns with Lock where a refresh token works once.
type Document[T any] struct {
	Store store.Store
	Name  string
}

// Where returns the place of the document, for people.
func (d Document[T]) Where() string { return d.Store.Where(d.Name) }

// Load reads the document; found is false if there is none.
func (d Document[T]) Load(ctx context.Context) (v T, found bool, err error) {
	data, version, err := d.Store.Doc(ctx, d.Name)
	if err != nil || version == store.Missing {
		return v, false, err
	}
	v, err = d.decode(data)
	return v, true, err
}

func (d Document[T]) decode(data []byte) (v T, err error) {
	if data != nil && json.Unmarshal(data, &v) != nil {
		err = d.Damaged()
	}
	return v, err
}

// Damaged returns the error of a document that does not hold a login.
func (d Document[T]) Damaged() error {
	return fmt.Errorf("the login in %s is damaged; remove the file and log in again", d.Where())
}

// Save replaces the document. The caller holds the lock.
func (d Document[T]) Save(ctx context.Context, v T) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = d.Store.Put(ctx, d.Name, append(data, '\n'), store.Any, true)
	return err
}

// Update changes the document unless change reports that there is nothing to
// do. It does not need a lock.
func (d Document[T]) Update(ctx context.Context, wait time.Duration, change func(*T) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("another process holds %s", d.Where()))
	defer cancel()
	return store.Update(ctx, d.Store, d.Name, func(old []byte) ([]byte, error) {
		v, err := d.decode(old)
		if err != nil {
			return nil, err
		}
		if changed, err := change(&v); err != nil || !changed {
			return nil, err
		}
		return store.Indented(v)
	})
}

// Remove deletes the document and reports whether there was one.
func (d Document[T]) Remove(ctx context.Context) (bool, error) {
	i, err := d.Store.Stat(ctx, d.Name)
	if err != nil || !i.Exists() {
		return false, err
	}
	return true, d.Store.Remove(ctx, d.Name)
}

// Lock keeps other processes from renewing a login at the same time.
func (d Document[T]) Lock(ctx context.Context, name string, wait time.Duration) (unlock func(), err error) {
	release, err := store.WaitLock(ctx, d.Store, name, wait)
	if _, held := errors.AsType[*store.LockedError](err); held {
		return nil, fmt.Errorf("another process holds %s: %w", d.Store.Where(name), err)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = release() }, nil // a lock that cannot be removed ends with the process
}
