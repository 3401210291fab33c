package diskio

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// In a folder that others write to no link is followed, neither by the one who
// shares it nor by those it is shared with.
func TestSharedFolder(t *testing.T) {
	t.Parallel()
	top := realDir(t)
	ws, guest := filepath.Join(top, "ws"), filepath.Join(top, "guest")
	share := filepath.Join(ws, "share")
	for _, dir := range []string{share, filepath.Join(share, "sub"), guest} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, body := range map[string]string{"USER.md": "secret", "share/note": "hello", "share/sub/deep": "deep"} {
		if err := os.WriteFile(filepath.Join(ws, filepath.FromSlash(name)), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"share/up": "../USER.md", "share/abs": filepath.Join(ws, "USER.md"), "share/dir": "..", "share/new": "../new.md"} {
		if err := os.Symlink(target, filepath.Join(ws, filepath.FromSlash(name))); err != nil {
			t.Skip("no links here")
		}
	}
	owner, err := OpenJail(JailOptions{Workspace: ws, Restrict: true, Straight: []string{"share"}})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	j, err := OpenJail(JailOptions{Workspace: guest, Restrict: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.Share(owner, share)
	for _, who := range []struct {
		name string
		*Jail
	}{{"owner", owner}, {"guest", j}} {
		for _, name := range []string{"up", "abs", "dir/USER.md", "new", "dir/other"} {
			path := filepath.Join(share, filepath.FromSlash(name))
			if f, err := who.Open(path); err == nil {
				t.Errorf("%s reads through the link %s", who.name, name)
				_ = f.Close()
			}
			if w, err := who.WriteAtomic(t.Context(), path, []byte("x")); err == nil {
				t.Errorf("%s writes %s through the link %s", who.name, w.Path, name)
			} else if !errors.Is(err, ErrOutside) {
				t.Errorf("%s, %s: %v", who.name, name, err)
			}
		}
		for _, name := range []string{"note", "sub/deep"} {
			f, err := who.Open(filepath.Join(share, filepath.FromSlash(name)))
			if err != nil {
				t.Fatalf("%s: %v", who.name, err)
			}
			_ = f.Close()
		}
		if _, err := who.WriteAtomic(t.Context(), filepath.Join(share, "more", who.name), []byte("x")); err != nil {
			t.Errorf("%s: %v", who.name, err)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(ws, "USER.md")); string(b) != "secret" {
		t.Errorf("USER.md = %q", b)
	}
	if !j.Foreign(filepath.Join(share, "note")) || j.Foreign("x") {
		t.Error("what is shared does not count as foreign, or everything does")
	}
	// A link in place of the folder itself gives nothing.
	if err := errors.Join(os.Rename(share, share+"2"), os.Symlink(".", share)); err != nil {
		t.Fatal(err)
	}
	again, err := OpenJail(JailOptions{Workspace: guest, Restrict: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	again.Share(owner, share)
	if f, err := again.Open(filepath.Join(share, "USER.md")); err == nil {
		t.Error("a link in place of the shared folder is followed")
		_ = f.Close()
	}
}

func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
