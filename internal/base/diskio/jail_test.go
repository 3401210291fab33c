package diskio_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// yard is a workspace with something secret beside it.
type yard struct {
	ws, outside, secret, media string
}

const canary = "CANARY-7f3a"

func newYard(tb testing.TB) yard {
	tb.Helper()
	base, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	y := yard{ws: filepath.Join(base, "ws"), outside: filepath.Join(base, "ws-evil"), media: filepath.Join(base, "media")}
	y.secret = filepath.Join(y.outside, "secret.txt")
	for _, d := range []string{y.ws, y.outside, y.media} {
		if err := os.Mkdir(d, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	y.put(tb, y.secret, canary)
	y.put(tb, filepath.Join(base, "config.json"), canary)
	y.put(tb, filepath.Join(y.ws, "a.txt"), "hello\n")
	y.put(tb, filepath.Join(y.media, "m.txt"), "media\n")
	return y
}

func (y yard) put(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func (y yard) link(tb testing.TB, target, name string) {
	tb.Helper()
	if err := os.Symlink(target, filepath.Join(y.ws, name)); err != nil {
		tb.Skipf("no symbolic links: %v", err)
	}
}

func (y yard) jail(tb testing.TB, change ...func(*diskio.JailOptions)) *diskio.Jail {
	tb.Helper()
	o := diskio.JailOptions{Workspace: y.ws, Restrict: true, ReadOnly: []string{y.media, filepath.Join(y.ws, "later")}, Home: filepath.Join(y.outside, "home")}
	for _, c := range change {
		c(&o)
	}
	j, err := diskio.OpenJail(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = j.Close() })
	return j
}

func free(o *diskio.JailOptions) { o.Restrict = false }

func readIn(j *diskio.Jail, name string) (string, error) {
	f, err := j.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	return string(b), err
}

func TestJailNames(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	j := y.jail(t)
	y.put(t, filepath.Join(y.ws, "~odd"), "odd")
	y.put(t, filepath.Join(y.ws, "new\nline"), "nl")
	for _, c := range []struct {
		name, path string
		want       error
		text       string
	}{
		{"relative", "a.txt", nil, "hello\n"},
		{"dot", "./x/../a.txt", nil, "hello\n"},
		{"absolute inside", filepath.Join(y.ws, "a.txt"), nil, "hello\n"},
		{"media", filepath.Join(y.media, "m.txt"), nil, "media\n"},
		{"tilde in a name", "~odd", nil, "odd"},
		{"newline", "new\nline", nil, "nl"},
		{"empty", "", diskio.ErrBadName, ""},
		{"parent", "../config.json", diskio.ErrOutside, ""},
		{"parent through a child", "a/../../config.json", diskio.ErrOutside, ""},
		{"absolute outside", "/etc/passwd", diskio.ErrOutside, ""},
		{"home", "~/.ssh/id_rsa", diskio.ErrOutside, ""},
		{"other home", "~root/x", diskio.ErrBadName, ""},
		{"sibling with the same prefix", y.secret, diskio.ErrOutside, ""},
		{"sibling by parent", "../ws-evil/secret.txt", diskio.ErrOutside, ""},
		{"proc root", "/proc/self/root" + y.secret, diskio.ErrProtected, ""},
		{"proc cwd", "/proc/self/cwd/../x", diskio.ErrProtected, ""},
		{"proc environ", "/proc/self/environ", diskio.ErrProtected, ""},
		{"dev fd", "/dev/fd/3", diskio.ErrProtected, ""},
		{"nul", "a\x00.txt", diskio.ErrBadName, ""},
		{"long name", strings.Repeat("n", 256), diskio.ErrBadName, ""},
		{"long path", strings.Repeat("n/", 3000), diskio.ErrBadName, ""},
		{"missing", "none.txt", fs.ErrNotExist, ""},
		{"file as directory", "a.txt/x", nil, "!"},
		{"directory", ".", diskio.ErrNotRegular, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := readIn(j, c.path)
			if c.text == "!" {
				if !diskio.IsMissing(err) {
					t.Errorf("Open(%q) = %v, want missing", c.path, err)
				}
				return
			}
			if c.want == nil && (err != nil || got != c.text) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("Open(%q) = %q, %v; want %q, %v", c.path, got, err, c.text, c.want)
			}
		})
	}
}

func TestJailLongestName(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	j := y.jail(t)
	name := strings.Repeat("n", 255)
	if _, err := j.WriteAtomic(t.Context(), name, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, err := readIn(j, name); got != "x" || err != nil {
		t.Errorf("read = %q, %v", got, err)
	}
}

func TestJailLinks(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.put(t, filepath.Join(y.ws, "d/b.txt"), "b\n")
	y.link(t, "a.txt", "rel")
	y.link(t, "d/../a.txt", "crooked")
	y.link(t, filepath.Join(y.ws, "a.txt"), "abs")
	y.link(t, y.secret, "out")
	y.link(t, "../ws-evil/secret.txt", "outrel")
	y.link(t, y.outside, "outdir")
	y.link(t, "loop", "loop")
	y.link(t, "d", "dirlink")
	y.link(t, "nowhere", "dangling")
	j := y.jail(t)
	for _, c := range []struct {
		path, text string
		want       error
	}{
		{"rel", "hello\n", nil},
		{"crooked", "hello\n", nil},
		{"dirlink/b.txt", "b\n", nil},
		{"abs", "", diskio.ErrOutside},
		{"out", "", diskio.ErrOutside},
		{"outrel", "", diskio.ErrOutside},
		{"outdir/secret.txt", "", diskio.ErrOutside},
		{"dangling", "", fs.ErrNotExist},
	} {
		got, err := readIn(j, c.path)
		if got != c.text || !errors.Is(err, c.want) {
			t.Errorf("Open(%q) = %q, %v; want %q, %v", c.path, got, err, c.text, c.want)
		}
		if c.want != nil && !errors.Is(c.want, fs.ErrNotExist) {
			if _, err := j.WriteAtomic(t.Context(), c.path, []byte("overwritten")); !errors.Is(err, c.want) {
				t.Errorf("WriteAtomic(%q) = %v, want %v", c.path, err, c.want)
			}
		}
	}
	if _, err := readIn(j, "loop"); err == nil {
		t.Error("a link to itself was opened")
	}
	if _, err := j.OpenDir("outdir"); !errors.Is(err, diskio.ErrOutside) {
		t.Errorf("OpenDir(outdir) = %v", err)
	}
	if err := j.MkdirAll("outdir/new"); !errors.Is(err, diskio.ErrOutside) {
		t.Errorf("MkdirAll(outdir/new) = %v", err)
	}
	if _, err := j.WriteAtomic(t.Context(), "outdir/new/x", nil); !errors.Is(err, diskio.ErrOutside) {
		t.Errorf("WriteAtomic(outdir/new/x) = %v", err)
	}
	d, err := j.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for _, name := range []string{"rel", "out", "outrel"} {
		if data, _, err := d.ReadFile(name, 100, nil, nil); err == nil {
			t.Errorf("Dir.ReadFile(%s) followed a link: %q", name, data)
		}
	}
	for _, name := range []string{"dirlink", "outdir"} {
		if _, err := d.OpenDir(name); err == nil {
			t.Errorf("Dir.OpenDir(%s) followed a link", name)
		}
	}
	_, err = readIn(j, "abs")
	if want := filepath.Join(y.ws, "a.txt"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error for an absolute link inside = %v, want it to name %s", err, want)
	}
	if b, _ := os.ReadFile(y.secret); string(b) != canary {
		t.Errorf("the file outside is now %q", b)
	}
}

func TestJailWritesThroughInnerLink(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.put(t, filepath.Join(y.ws, "d/real.txt"), "old")
	y.link(t, "d/real.txt", "alias")
	j := y.jail(t)
	w, err := j.WriteAtomic(t.Context(), "alias", []byte("new"))
	if err != nil || w.Created {
		t.Fatalf("WriteAtomic = %+v, %v", w, err)
	}
	if b, _ := os.ReadFile(filepath.Join(y.ws, "d/real.txt")); string(b) != "new" {
		t.Errorf("target = %q, want new", b)
	}
	if info, err := os.Lstat(filepath.Join(y.ws, "alias")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v %v", info, err)
	}
}

func TestJailUnrestricted(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.link(t, y.secret, "out")
	y.link(t, y.outside, "outdir")
	home := filepath.Join(y.outside, "home")
	y.put(t, filepath.Join(home, ".ssh/id_rsa"), canary)
	y.put(t, filepath.Join(home, ".bashrc"), "rc")
	y.put(t, filepath.Join(y.outside, "aliased.txt"), canary)
	config := filepath.Join(filepath.Dir(y.ws), "config.json")
	y.link(t, filepath.Join(home, ".ssh"), "keys")
	y.link(t, "../config.json", "conf")
	deny, denyWrite := diskio.HomeProtected(home)
	j := y.jail(t, free, func(o *diskio.JailOptions) {
		o.Protected = append(deny, config, filepath.Join(y.ws, "outdir", "aliased.txt"))
		o.ProtectedWrite = denyWrite
	})
	if err := os.Link(config, filepath.Join(y.ws, "hard")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{y.secret, nil},
		{"out", nil},
		{"outdir/secret.txt", nil},
		{"~/.bashrc", nil},
		{config, diskio.ErrProtected},
		{"../config.json", diskio.ErrProtected},
		{"conf", diskio.ErrProtected},
		{"hard", diskio.ErrProtected},
		{filepath.Join(y.outside, "aliased.txt"), diskio.ErrProtected},
		{"~/.ssh/id_rsa", diskio.ErrProtected},
		{"keys/id_rsa", diskio.ErrProtected},
		{"outdir/home/.ssh/id_rsa", diskio.ErrProtected},
		{"/proc/self/environ", diskio.ErrProtected},
		{"/proc/self/root/etc/hostname", diskio.ErrProtected},
		{"/dev/zero", diskio.ErrProtected},
	} {
		if _, err := readIn(j, c.path); !errors.Is(err, c.want) {
			t.Errorf("Open(%q) = %v, want %v", c.path, err, c.want)
		}
	}
	for _, name := range []string{"~/.bashrc", "keys/new", "outdir/home/.ssh/new", "conf", "~/.config/systemd/user/x.service"} {
		if _, err := j.WriteAtomic(t.Context(), name, []byte("x")); !errors.Is(err, diskio.ErrProtected) {
			t.Errorf("WriteAtomic(%q) = %v, want ErrProtected", name, err)
		}
	}
	if err := j.MkdirAll("keys/sub"); !errors.Is(err, diskio.ErrProtected) {
		t.Errorf("MkdirAll(keys/sub) = %v", err)
	}
	if _, err := j.WriteAtomic(t.Context(), "outdir/fresh.txt", []byte("x")); err != nil {
		t.Errorf("writing elsewhere: %v", err)
	}
	entries, err := j.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".ssh" }) {
		t.Error("ReadDir shows a protected directory")
	}
}

func TestJailProtectedInsideWorkspace(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.put(t, filepath.Join(y.ws, "memory/history.jsonl"), "{}\n")
	y.put(t, filepath.Join(y.ws, "private/key"), canary)
	y.link(t, "private/key", "k")
	y.link(t, "memory", "m")
	j := y.jail(t, func(o *diskio.JailOptions) {
		o.Protected = []string{"private"}
		o.ProtectedWrite = []string{"memory/history.jsonl"}
	})
	if got, err := readIn(j, "memory/history.jsonl"); got != "{}\n" || err != nil {
		t.Errorf("read of a write-protected file = %q, %v", got, err)
	}
	for _, name := range []string{"memory/history.jsonl", "m/history.jsonl", "private/new", "k"} {
		if _, err := j.WriteAtomic(t.Context(), name, nil); !errors.Is(err, diskio.ErrProtected) {
			t.Errorf("WriteAtomic(%q) = %v, want ErrProtected", name, err)
		}
	}
	for _, name := range []string{"private/key", "k"} {
		if _, err := readIn(j, name); !errors.Is(err, diskio.ErrProtected) {
			t.Errorf("Open(%q) = %v, want ErrProtected", name, err)
		}
	}
	d, err := j.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if _, err := d.OpenDir("private"); !errors.Is(err, diskio.ErrProtected) {
		t.Errorf("Dir.OpenDir(private) = %v", err)
	}
}

func TestJailReadOnlyRoot(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	j := y.jail(t)
	if _, err := j.WriteAtomic(t.Context(), filepath.Join(y.media, "m.txt"), nil); !errors.Is(err, diskio.ErrReadOnly) {
		t.Errorf("write into media = %v, want ErrReadOnly", err)
	}
	if !j.Foreign(filepath.Join(y.media, "m.txt")) || j.Foreign("a.txt") {
		t.Error("Foreign does not tell media from workspace")
	}
	// A read-only root inside the workspace wins, and may appear later.
	y.put(t, filepath.Join(y.ws, "later/f"), "late")
	if got, err := readIn(j, "later/f"); got != "late" || err != nil {
		t.Errorf("read from a late root = %q, %v", got, err)
	}
	if _, err := j.WriteAtomic(t.Context(), "later/f", nil); !errors.Is(err, diskio.ErrReadOnly) {
		t.Errorf("write into a nested read-only root = %v", err)
	}
}

func TestJailHardLink(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	if err := os.Link(y.secret, filepath.Join(y.ws, "hard")); err != nil {
		t.Skip(err)
	}
	j := y.jail(t)
	if _, err := j.WriteAtomic(t.Context(), "hard", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(y.secret); string(b) != canary {
		t.Errorf("the other name now holds %q", b)
	}
	if got, _ := readIn(j, "hard"); got != "mine" {
		t.Errorf("hard = %q, want mine", got)
	}
}

func TestJailUpdate(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	j := y.jail(t)
	ctx := t.Context()
	if runtime.GOOS != "windows" {
		if err := os.Chmod(filepath.Join(y.ws, "a.txt"), 0o751); err != nil {
			t.Fatal(err)
		}
	}
	w, err := j.Update(ctx, "a.txt", 100, func(old []byte, info fs.FileInfo) ([]byte, error) {
		if string(old) != "hello\n" || info == nil {
			t.Errorf("old = %q, %v", old, info)
		}
		return append(old, "more\n"...), nil
	})
	if err != nil || w.Created {
		t.Fatalf("Update = %+v, %v", w, err)
	}
	info, _ := os.Stat(filepath.Join(y.ws, "a.txt"))
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o751 {
		t.Errorf("mode = %v, want it kept", info.Mode())
	}
	w, err = j.Update(ctx, "new/deep/f.txt", 100, func(old []byte, info fs.FileInfo) ([]byte, error) {
		if old != nil || info != nil {
			t.Errorf("old of a missing file = %q, %v", old, info)
		}
		return []byte("x"), nil
	})
	if err != nil || !w.Created {
		t.Errorf("Update(new) = %+v, %v", w, err)
	}
	boom := errors.New("boom")
	if _, err := j.Update(ctx, "other/f.txt", 100, func([]byte, fs.FileInfo) ([]byte, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("Update = %v, want boom", err)
	}
	if _, err := os.Stat(filepath.Join(y.ws, "other")); err == nil {
		t.Error("a refused update left a directory behind")
	}
	if _, err := j.Update(ctx, "a.txt", 3, nil); !errors.Is(err, diskio.ErrTooLarge) {
		t.Errorf("Update over the limit = %v", err)
	}
	for name, interfere := range map[string]func(path string){
		"changed":  func(p string) { y.put(t, p, "HELLO\nmore\n") },
		"grown":    func(p string) { y.put(t, p, "hello\nmore\nand more\n") },
		"removed":  func(p string) { _ = os.Remove(p) },
		"appeared": func(p string) { y.put(t, p, "now there") },
	} {
		file := "race-" + name
		if name != "appeared" {
			y.put(t, filepath.Join(y.ws, file), "hello\nmore\n")
		}
		_, err := j.Update(ctx, file, 100, func([]byte, fs.FileInfo) ([]byte, error) {
			interfere(filepath.Join(y.ws, file))
			return []byte("ours"), nil
		})
		if !errors.Is(err, diskio.ErrChanged) {
			t.Errorf("%s meanwhile: Update = %v, want ErrChanged", name, err)
		}
	}
	entries, _ := os.ReadDir(y.ws)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			t.Errorf("temporary file %s left behind", e.Name())
		}
	}
}

func TestJailUpdatesInTurn(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	j := y.jail(t)
	y.put(t, filepath.Join(y.ws, "n"), "")
	const n = 40
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := j.Update(t.Context(), "n", 1000, func(old []byte, _ fs.FileInfo) ([]byte, error) {
				return append(old, 'x'), nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got, _ := readIn(j, "n"); len(got) != n {
		t.Errorf("%d of %d updates survived", len(got), n)
	}
}

func TestJailLockHonoursContext(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	j := y.jail(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := j.Update(t.Context(), "a.txt", 100, func(old []byte, _ fs.FileInfo) ([]byte, error) {
		cancel()
		if _, err := j.WriteAtomic(ctx, "a.txt", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("WriteAtomic while locked = %v, want context.Canceled", err)
		}
		return old, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func FuzzJail(f *testing.F) {
	y := newYard(f)
	y.link(f, y.secret, "out")
	y.link(f, y.outside, "outdir")
	y.link(f, "..", "up")
	if err := os.Link(filepath.Join(y.ws, "a.txt"), filepath.Join(y.ws, "hard")); err != nil {
		f.Skip(err)
	}
	j := y.jail(f)
	for _, s := range []string{
		"a.txt", "../ws-evil/secret.txt", "out", "outdir/secret.txt", "up/ws-evil/secret.txt", "~/x", "~root/x",
		y.secret, "/proc/self/cwd", "a/./../../config.json", "a\x00", "\xff\xfe", "//" + y.secret, "./up/./config.json", "up/ws/up/config.json",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, err := readIn(j, name); err == nil && strings.Contains(got, canary) {
			t.Errorf("Open(%q) read a file outside", name)
		}
		if d, err := j.OpenDir(name); err == nil {
			if p := d.Path(); p != y.ws && !strings.HasPrefix(p, y.ws+string(filepath.Separator)) && p != y.media {
				t.Errorf("OpenDir(%q) opened %s", name, p)
			}
			_ = d.Close()
		}
		if !strings.HasPrefix(name, "/") || len(name) < 3 {
			_, _ = j.WriteAtomic(t.Context(), name, []byte("w"))
		}
		if b, _ := os.ReadFile(y.secret); string(b) != canary {
			t.Fatalf("WriteAtomic(%q) wrote outside", name)
		}
	})
}
