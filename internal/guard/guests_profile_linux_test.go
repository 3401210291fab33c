package guard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// Commands of guests run only where the sandbox hides everything of the owner's.
func TestGuestProfile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	writeFiles(t, home, map[string]string{"config.json": `{"tools":{"exec":{"sandbox":"auto"}}}`})
	g := open(t, home)
	room := g.places.guest("test:group")

	none, err := sandbox.Open(t.Context(), sandbox.Options{Mode: sandbox.None})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.confiner.guestProfile(none, room); err == nil || !strings.Contains(err.Error(), "mount namespaces") {
		t.Errorf("without mount namespaces: %v", err)
	}

	box, err := g.confiner.box(t.Context())
	if err != nil || !box.Level().MountNS {
		t.Skipf("no mount namespaces here: %v", err)
	}
	// The workspace may lie where every command can read, such as /opt.
	if p, err := g.confiner.guestProfile(box, room); err != nil || !slices.Contains(p.Protected, g.o.Workspace) {
		t.Errorf("the owner's workspace is not hidden: %q, %v", p.Protected, err)
	}
	room.root = filepath.Join("/opt", "nanobot", "guests", "test_group")
	if _, err := g.confiner.guestProfile(box, room); err == nil || !strings.Contains(err.Error(), "/opt/nanobot lies in a folder of programs") {
		t.Errorf("a data folder among the programs: %v", err)
	}
}

// Commands of guests use the proxy where the owner's may reach every host, and
// the policy knows it.
func TestGuestsNetwork(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"host": "proxy", "proxy": "proxy", "none": "none"} {
		home := t.TempDir()
		conf := `{"tools":{"exec":{"sandbox":"auto","network":"` + set + `"}}}`
		if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		g := open(t, home)
		if got := g.approval(g.jail).Network; got != set {
			t.Errorf("%s: the owner's commands have %q", set, got)
		}
		if got := g.guests.approval(g.jail).Network; got != want {
			t.Errorf("%s: commands of guests have %q, want %q", set, got, want)
		}
	}
}
