// Package keyring keeps keys by name: in the keyring of the system where there
// is one that answers, else in files that only the user can read. It hides which
// of the two it is, the protocols of the systems, and how long they may take.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Service is our name in the system's keyring.
const Service = "nanobot"

// Wait bounds a question to the system's keyring when no person is known to
// watch: a locked one asks its user first, and there may be no screen at all.
const Wait = 5 * time.Second

// WaitForPerson is Wait when a person is there to unlock it.
const WaitForPerson = 30 * time.Second

// pause is how long a keyring that did not answer is left alone.
const pause = time.Minute

// marker is the end of the name of the file that says that a key is in the
// system's keyring. The file decides, so that a list asks no keyring.
const marker = ".keyring"

// maxFile bounds a key in a file.
const maxFile = 64 << 10

// errNotFound means that there is no such key.
var errNotFound = errors.New("there is no such key")

// System is the keyring of an operating system. A call ends with its context.
type System interface {
	Get(ctx context.Context, service, user string) (string, error) // errNotFound if there is none
	Set(ctx context.Context, service, user, value string) error
	Delete(ctx context.Context, service, user string) error // errNotFound if there is none
	Limit() int                                             // of a value, in bytes
}

// Options say where keys are.
type Options struct {
	DataDir string
	Getenv  func(name string) string // nil: nothing is set
	Wait    time.Duration            // for the system's keyring; 0 is Wait
	System  System                   // instead of the one of this system
}

// Ring is the keys of one data folder. It is safe for concurrent use.
type Ring struct {
	dir    string
	label  string // of the data folder in the system's keyring
	system System // nil: files only
	why    string // there is no system
	wait   time.Duration

	mu    sync.Mutex
	quiet time.Time // until then the system is left alone
}

// Open returns the keys of a data folder. It asks nothing and writes nothing.
func Open(o Options) *Ring {
	getenv := o.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}

	r := &Ring{dir: datadir.Secrets.In(o.DataDir), label: o.DataDir, system: o.System, wait: o.Wait}
	if r.wait == 0 {
		r.wait = Wait
	}
	if r.system == nil {
		r.system, r.why = OfSystem(getenv)
	}
	return r
}

// OfSystem returns the keyring of this system. It is nil where there is none, and why
// says so; nothing is asked or started to find out.
func OfSystem(getenv func(string) string) (_ System, why string) {
	if getenv("NANOBOT_NO_KEYRING") != "" {
		return nil, "NANOBOT_NO_KEYRING switches it off"
	}
	return systemOf(getenv)
}

// ValidName reports whether a key can have a name: letters, digits and . _ - in
// the middle.
func ValidName(name string) bool {
	if name == "" || len(name) > 64 || strings.Trim(name, ".-") != name || strings.HasSuffix(name, marker) {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-", c)
	})
}

func checkName(name string) error {
	if !ValidName(name) {
		return fmt.Errorf("%q cannot be the name of a key: use at most 64 letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

// Place is where a key is.
type Place struct {
	File string // "" in the system's keyring
	Why  string // it is in a file although there is a keyring; or there is none
}

// String returns the place for a person.
func (p Place) String() string {
	if p.File == "" {
		return "the system keyring"
	}
	return p.File
}

// Entry is one key, without its value.
type Entry struct {
	Name  string
	Place Place
	Since time.Time
}

// user returns the name of a key in the system's keyring. Two data folders on one
// machine do not share keys.
func (r *Ring) user(name string) string { return name + " in " + r.label }

func (r *Ring) file(name string) string { return filepath.Join(r.dir, name) }

// Has reports whether a key was stored, without a question to the system.
func (r *Ring) Has(name string) bool {
	if checkName(name) != nil {
		return false
	}
	for _, path := range []string{r.file(name), r.file(name) + marker} {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
	}
	return false
}

// Set stores a key, in the system's keyring if that takes it, and says where.
func (r *Ring) Set(ctx context.Context, name, value string) (Place, error) {
	switch {
	case checkName(name) != nil:
		return Place{}, checkName(name)
	case value == "":
		return Place{}, errors.New("the key is empty")
	case len(value) > maxFile:
		return Place{}, errors.New("the key is longer than 64 KiB")
	}

	if err := diskio.MkdirAll(r.dir, 0o700); err != nil {
		return Place{}, fmt.Errorf("make the folder for keys: %w", err)
	}

	path := r.file(name)

	why := r.why
	if r.system != nil {
		err := fmt.Errorf("the key is longer than the %d bytes that it takes", r.system.Limit())
		if len(value) <= r.system.Limit() {
			_, err = r.ask(ctx, func(ctx context.Context) (string, error) {
				return "", r.system.Set(ctx, Service, r.user(name), value)
			})
		}

		if err == nil {
			return Place{}, errors.Join(
				diskio.WriteFile(path+marker, []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o600), gone(os.Remove(path)))
		}
		why = "the system keyring did not take it: " + err.Error()
	}

	if err := diskio.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
		return Place{}, fmt.Errorf("store the key: %w", err)
	}

	if err := os.Remove(path + marker); err == nil {
		_ = r.forget(ctx, name) // what is left there is not used any more
	}
	return Place{File: path, Why: why}, nil
}

// gone takes it for a success that there was nothing to remove.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Get returns a key by its name, or by SERVICE/USER one that another program put
// into the system's keyring.
func (r *Ring) Get(ctx context.Context, name string) (string, error) {
	service, user, other := strings.Cut(name, "/")
	if other {
		if service == "" || user == "" {
			return "", fmt.Errorf("%q is neither the NAME of a key nor SERVICE/USER", name)
		}
		if r.system == nil {
			return "", fmt.Errorf("there is no system keyring to look for %s in: %s", name, r.why)
		}
		return r.fromSystem(ctx, name, service, user, "")
	}

	if err := checkName(name); err != nil {
		return "", err
	}

	value, err := readKey(r.file(name))
	if !errors.Is(err, fs.ErrNotExist) {
		return value, err
	}

	const advice = "; store it with: nanobot keys set "
	if r.system == nil {
		if r.Has(name) {
			return "", fmt.Errorf("the key %s is in the system keyring, which cannot be used here: %s", name, r.why)
		}
		return "", fmt.Errorf("key %s: %w%s%s", name, errNotFound, advice, name)
	}
	return r.fromSystem(ctx, name, Service, r.user(name), advice+name)
}

func (r *Ring) fromSystem(ctx context.Context, name, service, user, advice string) (string, error) {
	value, err := r.ask(ctx, func(ctx context.Context) (string, error) { return r.system.Get(ctx, service, user) })
	switch {
	case errors.Is(err, errNotFound):
		return "", fmt.Errorf("key %s: %w in the system keyring%s", name, errNotFound, advice)
	case err != nil:
		return "", fmt.Errorf("the system keyring does not give out the key %s: %w", name, err)
	case value == "":
		return "", fmt.Errorf("the key %s in the system keyring is empty", name)
	}

	return value, nil
}

func readKey(path string) (string, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Size() > maxFile+1:
		return "", fmt.Errorf("%s is not a regular file of at most 64 KiB", path)
	}

	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// Remove deletes a key and says where it was.
func (r *Ring) Remove(ctx context.Context, name string) (Place, error) {
	if err := checkName(name); err != nil {
		return Place{}, err
	}

	path := r.file(name)
	err := os.Remove(path)
	if err == nil {
		return Place{File: path}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Place{}, err
	}
	if !r.Has(name) {
		return Place{}, fmt.Errorf("key %s: %w; see: nanobot keys list", name, errNotFound)
	}
	if r.system == nil {
		return Place{}, fmt.Errorf("the key %s is in the system keyring, which cannot be used here: %s", name, r.why)
	}
	if err := r.forget(ctx, name); err != nil && !errors.Is(err, errNotFound) {
		return Place{}, fmt.Errorf("the system keyring does not remove the key %s: %w", name, err)
	}
	return Place{}, os.Remove(path + marker)
}

func (r *Ring) forget(ctx context.Context, name string) error {
	if r.system == nil {
		return errors.New(r.why)
	}
	_, err := r.ask(ctx, func(ctx context.Context) (string, error) {
		return "", r.system.Delete(ctx, Service, r.user(name))
	})
	return err
}

// List names all keys, without a question to the system's keyring.
func (r *Ring) List() ([]Entry, error) {
	files, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	var out []Entry
	for _, f := range files {
		name, inSystem := strings.CutSuffix(f.Name(), marker)
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() || !ValidName(name) {
			continue // it came and went, or it is not ours
		}

		e := Entry{Name: name, Since: info.ModTime()}
		if !inSystem {
			e.Place.File = r.file(name)
		}
		out = append(out, e)
	}

	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// ask bounds a call. A keyring that did not answer in time is left alone for a
// while, so that nothing waits for it again and again.
func (r *Ring) ask(ctx context.Context, call func(ctx context.Context) (string, error)) (string, error) {
	r.mu.Lock()
	quiet := r.quiet
	r.mu.Unlock()
	if time.Now().Before(quiet) {
		return "", errBusy(r.wait)
	}

	value, err := Bounded(ctx, r.wait, call)
	if errors.Is(err, context.DeadlineExceeded) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.quiet = time.Now().Add(pause)
	}
	return value, err
}

// busyError is a keyring that does not answer.
type busyError struct{ waited time.Duration }

func errBusy(waited time.Duration) error { return busyError{waited} }

func (e busyError) Error() string {
	return fmt.Sprintf("it did not answer within %s; is it locked?", e.waited)
}

func (busyError) Is(target error) bool { return target == context.DeadlineExceeded }

// Bounded calls a system's keyring for a while.
func Bounded(ctx context.Context, wait time.Duration, call func(ctx context.Context) (string, error)) (string, error) {
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	value, err := call(short)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return "", errBusy(wait)
	}
	return value, err
}
