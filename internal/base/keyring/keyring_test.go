package keyring_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/keyring"
)

// drawer is a system's keyring in memory.
type drawer struct {
	held  map[string]string
	fails error
	hangs bool
	asked int
}

func newDrawer() *drawer { return &drawer{held: map[string]string{}} }

func (d *drawer) wait(ctx context.Context) error {
	d.asked++
	if d.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.fails
}

func (d *drawer) Get(ctx context.Context, service, user string) (string, error) {
	if err := d.wait(ctx); err != nil {
		return "", err
	}
	v, ok := d.held[service+"/"+user]
	if !ok {
		return "", keyring.ErrNotFound
	}
	return v, nil
}

func (d *drawer) Set(ctx context.Context, service, user, value string) error {
	err := d.wait(ctx)
	if err == nil {
		d.held[service+"/"+user] = value
	}
	return err
}

func (d *drawer) Delete(ctx context.Context, service, user string) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	if _, ok := d.held[service+"/"+user]; !ok {
		return keyring.ErrNotFound
	}
	delete(d.held, service+"/"+user)
	return nil
}

func (d *drawer) Limit() int { return 100 }

func names(t *testing.T, r *keyring.Ring) (out []string) {
	t.Helper()
	list, err := r.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name+" in "+filepath.Base(e.Place.String()))
	}
	return out
}

// A key goes into the keyring of the system, and nothing of it into a file.
func TestSystem(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), newDrawer()
	r := keyring.Open(keyring.Options{DataDir: dir, System: d})
	place, err := r.Set(t.Context(), "openai", "sk-one")
	if err != nil || place.File != "" || place.String() != "the system keyring" {
		t.Fatalf("Set = %+v, %v", place, err)
	}
	if got, err := r.Get(t.Context(), "openai"); err != nil || got != "sk-one" {
		t.Errorf("Get = %q, %v", got, err)
	}
	files, err := os.ReadDir(filepath.Join(dir, "secrets"))
	if err != nil || len(files) != 1 || files[0].Name() != "openai.keyring" {
		t.Errorf("files: %v, %v", files, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "secrets", "openai.keyring"))
	if err != nil || strings.Contains(string(data), "sk-one") {
		t.Errorf("the file beside it: %q, %v", data, err)
	}
	if got := names(t, r); !slices.Equal(got, []string{"openai in the system keyring"}) {
		t.Errorf("List = %q", got)
	}

	other := keyring.Open(keyring.Options{DataDir: t.TempDir(), System: d})
	if _, err := other.Get(t.Context(), "openai"); !errors.Is(err, keyring.ErrNotFound) || !strings.Contains(err.Error(), "nanobot keys set openai") {
		t.Errorf("in another data folder: %v", err)
	}
	d.held["mail/ann"] = "theirs"
	if got, err := r.Get(t.Context(), "mail/ann"); err != nil || got != "theirs" {
		t.Errorf("of another program: %q, %v", got, err)
	}

	if place, err := r.Remove(t.Context(), "openai"); err != nil || place.File != "" {
		t.Errorf("Remove = %+v, %v", place, err)
	}
	if _, err := r.Remove(t.Context(), "openai"); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("Remove again: %v", err)
	}
	if len(d.held) != 1 || r.Has("openai") {
		t.Errorf("left: %v", d.held)
	}
}

// Without a keyring that works, a key goes into a file that only its user can
// read, and the place says why.
func TestFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		system *drawer
		value  string
		why    string
	}{
		"none":     {nil, "v", "NANOBOT_NO_KEYRING"},
		"broken":   {&drawer{fails: errors.New("no daemon")}, "v", "no daemon"},
		"hangs":    {&drawer{hangs: true}, "v", "did not answer within 20ms"},
		"too long": {newDrawer(), strings.Repeat("x", 101), "longer than the 100 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := keyring.Options{DataDir: dir, Wait: 20 * time.Millisecond, Getenv: func(k string) string {
				return map[string]string{"NANOBOT_NO_KEYRING": "1"}[k]
			}}
			if c.system != nil {
				o.System = c.system
			}
			r := keyring.Open(o)
			place, err := r.Set(t.Context(), "k", c.value)
			path := filepath.Join(dir, "secrets", "k")
			if err != nil || place.File != path || !strings.Contains(place.Why, c.why) {
				t.Fatalf("Set = %+v, %v", place, err)
			}
			info, err := os.Stat(path)
			if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("file: %v, %v", info, err)
			}
			if got, err := r.Get(t.Context(), "k"); err != nil || got != c.value {
				t.Errorf("Get = %q, %v", got, err)
			}
			if place, err := r.Remove(t.Context(), "k"); err != nil || place.File != path || r.Has("k") {
				t.Errorf("Remove = %+v, %v", place, err)
			}
			if _, err := r.Get(t.Context(), "k"); err == nil {
				t.Error("it is still there")
			}
		})
	}
}

// A keyring that hangs is asked once, not by every reference of a configuration.
func TestHangsOnce(t *testing.T) {
	t.Parallel()
	d := &drawer{hangs: true}
	r := keyring.Open(keyring.Options{DataDir: t.TempDir(), System: d, Wait: time.Millisecond})
	for range 5 {
		if _, err := r.Get(t.Context(), "k"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "is it locked?") {
			t.Errorf("Get: %v", err)
		}
	}
	if d.asked != 1 {
		t.Errorf("it was asked %d times", d.asked)
	}
}

// A key moves between the two places, and only one of them has it.
func TestMoves(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), newDrawer()
	r := keyring.Open(keyring.Options{DataDir: dir, System: d})
	d.fails = errors.New("locked")
	for i, value := range []string{"one", "two", "three"} {
		if _, err := r.Set(t.Context(), "k", value); err != nil {
			t.Fatal(err)
		}
		d.fails = nil
		if got, err := r.Get(t.Context(), "k"); err != nil || got != value {
			t.Errorf("Get = %q, %v, want %s", got, err, value)
		}
		if got := names(t, r); len(got) != 1 {
			t.Errorf("List = %q", got)
		}
		if i == 1 {
			d.fails = errors.New("locked")
		}
	}
	// The one in the keyring could not be removed, but the file counts.
	if _, err := os.Stat(filepath.Join(dir, "secrets", "k.keyring")); err == nil {
		t.Error("the mark of the keyring is still there")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	r := keyring.Open(keyring.Options{DataDir: t.TempDir(), System: newDrawer()})
	for _, name := range []string{"", ".", "..", ".x", "../x", "a b", "a\x00", "x.keyring", `a\b`, "-x", strings.Repeat("x", 65), "ä"} {
		if _, err := r.Set(t.Context(), name, "v"); err == nil {
			t.Errorf("Set(%q) works", name)
		}
		if _, err := r.Get(t.Context(), name); err == nil {
			t.Errorf("Get(%q) works", name)
		}
		if _, err := r.Remove(t.Context(), name); err == nil {
			t.Errorf("Remove(%q) works", name)
		}
	}
	for _, name := range []string{"/x", "x/", "/"} {
		if _, err := r.Get(t.Context(), name); err == nil {
			t.Errorf("Get(%q) works", name)
		}
	}
	if _, err := r.Set(t.Context(), "k", ""); err == nil {
		t.Error("an empty key was stored")
	}
}
