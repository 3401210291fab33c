package diskio

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// atTree is a workspace with a project, its neighbours and links between them.
func atTree(t *testing.T) (ws string) {
	t.Helper()
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"ws/secret.txt": "s", "ws/skills/a/SKILL.md": "skill", "ws/proj/in.txt": "in", "ws/proj/sub/deep.txt": "deep",
		"ws/keys/key": "k", "media/pic": "p", "outside/o": "o",
	} {
		path := filepath.Join(ws, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "windows" {
		for name, target := range map[string]string{
			"proj/up": "../secret.txt", "proj/abs": filepath.Join(ws, "ws", "secret.txt"), "proj/dir": "..", "proj/here": "in.txt",
			"link": "proj", "away": filepath.Join(ws, "outside"),
		} {
			if err := os.Symlink(target, filepath.Join(ws, "ws", filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ws
}

func atJail(t *testing.T, top string, restrict bool) *Jail {
	t.Helper()
	j, err := OpenJail(JailOptions{
		Workspace: filepath.Join(top, "ws"), Restrict: restrict, ReadOnly: []string{filepath.Join(top, "media")},
		Protected: []string{filepath.Join(top, "ws", "keys")}, ProtectedWrite: []string{filepath.Join(top, "ws", "skills")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestFolder(t *testing.T) {
	t.Parallel()
	top := atTree(t)
	ws := filepath.Join(top, "ws")
	tests := []struct {
		name, path, want string
		restrict         bool
		kind             error
	}{
		{name: "relative", path: "proj/sub", restrict: true, want: filepath.Join(ws, "proj", "sub")},
		{name: "absolute", path: filepath.Join(ws, "proj"), restrict: true, want: filepath.Join(ws, "proj")},
		{name: "through a link", path: "link/sub", restrict: true, want: filepath.Join(ws, "proj", "sub")},
		{name: "outside", path: filepath.Join(top, "outside"), restrict: true, kind: ErrOutside},
		{name: "above", path: "proj/../..", restrict: true, kind: ErrOutside},
		{name: "link outside", path: "away", restrict: true, kind: ErrOutside},
		{name: "protected", path: "keys", kind: ErrProtected},
		{name: "not to be changed", path: "skills/a", kind: ErrProtected},
		{name: "a file", path: "secret.txt", kind: ErrNotRegular},
		{name: "missing", path: "nothing", kind: fs.ErrNotExist},
		{name: "anywhere", path: filepath.Join(top, "outside"), want: filepath.Join(top, "outside")},
		{name: "link to anywhere", path: "away", want: filepath.Join(top, "outside")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := atJail(t, top, tt.restrict).Folder(tt.path)
			if tt.kind != nil {
				if !errors.Is(err, tt.kind) {
					t.Errorf("got %q, %v, want %v", got, err, tt.kind)
				}
			} else if got != tt.want || err != nil {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

// A jail of one folder gives out nothing else, however it is asked.
func TestAtOnly(t *testing.T) {
	t.Parallel()
	for _, restrict := range []bool{true, false} {
		top := atTree(t)
		ws := filepath.Join(top, "ws")
		house := atJail(t, top, restrict)
		j, err := house.At(Base{
			Dir: filepath.Join(ws, "proj"), Only: true, ReadOnly: []string{"skills", "later", "planted"},
			Unlisted: []string{filepath.Join(top, "media")},
		})
		if err != nil {
			t.Fatal(err)
		}
		read := func(name string) (string, error) {
			f, err := j.Open(name)
			if err != nil {
				return "", err
			}
			b, err := io.ReadAll(f)
			return string(b), errors.Join(err, f.Close())
		}
		for name, want := range map[string]string{
			"in.txt": "in", "sub/deep.txt": "deep", "here": "in", filepath.Join(ws, "proj", "in.txt"): "in",
			filepath.Join(ws, "skills", "a", "SKILL.md"): "skill", filepath.Join(top, "media", "pic"): "p",
		} {
			if got, err := read(name); got != want {
				t.Errorf("restrict %v: %s is %q, %v, want %q", restrict, name, got, err, want)
			}
		}
		for _, name := range []string{
			"up", "abs", "dir/secret.txt", "../secret.txt", "sub/../../secret.txt", filepath.Join(ws, "secret.txt"),
			filepath.Join(ws, "keys", "key"), filepath.Join(top, "outside", "o"), "/etc/passwd", "/proc/self/environ",
		} {
			if got, err := read(name); err == nil {
				t.Errorf("restrict %v: %s gives %q", restrict, name, got)
			}
			if _, err := j.WriteAtomic(t.Context(), name, []byte("x")); err == nil {
				t.Errorf("restrict %v: %s can be written", restrict, name)
			}
		}
		if b, _ := os.ReadFile(filepath.Join(ws, "secret.txt")); string(b) != "s" {
			t.Errorf("restrict %v: a write went through a link: %q", restrict, b)
		}
		for _, name := range []string{"..", ws, "dir", filepath.Join(top, "media")} {
			if d, err := j.OpenDir(name); err == nil {
				t.Errorf("restrict %v: %s is listed as %s", restrict, name, d.Path())
			}
		}
		if _, err := j.WriteAtomic(t.Context(), filepath.Join(ws, "skills", "b"), nil); !errors.Is(err, ErrProtected) && !errors.Is(err, ErrReadOnly) {
			t.Errorf("restrict %v: skills can be written: %v", restrict, err)
		}
		if j.Foreign(filepath.Join(ws, "skills", "a", "SKILL.md")) || !j.Foreign(filepath.Join(top, "media", "pic")) {
			t.Errorf("restrict %v: what came from others is not told from our own", restrict)
		}
		if w, err := j.WriteAtomic(t.Context(), "new.txt", []byte("n")); err != nil || w.Path != filepath.Join(ws, "proj", "new.txt") {
			t.Errorf("restrict %v: wrote %q, %v", restrict, w.Path, err)
		}
		// A root that appears later.
		if err := errors.Join(os.Mkdir(filepath.Join(ws, "later"), 0o700), os.WriteFile(filepath.Join(ws, "later", "r"), []byte("r"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if got, err := read(filepath.Join(ws, "later", "r")); got != "r" {
			t.Errorf("restrict %v: later is %q, %v", restrict, got, err)
		}
		// One that somebody put a link in place of.
		if err := os.Symlink(".", filepath.Join(ws, "planted")); err == nil {
			if got, err := read(filepath.Join(ws, "planted", "secret.txt")); err == nil {
				t.Errorf("restrict %v: a link gives %q", restrict, got)
			}
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if _, err := house.Stat("secret.txt"); err != nil {
			t.Errorf("restrict %v: the wider jail was closed: %v", restrict, err)
		}
	}
}

// Without Only nothing changes but where names begin.
func TestAtFolder(t *testing.T) {
	t.Parallel()
	top := atTree(t)
	ws := filepath.Join(top, "ws")
	house := atJail(t, top, true)
	j, err := house.At(Base{Dir: filepath.Join(ws, "proj")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Stat("in.txt"); err != nil {
		t.Error(err)
	}
	if _, err := j.Stat("../secret.txt"); err != nil {
		t.Error(err)
	}
	if _, err := j.Stat(filepath.Join(top, "outside", "o")); !errors.Is(err, ErrOutside) {
		t.Errorf("outside: %v", err)
	}
	got := []string{j.Display(filepath.Join(ws, "proj", "in.txt")), j.Display(filepath.Join(ws, "secret.txt"))}
	if want := []string{"in.txt", filepath.Join(ws, "secret.txt")}; !slices.Equal(got, want) {
		t.Errorf("shown as %q, want %q", got, want)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if _, err := house.Stat("secret.txt"); err != nil {
		t.Errorf("the wider jail was closed: %v", err)
	}
}

// A folder that was replaced is not the folder any more.
func TestAtReplaced(t *testing.T) {
	t.Parallel()
	top := atTree(t)
	dir := filepath.Join(top, "ws", "proj")
	house := atJail(t, top, true)
	j, err := house.At(Base{Dir: dir, Only: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if !house.Holds(j) {
		t.Error("the folder is there and not found")
	}
	if err := errors.Join(os.Rename(dir, dir+"2"), os.Mkdir(dir, 0o700)); err != nil {
		t.Skip(err) // some systems do not move what is open
	}
	if house.Holds(j) {
		t.Error("another folder counts as the same")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if house.Holds(j) {
		t.Error("no folder counts as the same")
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Symlink("../outside", dir); err != nil {
		t.Fatal(err)
	}
	if house.Holds(j) {
		t.Error("a link counts as the same")
	}
	if _, err := house.At(Base{Dir: dir, Only: true}); err == nil {
		t.Error("a link is taken for the folder")
	}
	if err := errors.Join(os.Remove(dir), os.Symlink("proj2", dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := house.At(Base{Dir: dir}); !errors.Is(err, ErrChanged) {
		t.Errorf("a link inside: %v, want ErrChanged", err)
	}
}
