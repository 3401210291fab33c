package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A file that cannot be written after others were puts those back, those that
// were created included.
func TestPatchRestores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: dir, Restrict: true, Home: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = jail.Close() })
	put := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "missing"
		}
		return string(data)
	}
	f := &family{jail: jail}
	text := func(s string) *string { return &s }
	edits := []patchEdit{
		{Path: "a", Action: "replace", OldText: "old", NewText: text("new")},
		{Path: "made", Action: "add", NewText: text("made")},
		{Path: "z", Action: "add", NewText: text("more")},
	}
	for _, c := range []struct {
		name              string
		between           func()
		a, made, z, error string
		code              tool.Code
	}{
		{"nothing in between", func() {}, "new", "made", "z\nmore", "", ""},
		{"last file changed", func() { put("z", "z, but changed") }, "old", "missing", "z, but changed", "Nothing was changed", tool.Conflict},
		{"last file gone", func() { _ = os.Remove(filepath.Join(dir, "z")) }, "old", "missing", "missing", "Nothing was changed", tool.Conflict},
		{"last file now a directory", func() {
			_ = os.Remove(filepath.Join(dir, "z"))
			_ = os.Mkdir(filepath.Join(dir, "z"), 0o755)
		}, "old", "missing", "missing", "Nothing was changed", tool.InvalidArgs},
		{"new file appeared", func() { put("made", "by somebody") }, "old", "by somebody", "z", "Nothing was changed", tool.Conflict},
	} {
		_ = os.RemoveAll(filepath.Join(dir, "z"))
		_ = os.Remove(filepath.Join(dir, "made"))
		put("a", "old")
		put("z", "z")
		set := patchSet{f: f}
		if _, err := set.plan(t.Context(), edits); err != nil {
			t.Fatal(err)
		}
		c.between()
		res, err := set.commit(t.Context())
		if err != nil || res.Code != c.code || !strings.Contains(res.Content.Text, c.error) {
			t.Errorf("%s: %q, %v", c.name, res.Content.Text, err)
		}
		if get("a") != c.a || get("made") != c.made || get("z") != c.z {
			t.Errorf("%s: a %q, made %q, z %q; want %q, %q, %q", c.name, get("a"), get("made"), get("z"), c.a, c.made, c.z)
		}
		if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: mode of a changed: %v", c.name, info.Mode())
		}
	}
}
