package diskio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const canary = "canary: nobody reads or changes this\n"

// treeWays runs a test with the kernel's way to open files and without it.
func treeWays(t *testing.T, test func(t *testing.T, open func(dir string, protected ...string) *Tree)) {
	t.Helper()
	for _, way := range []string{"kernel", "steps"} {
		t.Run(way, func(t *testing.T) {
			if way == "kernel" && !kernelWay {
				t.Skip("this system has no openat2")
			}
			test(t, func(dir string, protected ...string) *Tree {
				tree, err := OpenTree(dir, protected...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = tree.Close() })
				if way == "steps" && tree.self != nil {
					_ = tree.self.Close()
					tree.self = nil
				}
				return tree
			})
		})
	}
}

// put makes files; a name that ends in a slash is a folder.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			mustDo(t, os.MkdirAll(full, 0o755))
			continue
		}
		mustDo(t, os.MkdirAll(filepath.Dir(full), 0o755))
		mustDo(t, os.WriteFile(full, []byte(body), 0o644))
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// outside makes a folder with a canary and a workspace beside it.
func outside(t *testing.T) (ws, out string, intact func()) {
	t.Helper()
	base := t.TempDir()
	ws, out = filepath.Join(base, "ws"), filepath.Join(base, "out")
	put(t, base, map[string]string{"out/secret": canary, "out/deep/secret": canary, "ws/": ""})
	return ws, out, func() {
		t.Helper()
		var found []string
		err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			found = append(found, filepath.Base(path))
			if got, err := os.ReadFile(path); err != nil || string(got) != canary {
				t.Errorf("%s holds %q (%v)", path, got, err)
			}
			return nil
		})
		if err != nil || !slices.Equal(found, []string{"secret", "secret"}) {
			t.Errorf("outside are %q (%v), want the two canaries", found, err)
		}
	}
}

func TestTreeReadsAndWrites(t *testing.T) {
	treeWays(t, func(t *testing.T, open func(string, ...string) *Tree) {
		dir := t.TempDir()
		put(t, dir, map[string]string{"a/b/c.txt": "deep", "empty": "", "top": "0123456789"})
		tree := open(dir)

		for name, want := range map[string]string{"a/b/c.txt": "deep", "empty": "", "./top": "0123456789", "a/../top": "0123456789"} {
			got, err := tree.ReadFile(name, 10)
			if err != nil || string(got) != want {
				t.Errorf("ReadFile(%q) = %q, %v", name, got, err)
			}
		}
		if _, err := tree.ReadFile("top", 9); !errors.Is(err, ErrTooLarge) {
			t.Errorf("ten bytes with a limit of nine: %v", err)
		}
		if _, err := tree.ReadFile("a/x", 9); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join("a", "x")) {
			t.Errorf("a missing file: %v", err)
		}
		if _, err := tree.ReadFile("top/x", 9); !errors.Is(err, ErrNotRegular) {
			t.Errorf("a file as a folder: %v", err)
		}
		if _, err := tree.ReadFile("a/b", 9); !errors.Is(err, ErrNotRegular) {
			t.Errorf("a folder as a file: %v", err)
		}

		mustDo(t, tree.WriteFile("a/b/c.txt", []byte("changed"), 0o600))
		if info, err := tree.Lstat("a/b/c.txt"); err != nil || info.Size() != 7 {
			t.Errorf("Lstat = %v, %v", info, err)
		}
		if err := tree.WriteFile("no/such", nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("write without a folder: %v", err)
		}
		if err := tree.WriteFile("a", nil, 0o600); !errors.Is(err, ErrNotRegular) {
			t.Errorf("write over a folder: %v", err)
		}

		mustDo(t, tree.MkdirAll("m/n/o", 0o755))
		mustDo(t, tree.MkdirAll("m/n/o", 0o755))
		for _, want := range []bool{true, false} {
			created, err := tree.CreateNew("m/n/o/new", []byte("first"), 0o644)
			if err != nil || created != want {
				t.Errorf("CreateNew = %v, %v, want %v", created, err, want)
			}
		}
		mustDo(t, tree.Rename("m/n/o/new", "m/n/o/renamed"))
		mustDo(t, tree.Rename("m/n/o/renamed", "moved"))
		if got, err := tree.ReadFile("moved", 99); err != nil || string(got) != "first" {
			t.Errorf("moved = %q, %v", got, err)
		}

		if names := list(t, tree, "."); names != "a empty m moved top" {
			t.Errorf("names = %s", names)
		}
		mustDo(t, tree.Remove("moved"))
		mustDo(t, tree.RemoveAll("a"))
		mustDo(t, tree.RemoveAll("a/b"))
		if err := tree.Remove("moved"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("remove twice: %v", err)
		}
		if names := list(t, tree, "."); names != "empty m top" {
			t.Errorf("names = %s", names)
		}
		if got := list(t, tree, "m/n/o"); got != "" {
			t.Errorf("left in m/n/o: %s", got)
		}
	})
}

func list(t *testing.T, tree *Tree, name string) string {
	t.Helper()
	entries, err := tree.ReadDir(name)
	mustDo(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestTreeRefusesNames(t *testing.T) {
	ws, _, intact := outside(t)
	tree, err := OpenTree(ws)
	mustDo(t, err)
	defer tree.Close()
	for _, name := range []string{"", "/", "..", "../out/secret", "a/../../out/secret", filepath.Join(ws, "x"), "a\x00b"} {
		if _, err := tree.ReadFile(name, 99); err == nil {
			t.Errorf("read %q", name)
		}
		if err := tree.WriteFile(name, []byte("x"), 0o644); err == nil {
			t.Errorf("wrote %q", name)
		}
		if err := tree.RemoveAll(name); err == nil {
			t.Errorf("removed %q", name)
		}
		if err := tree.Rename("a", name); err == nil {
			t.Errorf("renamed to %q", name)
		}
	}
	intact()
}

// Every operation on every kind of link fails and says which part is a link.
func TestTreeFollowsNoLink(t *testing.T) {
	treeWays(t, func(t *testing.T, open func(string, ...string) *Tree) {
		ws, out, intact := outside(t)
		put(t, ws, map[string]string{"real/notes.md": "inside", "plain": "inside"})
		for name, to := range map[string]string{
			"abs":           filepath.Join(out, "secret"),
			"rel":           "../out/secret",
			"dir":           out,
			"inside":        "plain",
			"insidedir":     "real",
			"real/up":       "../plain",
			"dangling":      filepath.Join(out, "made-by-link"),
			"danglinginner": "nothing-here",
			"self":          "self",
		} {
			if err := os.Symlink(to, filepath.Join(ws, name)); err != nil {
				t.Skip("no links here: ", err)
			}
		}
		tree := open(ws)

		for _, name := range []string{"abs", "rel", "inside", "real/up", "dangling", "danglinginner", "self", "dir/secret", "insidedir/notes.md", "dir/deep/secret", "dir"} {
			link, _, _ := strings.Cut(name, "/")
			if link == "real" {
				link = name
			}
			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, ErrLink) || !strings.Contains(err.Error(), filepath.Join("ws", filepath.FromSlash(link))+": is a link") {
					t.Errorf("%s %s: %v", what, name, err)
				}
			}
			_, err := tree.ReadFile(name, 99)
			check("read", err)
			check("write", tree.WriteFile(name, []byte("x"), 0o644))
			_, err = tree.CreateNew(name, []byte("x"), 0o644)
			check("create", err)
			check("mkdir", tree.MkdirAll(name+"/more", 0o755))
			_, err = tree.ReadDir(name)
			check("list", err)
			_, err = tree.Sub(name)
			check("sub", err)
			if strings.Contains(name, "/") && link != name {
				_, err = tree.Lstat(name)
				check("lstat", err)
				check("remove", tree.Remove(name))
				check("remove all", tree.RemoveAll(name))
				check("rename", tree.Rename(name, "taken"))
				check("rename to", tree.Rename("plain", name))
			}
		}

		for _, name := range []string{"abs", "dir", "insidedir"} {
			if info, err := tree.Lstat(name); err != nil || info.Mode()&fs.ModeSymlink == 0 {
				t.Errorf("Lstat(%s) = %v, %v", name, info, err)
			}
			mustDo(t, tree.RemoveAll(name))
		}
		if got, err := tree.ReadFile("real/notes.md", 99); err != nil || string(got) != "inside" {
			t.Errorf("what a removed link led to: %q, %v", got, err)
		}
		intact()
	})
}

func TestTreeOpensAWorkspaceThroughLinks(t *testing.T) {
	base := t.TempDir()
	put(t, base, map[string]string{"disk/ws/a": "x", "disk/ws/sub/b": "y"})
	if err := os.Symlink("disk", filepath.Join(base, "link")); err != nil {
		t.Skip("no links here: ", err)
	}
	tree, err := OpenTree(filepath.Join(base, "link", "ws"))
	mustDo(t, err)
	defer tree.Close()

	// Another folder under the same path is not this tree.
	mustDo(t, os.Remove(filepath.Join(base, "link")))
	put(t, base, map[string]string{"link/ws/a": "other"})
	if got, err := tree.ReadFile("a", 9); err != nil || string(got) != "x" {
		t.Errorf("a = %q, %v", got, err)
	}
	sub, err := tree.Sub("sub")
	mustDo(t, err)
	defer sub.Close()
	if got, err := sub.ReadFile("b", 9); err != nil || string(got) != "y" {
		t.Errorf("sub/b = %q, %v", got, err)
	}
	if _, err := OpenTree(filepath.Join(base, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}

func TestTreeKnowsProtectedFilesByOtherNames(t *testing.T) {
	treeWays(t, func(t *testing.T, open func(string, ...string) *Tree) {
		ws, out, intact := outside(t)
		put(t, ws, map[string]string{"one": "inside"})
		for from, to := range map[string]string{filepath.Join(out, "secret"): "AGENTS.md", filepath.Join(ws, "one"): "two"} {
			if err := os.Link(from, filepath.Join(ws, to)); err != nil {
				t.Skip("no hard links here: ", err)
			}
		}
		tree := open(ws, filepath.Join(out, "secret"), filepath.Join(out, "missing"))
		if got, err := tree.ReadFile("AGENTS.md", 99); !errors.Is(err, ErrProtected) {
			t.Errorf("a protected file by another name: %q, %v", got, err)
		}
		if got, err := tree.ReadFile("two", 99); err != nil || string(got) != "inside" {
			t.Errorf("an ordinary file with two names: %q, %v", got, err)
		}

		// So do the trees that are opened from it or at its path, and opening the
		// file to empty it leaves it as it was.
		mustDo(t, os.Mkdir(filepath.Join(ws, "deep"), 0o755))
		mustDo(t, os.Link(filepath.Join(out, "secret"), filepath.Join(ws, "deep", "x")))
		sub, err := tree.Sub("deep")
		mustDo(t, err)
		defer sub.Close()
		at, err := OpenTreeAt(filepath.Join(tree.Path(), "deep"), filepath.Join(out, "secret"))
		mustDo(t, err)
		defer at.Close()
		for way, tree := range map[string]*Tree{"a tree below": sub, "a tree at a path": at} {
			if got, err := tree.ReadFile("x", 99); !errors.Is(err, ErrProtected) {
				t.Errorf("%s: %q, %v", way, got, err)
			}
			if f, err := tree.OpenFile("x", os.O_WRONLY|os.O_TRUNC, 0o600); !errors.Is(err, ErrProtected) {
				t.Errorf("%s, to write: %v, %v", way, f, err)
			}
		}
		intact()

		// A write gives the name a file of its own.
		mustDo(t, tree.WriteFile("AGENTS.md", []byte("new"), 0o644))
		if got, err := tree.ReadFile("AGENTS.md", 99); err != nil || string(got) != "new" {
			t.Errorf("after the write: %q, %v", got, err)
		}
		intact()
	})
}

func TestTreeOpenFile(t *testing.T) {
	ws, out, intact := outside(t)
	tree, err := OpenTree(ws)
	mustDo(t, err)
	defer tree.Close()
	mustDo(t, tree.Mkdir("sub", 0o755))
	if err := tree.Mkdir("sub", 0o755); !errors.Is(err, fs.ErrExist) {
		t.Errorf("mkdir twice: %v", err)
	}
	write := func(name string, flag int) error {
		f, err := tree.OpenFile(name, flag, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString("line\n")
		return errors.Join(err, f.Close())
	}
	const adding = os.O_CREATE | os.O_APPEND | os.O_WRONLY
	mustDo(t, write("sub/log", adding))
	mustDo(t, write("sub/log", adding))
	if got, err := tree.ReadHead("sub/log", 7); err != nil || string(got) != "line\nli" {
		t.Errorf("head = %q, %v", got, err)
	}
	mustDo(t, write("sub/log", os.O_WRONLY|os.O_TRUNC))
	if got, err := fs.ReadFile(tree.FS(), "sub/log"); err != nil || string(got) != "line\n" {
		t.Errorf("after O_TRUNC = %q, %v", got, err)
	}
	if err := write("sub/log", adding|os.O_EXCL); !errors.Is(err, fs.ErrExist) {
		t.Errorf("O_EXCL: %v", err)
	}
	if err := write("sub/none", os.O_WRONLY); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without O_CREATE: %v", err)
	}

	for name, to := range map[string]string{"link": filepath.Join(out, "secret"), "new": filepath.Join(out, "made"), "way": out} {
		if err := os.Symlink(to, filepath.Join(ws, name)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	for _, name := range []string{"link", "new", "way/secret", "way/made"} {
		for _, flag := range []int{adding, os.O_RDWR, os.O_WRONLY | os.O_TRUNC} {
			if err := write(name, flag); !errors.Is(err, ErrLink) {
				t.Errorf("write %s with %#x: %v", name, flag, err)
			}
		}
	}
	if got := tree.Links("link", "way/x", "sub", "sub/log", "missing"); !slices.Equal(got, []string{"link", "way/x"}) {
		t.Errorf("links = %q", got)
	}
	intact()

	var walked []string
	mustDo(t, fs.WalkDir(tree.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		walked = append(walked, path)
		return err
	}))
	if want := []string{".", "link", "new", "sub", "sub/log", "way"}; !slices.Equal(walked, want) {
		t.Errorf("walked %q, want %q", walked, want)
	}
}

func TestTreeWriteLeavesNothingBehind(t *testing.T) {
	ws := t.TempDir()
	tree, err := OpenTree(ws)
	mustDo(t, err)
	defer tree.Close()
	put(t, ws, map[string]string{"folder/x": ""})
	for range 3 {
		mustDo(t, tree.WriteFile("file", []byte("x"), 0o640))
		_, err := tree.CreateNew("other", []byte("y"), 0o640)
		mustDo(t, err)
		if err := tree.WriteFile("folder", nil, 0o640); err == nil {
			t.Error("wrote over a folder")
		}
	}
	if names := list(t, tree, "."); names != "file folder other" {
		t.Errorf("names = %s", names)
	}
}
