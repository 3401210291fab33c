package prompt

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A form that the owner has not touched costs nothing; what they write counts.
func TestUntouchedFormsAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"AGENTS.md", "USER.md", "TOOLS.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			empty := New(Options{Workspace: ws}).parts("", "")

			form, err := fs.ReadFile(Templates(), name)
			if err != nil {
				t.Fatal(err)
			}
			write := func(body string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(ws, name), []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(string(form))
			if got := New(Options{Workspace: ws}).parts("", ""); strings.Join(got, "") != strings.Join(empty, "") {
				t.Errorf("the untouched form is in the prompt: %q", got)
			}
			write(string(form) + "- own words\n")
			if got := New(Options{Workspace: ws}).parts("", ""); !strings.Contains(got[0], "own words") {
				t.Errorf("what the owner wrote is not in the prompt: %q", got)
			}
		})
	}
}
