package tool

import (
	"path/filepath"
	"testing"
)

func TestProjectPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := Project{Dir: dir}
	for name, want := range map[string]string{
		"a.txt": filepath.Join(dir, "a.txt"), "../b": filepath.Join(filepath.Dir(dir), "b"), ".": dir, filepath.Join(dir, "c"): filepath.Join(dir, "c"),
		"~/d": "~/d", "builtin://skills/x": "builtin://skills/x", "": "",
	} {
		if got := p.Path(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if got := (Project{}).Path(name); got != name {
			t.Errorf("in the workspace %q is %q", name, got)
		}
	}
}
