//go:build unix

package app_test

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// versioned is a data folder and a workspace.
type versioned struct {
	t      *testing.T
	ws     string
	loaded *config.Loaded
}

func newVersioned(t *testing.T) *versioned {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git program")
	}
	home := t.TempDir()
	v := &versioned{t: t, ws: filepath.Join(home, "ws")}
	v.write("../config.json", "{}")
	var err error
	if v.loaded, err = config.Load(config.Options{Path: filepath.Join(home, "config.json")}); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *versioned) write(name, text string) {
	v.t.Helper()
	path := filepath.Join(v.ws, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		v.t.Fatal(err)
	}
}

// repository makes one as Python nanobot does: an empty soul, then one with a word.
func (v *versioned) repository(word string) {
	v.t.Helper()
	git := func(args ...string) {
		cmd := exec.CommandContext(v.t.Context(), "git", append([]string{"-C", v.ws, "-c", "user.name=nanobot", "-c", "user.email=nanobot@dream"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			v.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	v.write("SOUL.md", "")
	git("init", "-q", "-b", "master")
	git("add", ".")
	git("commit", "-q", "-m", "init: nanobot memory store")
	v.write("SOUL.md", word+"\n")
	git("commit", "-qam", "dream: "+word)
}

// start opens the workspace as every command does, and returns what it says and
// the subjects of the versions.
func (v *versioned) start() (notes string, log []string) {
	v.t.Helper()
	store, err := app.OpenSessions(v.t.Context(), v.loaded, v.ws, slog.New(slog.DiscardHandler))
	if err != nil {
		v.t.Fatal(err)
	}
	m, done, err := app.OpenMemory(v.loaded, v.ws, store, app.OpenFiles(v.loaded, v.ws, nil), nil)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(done(), store.Close()); err != nil {
			v.t.Error(err)
		}
	}()
	all, err := m.Repo.Log(v.t.Context(), 0)
	if err != nil {
		v.t.Errorf("log: %v", err)
	}
	for _, c := range all {
		log = append(log, c.Subject)
	}
	return strings.Join(store.Workspace().Notes, "\n"), log
}

// A command that the model was talked into brings a repository that looks like
// ours. Before the first start of a version that imports, its files are marked as
// from outside, and nothing is taken; after that, nothing is looked at.
func TestPlantedVersions(t *testing.T) {
	t.Parallel()
	for name, marks := range map[string][]string{
		"the folder": {".git"}, "the workspace": {"."}, "a branch": {".git/refs/heads/master"}, "the head": {".git/HEAD"},
	} {
		t.Run("marked, "+name, func(t *testing.T) {
			t.Parallel()
			v := newVersioned(t)
			v.write("SOUL.md", "mine\n")
			rec, err := app.OpenOrigins(t.Context(), v.loaded, v.ws, "", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			v.forgetImport()
			v.repository("evil")
			for _, m := range marks {
				if err := rec.Mark(filepath.Join(v.ws, filepath.FromSlash(m))); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 2 {
				notes, log := v.start()
				if told := strings.Contains(notes, ".git: it came from outside"); len(log) > 0 || told != (i == 0) {
					t.Errorf("start %d took over %v; %s", i, log, notes)
				}
			}
		})
	}
	t.Run("after the first start", func(t *testing.T) {
		t.Parallel()
		v := newVersioned(t)
		v.write("SOUL.md", "mine\n")
		v.start()
		v.repository("evil")
		for range 2 {
			if notes, log := v.start(); len(log) > 0 || strings.Contains(notes, ".git") {
				t.Errorf("took over %v; %s", log, notes)
			}
		}
	})
	t.Run("behind an import", func(t *testing.T) {
		t.Parallel()
		v := newVersioned(t)
		v.repository("mine")
		notes, log := v.start()
		if want := []string{"dream: mine", "init: nanobot memory store"}; !slices.Equal(log, want) || !strings.Contains(notes, "2 versions of the memory files") {
			t.Fatalf("took over %v; %s", log, notes)
		}
		if err := os.RemoveAll(filepath.Join(v.ws, ".git")); err != nil {
			t.Fatal(err)
		}
		v.repository("evil")
		if notes, log := v.start(); !slices.Equal(log, []string{"dream: mine", "init: nanobot memory store"}) || notes != "" {
			t.Errorf("versions are %v; %s", log, notes)
		}
	})
}

// forgetImport makes the workspace one that only a version before has seen.
func (v *versioned) forgetImport() {
	v.t.Helper()
	store, err := app.OpenSessions(v.t.Context(), v.loaded, v.ws, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	err = store.Workspace().Update(func(e *session.Entry) error {
		delete(e.Imported, memory.KindVersions)
		return nil
	})
	if err = errors.Join(err, store.Close()); err != nil {
		v.t.Fatal(err)
	}
}

// Whatever lies at the places of a repository, the program starts and the memory
// works, now and at the next start.
func TestStartWithAHostileRepository(t *testing.T) {
	t.Parallel()
	fifo := func(t *testing.T, path string) {
		if err := errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, path string) {
		if err := errors.Join(os.RemoveAll(path), os.Symlink("/", path)); err != nil {
			t.Fatal(err)
		}
	}
	for name, plant := range map[string]func(*testing.T, string){"a FIFO": fifo, "a link": link} {
		for _, at := range []string{"", "HEAD", "objects", "objects/pack", "refs", "refs/heads", "refs/heads/master", "packed-refs", "shallow", "gitstore.lock"} {
			t.Run(name+" at .git "+at, func(t *testing.T) {
				t.Parallel()
				v := newVersioned(t)
				v.repository("mine")
				plant(t, filepath.Join(v.ws, ".git", filepath.FromSlash(at)))
				_, first := v.start()
				notes, again := v.start()
				if !slices.Equal(first, again) || notes != "" {
					t.Errorf("versions are %v, then %v; %s", first, again, notes)
				}
			})
		}
	}
}
