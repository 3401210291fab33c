package guard

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// allOriginsOf are the records of the data folder of a guard.
func allOriginsOf(g *Guard) *AllOrigins {
	workspaces := func() map[string]string { return session.Known(g.o.State) }
	return OpenAllOrigins(g.o.Policy.DataDir, workspaces, g.log)
}

// newWorkspace is the record of a folder that becomes a workspace, with what
// others know about it.
func newWorkspace(t *testing.T, g *Guard, dir string) *origin.Store {
	t.Helper()
	to, err := OpenOrigins(g.o.Policy.DataDir, dir, filepath.Base(dir), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := allOriginsOf(g).Inherit(to, dir); err != nil {
		t.Fatal(err)
	}
	return to
}

// What came from outside in a folder that a conversation worked in stays from
// outside when the folder, or one in it, becomes a workspace.
func TestProjectBecomesAWorkspace(t *testing.T) {
	t.Parallel()
	home, project := t.TempDir(), t.TempDir()
	writeFiles(t, home, map[string]string{"config.json": "{}"})
	// The marked files are not there: those that change in the same tick of the
	// clock as a marked one would count as from outside, too.
	writeFiles(t, project, map[string]string{"own.md": "1\n", "sub/own.md": "2\n"})
	g := open(t, home)
	rec, err := g.tracker.origins.of(project)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Mark(filepath.Join(project, "AGENTS.md"), filepath.Join(project, "sub", "AGENTS.md")); err != nil {
		t.Fatal(err)
	}

	all := allOriginsOf(g)
	top, sub := newWorkspace(t, g, project), newWorkspace(t, g, filepath.Join(project, "sub"))
	for name, want := range map[string]bool{"own.md": false, "AGENTS.md": true, "sub/own.md": false, "sub/AGENTS.md": true} {
		path := filepath.Join(project, filepath.FromSlash(name))
		if got := all.Foreign(path); got != want {
			t.Errorf("%s counts as from outside before the takeover: %v", name, got)
		}
		if got := top.Foreign(path); got != want {
			t.Errorf("%s counts as from outside in the workspace: %v", name, got)
		}
		if dir, file := filepath.Split(name); dir != "" && sub.Foreign(path) != want {
			t.Errorf("%s counts as from outside in the workspace %s: %v", file, dir, !want)
		}
	}
}

// No folder of a project is sealed against commands, so what one changed below
// skills counts when the project becomes a workspace.
func TestProjectWithSkills(t *testing.T) {
	t.Parallel()
	home, project := t.TempDir(), t.TempDir()
	writeFiles(t, home, map[string]string{"config.json": "{}"})
	g := open(t, home)
	rec, err := g.tracker.origins.of(project)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rec.Begin(origin.Running{}); err != nil { // and the process ends
		t.Fatal(err)
	}
	writeFiles(t, project, map[string]string{"skills/tea/SKILL.md": "1\n"})
	if !allOriginsOf(g).Foreign(filepath.Join(project, "skills", "tea", "SKILL.md")) {
		t.Error("a skill that a command wrote counts as the owner's")
	}
}

// A workspace that has a record already keeps what its owner trusted there.
func TestInheritKeepsWhatIsTrusted(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	writeFiles(t, home, map[string]string{"config.json": "{}"})
	g := open(t, home)
	writeFiles(t, g.o.Workspace, map[string]string{"clone/a.md": "1\n", "clone/b.md": "2\n"})
	rec, err := g.tracker.origins.of("")
	if err != nil {
		t.Fatal(err)
	}
	trusted, other := filepath.Join(g.o.Workspace, "clone", "a.md"), filepath.Join(g.o.Workspace, "clone", "b.md")
	if err := rec.Mark(filepath.Join(g.o.Workspace, "clone")); err != nil {
		t.Fatal(err)
	}
	if err := rec.Trust(trusted); err != nil {
		t.Fatal(err)
	}
	if err := allOriginsOf(g).Inherit(rec, g.o.Workspace); err != nil {
		t.Fatal(err)
	}
	if rec.Foreign(trusted) || !rec.Foreign(other) {
		t.Errorf("a.md, which is trusted, counts as from outside: %v; b.md: %v", rec.Foreign(trusted), rec.Foreign(other))
	}
}
