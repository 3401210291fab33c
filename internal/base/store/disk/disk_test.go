package disk_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(_ testing.TB, place string) store.Store { return disk.Open(place, nil) }

func TestStore(t *testing.T) { t.Parallel(); storetest.Run(t, open) }

func TestKill(t *testing.T) { t.Parallel(); storetest.RunKill(t, open, "TestChild", 12) }

func TestChild(t *testing.T) { storetest.Child(t, open) }

// The same where logs are closed after every use, as on Windows.
func openResting(_ testing.TB, place string) store.Store { return disk.OpenResting(place) }

func TestRestingStore(t *testing.T) { t.Parallel(); storetest.Run(t, openResting) }

func TestRestingKill(t *testing.T) {
	t.Parallel()
	storetest.RunKill(t, openResting, "TestRestingChild", 6)
}

func TestRestingChild(t *testing.T) { storetest.Child(t, openResting) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Half a line of a crash is shown to nobody, stays where it is while a log is
// only read, and is kept aside by the next write.
func TestTornLine(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"append", "replace", "repair"} {
		for _, before := range []string{"", "one\n"} {
			dir, ctx := t.TempDir(), t.Context()
			path := filepath.Join(dir, "x.jsonl")
			must(t, os.WriteFile(path, []byte(before+`{"torn":`), 0o600))
			l, err := disk.Open(dir, nil).Log(ctx, "x.jsonl")
			must(t, err)
			info, err := l.Info(ctx)
			if err != nil || info.Size != int64(len(before)) {
				t.Fatalf("%d bytes, %v; want %d", info.Size, err, len(before))
			}
			if data, _ := os.ReadFile(path); string(data) != before+`{"torn":` {
				t.Fatalf("looking at a log changed it to %q", data)
			}
			switch how {
			case "repair":
				if torn, err := l.Repair(ctx); err != nil || torn != 8 {
					t.Errorf("%d bytes, %v", torn, err)
				}
				fallthrough
			case "append":
				must(t, l.Append(ctx, info.Size, []byte("two\n"), true))
			default:
				must(t, l.Replace(ctx, info.Size, []byte(before+"two\n")))
			}
			if data, _ := os.ReadFile(path); string(data) != before+"two\n" {
				t.Errorf("%s: the log holds %q", how, data)
			}
			if aside, _ := os.ReadFile(path + ".torn"); string(aside) != "{\"torn\":\n" {
				t.Errorf("%s: %q was kept aside", how, aside)
			}
			must(t, l.Close())
		}
	}
}

// A file that is edited in place, as people do, is noticed although its length
// stays.
func TestEditedInPlace(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	path := filepath.Join(dir, "x.jsonl")
	l, err := disk.Open(dir, nil).Log(ctx, "x.jsonl")
	must(t, err)
	must(t, l.Append(ctx, 0, []byte("one\n"), false))
	var c store.Cursor
	info, _, err := c.Inspect(ctx, l)
	must(t, err)
	must(t, c.Reached(l, info))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("two\n"), 0)
	must(t, err)
	must(t, f.Close())
	must(t, os.Chtimes(path, info.Changed.Add(1e9), info.Changed.Add(1e9)))
	if _, got, err := c.Inspect(ctx, l); err != nil || got != store.Another {
		t.Errorf("%v, %v", got, err)
	}
	must(t, l.Close())
}

// What a crash left in the middle of a replacement is not in the way.
func TestLeftOver(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	s := disk.Open(dir, nil)
	must(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
	for _, name := range []string{"x.jsonl.tmp", "a/x.jsonl.tmp"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("left over"), 0o600))
	}
	l, err := s.Log(ctx, "x.jsonl")
	must(t, err)
	must(t, l.Replace(ctx, 0, []byte("one\n")))
	must(t, s.Archive(ctx, "x.jsonl", "a/y.jsonl", 4))
	must(t, l.Append(ctx, 4, []byte("two\n"), false))
	must(t, s.Archive(ctx, "x.jsonl", "a/x.jsonl", 4))
	must(t, l.Close())
	got, err := os.ReadFile(filepath.Join(dir, "a/x.jsonl"))
	if err != nil || string(got) != "one\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// Files and folders are the owner's alone.
func TestModes(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	s := disk.Open(dir, nil)
	must(t, os.MkdirAll(filepath.Join(dir, "b/c"), 0o700))
	must(t, os.Chmod(filepath.Join(dir, "b/c"), 0o755)) // as an older program made it
	l, err := s.Log(ctx, "a/x.jsonl")
	must(t, err)
	must(t, l.Append(ctx, 0, []byte("1\n"), true))
	must(t, l.Close())
	for _, sync := range []bool{true, false} {
		_, err = s.Put(ctx, "b/c/x.json", []byte("{}"), store.Any, sync)
		must(t, err)
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		fi, err := d.Info()
		if err == nil && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, fi.Mode())
		}
		return err
	})
	must(t, err)
}

// A store leaves nothing behind in its folder but what it was told to keep.
func TestNoLitter(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	s := disk.Open(dir, nil)
	litter := filepath.Join(dir, ".x.json.tmp-1")
	must(t, os.WriteFile(litter, nil, 0o600))
	must(t, os.Chtimes(litter, time.Now(), time.Now().Add(-2*time.Hour)))
	v, err := s.Put(ctx, "x.json", []byte("1"), store.Missing, true)
	must(t, err)
	_, err = s.Put(ctx, "x.json", []byte("2"), v, false)
	must(t, err)
	l, err := s.Log(ctx, "x.jsonl")
	must(t, err)
	must(t, l.Replace(ctx, -1, []byte("1\n")))
	must(t, l.Close())
	release, err := s.Lock(ctx, "x.lock")
	must(t, err)
	must(t, release())
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "x.json x.jsonl" {
		t.Errorf("the folder holds %s", got)
	}
}

// A log that this process may only read can be read.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write everything")
	}
	dir, ctx := t.TempDir(), t.Context()
	must(t, os.WriteFile(filepath.Join(dir, "x.jsonl"), []byte("1\n"), 0o400))
	l, err := disk.Open(dir, nil).Log(ctx, "x.jsonl")
	must(t, err)
	info, err := l.Info(ctx)
	must(t, err)
	data := make([]byte, info.Size)
	if _, err := l.ReadAt(data, 0); (err != nil && err != io.EOF) || string(data) != "1\n" { //nolint:errorlint // as ReadAt says
		t.Errorf("%q, %v", data, err)
	}
	must(t, l.Close())
}
