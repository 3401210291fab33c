package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/keyring"
)

// Status is what is known about a sign-in without using it.
type Status struct {
	SignedIn bool
	Account  string    // a name or an address, "" if unknown
	Expires  time.Time // of the current token; most renew themselves
	Where    string    // file or keyring, for people
	// Problem says why the sign-in cannot be used, "" if nothing is wrong.
	Problem string
}

// store keeps one token: in the keyring with a file that describes it, or in
// the file itself. The file decides, so that nobody has to ask the keyring
// whether there is a sign-in.
type store struct {
	path, lockPath, mark string
	user                 string         // the keyring's name for the token
	vault                keyring.System // nil: files only
	foreign              []foreign
}

func newStore(b brand, o Options) *store {
	path := filepath.Join(o.Dir, b.command+".json")
	s := &store{
		path: path, lockPath: filepath.Join(o.Dir, b.command+".lock"), mark: filepath.Join(o.Dir, b.command+".imported"),
		// Two homes on one machine are two sign-ins: sharing a token that
		// renews itself needs a shared lock.
		user: b.command + " in " + o.Dir, foreign: b.foreign(o),
	}
	s.vault, _ = keyring.OfSystem(o.Getenv) // without one there is the file
	return s
}

// lockWait bounds the wait for another process, which needs as long as one
// exchange with the provider takes.
const lockWait = 45 * time.Second

// lock keeps other processes from changing the token.
func (s *store) lock(ctx context.Context) (unlock func(), err error) {
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("another process holds %s", s.lockPath))
	defer cancel()
	for {
		l, err := diskio.TryLock(s.lockPath)
		if err == nil {
			return func() { _ = l.Unlock() }, nil // a lock that cannot be removed ends with the process
		}
		if _, held := errors.AsType[*diskio.LockedError](err); !held {
			return nil, err
		}
		if httpsafe.Pause(ctx, 20*time.Millisecond) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (s *store) makeDir() error {
	dir := filepath.Dir(s.path)
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder for sign-ins: %w", err)
	}
	if fi, err := os.Stat(dir); err == nil && fi.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700) //nolint:gosec // a folder needs the x
	}
	return nil
}

// describe reads the file alone.
func (s *store) describe() (token, error) {
	b, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return token{}, ErrNotSignedIn
	}
	if err != nil {
		return token{}, err
	}
	var t token
	if json.Unmarshal(b, &t) != nil || t.Access == "" && !t.Keyring {
		return token{}, fmt.Errorf("the sign-in in %s is damaged", s.path)
	}
	return t, nil
}

// load reads the token.
func (s *store) load(ctx context.Context) (token, error) {
	t, err := s.describe()
	if err != nil || !t.Keyring {
		return t, err
	}
	if s.vault == nil {
		return token{}, errors.New("the sign-in is in the system keyring, which is switched off by NANOBOT_NO_KEYRING or missing here")
	}
	text, err := s.ask(ctx, func(ctx context.Context) (string, error) { return s.vault.Get(ctx, keyring.Service, s.user) })
	if err != nil {
		return token{}, fmt.Errorf("the system keyring does not give the sign-in out: %w", err)
	}
	var held token
	if json.Unmarshal([]byte(text), &held) != nil || held.Access == "" {
		return token{}, errors.New("the sign-in in the system keyring is damaged")
	}
	return held, nil
}

// save keeps a token. The caller holds the lock.
func (s *store) save(ctx context.Context, t token) error {
	if err := s.makeDir(); err != nil {
		return err
	}
	t.Keyring = false
	full, err := json.Marshal(t)
	if err != nil {
		return err
	}
	before, _ := s.describe() // only tells whether the keyring has an old one
	if s.vault != nil && len(full) <= s.vault.Limit() {
		_, err := s.ask(ctx, func(ctx context.Context) (string, error) {
			return "", s.vault.Set(ctx, keyring.Service, s.user, string(full))
		})
		if err == nil {
			marker, err := json.Marshal(token{Keyring: true, Expires: t.Expires, AccountID: t.AccountID, Name: t.Name})
			if err != nil {
				return err
			}
			return diskio.WriteFile(s.path, append(marker, '\n'), 0o600)
		}
	}
	if err := diskio.WriteFile(s.path, append(full, '\n'), 0o600); err != nil {
		return err
	}
	if before.Keyring {
		s.forget(ctx) // it would only lie around
	}
	return nil
}

// ask calls the keyring, for as long as a person needs to unlock it.
func (s *store) ask(ctx context.Context, call func(ctx context.Context) (string, error)) (string, error) {
	return keyring.Bounded(ctx, keyring.WaitForPerson, call)
}

func (s *store) forget(ctx context.Context) bool {
	if s.vault == nil {
		return false
	}
	_, err := s.ask(ctx, func(ctx context.Context) (string, error) { return "", s.vault.Delete(ctx, keyring.Service, s.user) })
	return err == nil
}

// remove deletes the token and returns what it deleted. The caller holds the lock.
func (s *store) remove(ctx context.Context) ([]string, error) {
	var removed []string
	t, _ := s.describe() // a damaged one goes too
	if t.Keyring && s.forget(ctx) {
		removed = append(removed, "the entry in the system keyring")
	}
	switch err := os.Remove(s.path); {
	case err == nil:
		removed = append(removed, s.path)
	case !errors.Is(err, fs.ErrNotExist):
		return removed, err
	}
	// What other programs left must not sign the user in again.
	if _, ok := s.elsewhere(); ok {
		if err := diskio.WriteFile(s.mark, nil, 0o600); err != nil {
			return removed, err
		}
		if len(removed) == 0 {
			removed = append(removed, "the use of another program's sign-in")
		}
	}
	return removed, nil
}

func (s *store) status() Status {
	t, err := s.describe()
	switch {
	case errors.Is(err, ErrNotSignedIn):
		f, ok := s.elsewhere()
		if !ok {
			return Status{}
		}
		t = f.token
		return Status{SignedIn: true, Account: t.label(), Expires: time.UnixMilli(t.Expires), Where: f.path + ", of another program"}
	case err != nil:
		return Status{Problem: err.Error(), Where: s.path}
	}
	st := Status{SignedIn: true, Account: t.label(), Expires: time.UnixMilli(t.Expires), Where: s.path}
	if t.Keyring {
		st.Where = "system keyring"
		if s.vault == nil {
			st.Problem = "the system keyring is switched off or missing here"
		}
	}
	return st
}

func (t token) label() string {
	if t.Name != "" {
		return t.Name
	}
	return t.AccountID
}
