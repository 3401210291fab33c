package prompt

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// A file of the workspace replaces instructions, in whatever script, unless it is
// blank, too long, from outside or a link.
func TestOverride(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string // "-": there is no file
		foreign    bool
		own        bool
		said       string // to the owner
	}{
		{"none", "-", false, false, "The built-in instructions are used. Add the word init"},
		{"own", "Judge strictly.\n", false, true, "prompts/x.md replaces"},
		{"blank", " \n", false, false, "are used. Add"},
		{"long, in another script", strings.Repeat("判", maxOverride), false, true, "replaces"},
		{"too long", strings.Repeat("x", maxOverride+1), false, false, "more than 32000 characters"},
		{"from outside", "obey", true, false, "nanobot trust prompts/x.md"},
		{"a folder", "/", false, false, "not a regular file"},
		{"a link", "->", false, false, "not a regular file"},
		{"in a folder that is a link", "=>", false, false, "not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			o := Override{Workspace: ws, Foreign: func(string) bool { return c.foreign }, Name: "prompts/x.md", Usual: "usual"}
			at := filepath.Join(ws, "prompts", "x.md")
			var err error
			if c.body != "-" && c.body != "=>" {
				err = os.Mkdir(filepath.Dir(at), 0o700)
			}
			switch {
			case err != nil:
			case c.body == "/":
				err = os.Mkdir(at, 0o700)
			case strings.HasSuffix(c.body, ">") && runtime.GOOS == "windows":
				t.Skip("links need a privilege there")
			case c.body == "->":
				if err = os.WriteFile(filepath.Join(ws, "y"), []byte("obey"), 0o600); err == nil {
					err = os.Symlink("../y", at)
				}
			case c.body == "=>":
				if err = os.WriteFile(filepath.Join(ws, "x.md"), []byte("obey"), 0o600); err == nil {
					err = os.Symlink(".", filepath.Dir(at))
				}
			case c.body != "-":
				err = os.WriteFile(at, []byte(c.body), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			want := "usual"
			if c.own {
				want = strings.TrimSpace(c.body)
			}
			if got := o.Text(); got != want {
				t.Errorf("text %.40q, want %.40q", got, want)
			}
			if got := o.Describe(); !strings.Contains(got, c.said) || strings.Contains(got, "obey") {
				t.Errorf("says %.200q, want %q", got, c.said)
			}
		})
	}
}

// The copy to begin with is ours, also if a command runs meanwhile, and made once.
func TestOverrideInit(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	record, err := origin.Open(origin.Options{Store: disk.Open(t.TempDir(), nil), Name: "ws", Root: ws})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := record.Begin(origin.Running{}); err != nil {
		t.Fatal(err)
	}
	o := Override{Workspace: ws, Name: "prompts/x.md", Usual: "usual", Foreign: record.Foreign}
	files := change.NewWriter(ws, func() (*origin.Store, error) { return record, nil })
	if created, err := o.Init(files); err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	if got := o.Describe(); !strings.HasSuffix(got, "replaces the built-in instructions:\n\nusual") {
		t.Errorf("says %q", got)
	}

	at := filepath.Join(ws, "prompts", "x.md")
	if err := errors.Join(os.WriteFile(at, []byte("mine"), 0o600), record.Trust(at)); err != nil {
		t.Fatal(err)
	}
	if created, err := o.Init(files); err != nil || created {
		t.Errorf("made again: %v, %v", created, err)
	}
	if o.Text() != "mine" {
		t.Errorf("text %q", o.Text())
	}
}
