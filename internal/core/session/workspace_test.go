package session

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// ground is a place for workspaces and a data folder.
type ground struct {
	t    *testing.T
	dir  string
	open storetest.Open
}

func newGround(t *testing.T, open storetest.Open) *ground {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return &ground{t, dir, open}
}

func (g *ground) data() string { return filepath.Join(g.dir, "data") }

func (g *ground) find(name string) *Workspace {
	g.t.Helper()
	ws := filepath.Join(g.dir, name)
	must(g.t, os.MkdirAll(ws, 0o755))
	w, err := Identify(g.open(g.t, g.data()), g.data(), ws)
	must(g.t, err)
	return w
}

func (g *ground) id(name string) string {
	g.t.Helper()
	return g.find(name).ID
}

func (g *ground) move(from, to string) {
	g.t.Helper()
	must(g.t, os.Rename(filepath.Join(g.dir, from), filepath.Join(g.dir, to)))
}

func (g *ground) write(name, body string) {
	g.t.Helper()
	path := filepath.Join(g.dir, filepath.FromSlash(name))
	must(g.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(g.t, os.WriteFile(path, []byte(body), 0o600))
}

func TestWorkspaceID(t *testing.T) { storetest.Each(t, testWorkspaceID) }

func testWorkspaceID(t *testing.T, open storetest.Open) {
	t.Parallel()
	g := newGround(t, open)
	first := g.id("a")
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(first) {
		t.Fatalf("id = %q", first)
	}
	if again := g.id("a"); again != first {
		t.Errorf("second look: %s, want %s", again, first)
	}
	second := g.id("b")
	if second == first {
		t.Error("two workspaces share an id")
	}
	if entries, err := os.ReadDir(filepath.Join(g.dir, "a")); err != nil || len(entries) > 0 {
		t.Errorf("the workspace was written to: %v %v", entries, err)
	}

	g.move("a", "moved")
	w := g.find("moved")
	if w.ID != first || len(w.Notes) != 1 || !strings.Contains(w.Notes[0], filepath.Join(g.dir, "a")) {
		t.Errorf("moved: %s %q, want %s and a note", w.ID, w.Notes, first)
	}
	if again := g.find("moved"); again.ID != first || len(again.Notes) > 0 {
		t.Errorf("the note comes again: %q", again.Notes)
	}
	must(t, os.CopyFS(filepath.Join(g.dir, "copy"), os.DirFS(filepath.Join(g.dir, "moved"))))
	copied := g.id("copy")
	if copied == first || g.id("copy") != copied || g.id("moved") != first {
		t.Errorf("copied: %s; the original has %s", copied, first)
	}
	if err := os.Symlink(filepath.Join(g.dir, "moved"), filepath.Join(g.dir, "link")); err == nil {
		if linked := g.id("link"); linked != first {
			t.Errorf("through a link: %s, want %s", linked, first)
		}
	}

	// Two that change places.
	g.move("moved", "x")
	g.move("b", "moved")
	g.move("x", "b")
	if got := g.id("moved"); got != second {
		t.Errorf("b in the place of moved: %s, want %s", got, second)
	}
	if got := g.id("b"); got != first {
		t.Errorf("moved in the place of b: %s, want %s", got, first)
	}

	// A folder that was made again keeps what belongs to its path.
	must(t, os.RemoveAll(filepath.Join(g.dir, "copy")))
	if got := g.id("copy"); got != copied {
		t.Errorf("made again: %s, want %s", got, copied)
	}
}

// A new folder that got the inode of a removed one is not taken for it.
func TestWorkspaceInodeUsedAgain(t *testing.T) { storetest.Each(t, testWorkspaceInodeUsedAgain) }

func testWorkspaceInodeUsedAgain(t *testing.T, open storetest.Open) {
	t.Parallel()
	g := newGround(t, open)
	for i := range 20 {
		first := g.id("a")
		must(t, os.RemoveAll(filepath.Join(g.dir, "a")))
		w := g.find("b")
		if _, _, born := folderIdentity(filepath.Join(g.dir, "b")); born == 0 {
			t.Skip("this file system does not tell when a folder was made")
		}
		if w.ID == first {
			t.Fatalf("round %d: the new folder has the id of the removed one", i)
		}
		must(t, os.RemoveAll(filepath.Join(g.dir, "b")))
		must(t, os.RemoveAll(g.data()))
	}
}

// What a command writes into the workspace decides nothing.
func TestWorkspaceIDIsNotReadFromTheWorkspace(t *testing.T) {
	storetest.Each(t, testWorkspaceIDIsNotReadFromTheWorkspace)
}

func testWorkspaceIDIsNotReadFromTheWorkspace(t *testing.T, open storetest.Open) {
	t.Parallel()
	g := newGround(t, open)
	victim, mine := g.id("victim"), g.id("mine")
	must(t, os.RemoveAll(filepath.Join(g.dir, "victim")))
	for _, ws := range []string{"mine", "new"} {
		g.write(ws+"/.nanobot/workspace-id", victim+"\n")
		if got := g.id(ws); got == victim || ws == "mine" && got != mine {
			t.Errorf("%s: the forged id %s was taken", ws, got)
		}
	}
}

// The table of versions before are the markers beside the conversations.
func TestWorkspaceTakeover(t *testing.T) { storetest.Each(t, testWorkspaceTakeover) }

func testWorkspaceTakeover(t *testing.T, open storetest.Open) {
	t.Parallel()
	const known, moved, orphan = "00000000000000000000000000000001", "00000000000000000000000000000002", "00000000000000000000000000000003"
	g := newGround(t, open)
	g.write("data/sessions/"+known+"/.workspace", filepath.Join(g.dir, "known")+"\n")
	g.write("data/sessions/"+moved+"/.workspace", filepath.Join(g.dir, "gone")+"\n")
	g.write("data/sessions/"+orphan+"/aw.jsonl", "")
	g.write("known/.nanobot/workspace-id", orphan+"\n") // forged; the marker names the path
	g.write("moved/.nanobot/workspace-id", moved+"\n")
	g.write("restored/.nanobot/workspace-id", orphan+"\n")
	g.write("thief/.nanobot/workspace-id", orphan+"\n")
	for _, c := range []struct{ name, want string }{{"known", known}, {"moved", moved}, {"restored", orphan}} {
		if got := g.id(c.name); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := g.id("thief"); got == orphan {
		t.Error("an id was given away twice")
	}
	w := g.find("known")
	if len(w.Entry.Imported) > 0 {
		t.Errorf("nothing was taken over yet: %v", w.Entry.Imported)
	}
}

// A link in the place of the id of versions before is not followed, nor is a
// link on the way.
func TestWorkspaceTakeoverFollowsNoLink(t *testing.T) {
	t.Parallel()
	const orphan = "00000000000000000000000000000003"
	for _, link := range []string{".nanobot", ".nanobot/workspace-id"} {
		g := newGround(t, storetest.Disk)
		g.write("data/sessions/"+orphan+"/aw.jsonl", "")
		g.write("elsewhere/workspace-id", orphan+"\n")
		target := filepath.Join(g.dir, "elsewhere")
		if link != ".nanobot" {
			target = filepath.Join(target, "workspace-id")
		}
		path := filepath.Join(g.dir, "ws", filepath.FromSlash(link))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if err := os.Symlink(target, path); err != nil {
			t.Skip("no symbolic links here:", err)
		}
		if got := g.id("ws"); got == orphan {
			t.Errorf("%s was followed", link)
		}
	}
}

func TestWorkspaceTableRepair(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(file string) error{
		"lost":    os.Remove,
		"damaged": func(file string) error { return os.WriteFile(file, []byte(`{"version":1,"workspaces":{"`), 0o600) },
		"empty":   func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"forged":  func(file string) error { return os.WriteFile(file, []byte(`{"workspaces":{"../../etc":{}}}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t, storetest.Disk)
			a, b := g.find("a"), g.id("b")
			must(t, a.Once("jobs", clock(), func() error { return nil }))
			must(t, harm(filepath.Join(g.data(), fileTable)))
			again := g.find("a")
			if again.ID != a.ID || g.id("b") != b {
				t.Errorf("after the repair: %s and %s, want %s and %s", again.ID, g.id("b"), a.ID, b)
			}
			if len(again.Notes) != 1 {
				t.Errorf("notes = %q", again.Notes)
			}
			if again.Entry.Imported["jobs"].IsZero() {
				t.Error("what was taken over is forgotten")
			}
			kept, err := filepath.Glob(filepath.Join(g.data(), fileTable) + ".damaged-*")
			must(t, err)
			if want := map[bool]int{true: 0, false: 1}[name == "lost"]; len(kept) != want {
				t.Errorf("kept %v", kept)
			}
		})
	}
}

func TestWorkspaceOnce(t *testing.T) { storetest.Each(t, testWorkspaceOnce) }

func testWorkspaceOnce(t *testing.T, open storetest.Open) {
	t.Parallel()
	g := newGround(t, open)
	n := 0
	count := func() error { n++; return nil }
	fail := func() error { n++; return os.ErrPermission }
	w, stale := g.find("a"), g.find("a")
	if err := w.Once("jobs", clock(), fail); err == nil {
		t.Error("the error is lost")
	}
	must(t, w.Once("jobs", clock(), count))
	must(t, w.Once("jobs", clock(), count))
	must(t, stale.Once("jobs", clock(), count))
	must(t, g.find("a").Once("jobs", clock(), count))
	if n != 2 {
		t.Errorf("it ran %d times, want a failure and a success", n)
	}
	must(t, w.Once("history", time.Now(), count))
	if n != 3 {
		t.Error("kinds are not told apart")
	}
}

func TestWorkspaceFind(t *testing.T) { storetest.Each(t, testWorkspaceFind) }

func testWorkspaceFind(t *testing.T, open storetest.Open) {
	t.Parallel()
	g := newGround(t, open)
	if _, ok, err := Find(g.open(g.t, g.data()), g.data(), filepath.Join(g.dir, "a")); ok || err != nil {
		t.Errorf("found %v, %v", ok, err)
	}
	if _, err := os.Stat(g.data()); err == nil {
		t.Error("looking made the data folder")
	}
	id := g.id("a")
	if w, ok, err := Find(g.open(g.t, g.data()), g.data(), filepath.Join(g.dir, "a")); !ok || err != nil || w.ID != id {
		t.Errorf("found %v %v, %v", w, ok, err)
	}
}

func TestWorkspaceAdopt(t *testing.T) { storetest.Each(t, testWorkspaceAdopt) }

func testWorkspaceAdopt(t *testing.T, open storetest.Open) {
	t.Parallel()
	g := newGround(t, open)
	old := g.id("old")
	if _, err := Adopt(g.open(g.t, g.data()), g.data(), filepath.Join(g.dir, "new"), filepath.Join(g.dir, "old")); err == nil {
		t.Error("a workspace that is there was taken away")
	}
	must(t, os.CopyFS(filepath.Join(g.dir, "new"), os.DirFS(filepath.Join(g.dir, "old"))))
	must(t, os.RemoveAll(filepath.Join(g.dir, "old")))
	w := g.find("new") // as after a move to another disk
	if w.ID == old || len(w.Notes) != 1 || !strings.Contains(w.Notes[0], "nanobot migrate --from") {
		t.Fatalf("%s %q", w.ID, w.Notes)
	}
	w, err := Adopt(g.open(g.t, g.data()), g.data(), filepath.Join(g.dir, "new"), filepath.Join(g.dir, "old"))
	must(t, err)
	if w.ID != old || g.id("new") != old {
		t.Errorf("adopted: %s, then %s, want %s", w.ID, g.id("new"), old)
	}
}

// No flipped bit in the table of workspaces gives a workspace another id, or
// loses what is noted about it.
func TestWorkspaceTableRot(t *testing.T) {
	t.Parallel()
	g := newGround(t, storetest.Disk)
	w := g.find("a")
	must(t, w.Once("jobs", time.Now(), func() error { return nil }))
	g.write("data/sessions/"+w.ID+"/cli_direct.jsonl", "{}\n")
	file := filepath.Join(g.data(), "workspaces.json")
	whole, err := os.ReadFile(file)
	must(t, err)
	for i := range whole {
		rotten := append([]byte(nil), whole...)
		rotten[i] ^= 1 << (i % 3) // such a letter or digit stays one
		must(t, os.WriteFile(file, rotten, 0o600))
		got := g.find("a")
		if got.ID != w.ID || got.Entry.Imported["jobs"].IsZero() {
			t.Fatalf("with byte %d flipped (%q): id %s, taken %v; want %s", i, rotten, got.ID, got.Entry.Imported, w.ID)
		}
	}
}

// Conversations that the table does not name are found.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	g := newGround(t, storetest.Disk)
	w := g.find("a")
	g.write("data/sessions/"+w.ID+"/cli_direct.jsonl", "{}\n")
	state := storetest.Disk(t, g.data())
	if got, err := Unlisted(state, g.data()); err != nil || got != nil {
		t.Errorf("Unlisted = %v, %v", got, err)
	}
	lost := strings.Repeat("ab", 16)
	g.write("data/sessions/"+lost+"/cli_direct.jsonl", "{}\n")
	if got, err := Unlisted(state, g.data()); err != nil || len(got) != 1 || filepath.Base(got[0]) != lost {
		t.Errorf("Unlisted = %v, %v; want %s", got, err, lost)
	}
}

// A data folder that was copied beside the original goes on with its own copy of
// everything; the original stays as it is.
func TestCopiedDataFolder(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	identify := func(home string) *Workspace {
		t.Helper()
		data := filepath.Join(dir, home, ".nanobot")
		must(t, os.MkdirAll(filepath.Join(data, "workspace"), 0o700))
		w, err := Identify(storetest.Disk(t, data), data, filepath.Join(data, "workspace"))
		must(t, err)
		return w
	}
	one := identify("one")
	must(t, os.WriteFile(filepath.Join(one.Dir(dirRoot), "cli_direct.jsonl"), []byte("{}\n"), 0o600))
	must(t, os.CopyFS(filepath.Join(dir, "two"), os.DirFS(filepath.Join(dir, "one"))))

	found, ok, err := Find(storetest.Disk(t, filepath.Join(dir, "two", ".nanobot")), filepath.Join(dir, "two", ".nanobot"), filepath.Join(dir, "two", ".nanobot", "workspace"))
	if err != nil || !ok || found.ID != one.ID {
		t.Errorf("Find: %+v %v %v", found, ok, err)
	}
	two := identify("two")
	if two.ID != one.ID {
		t.Error("the copy begins with nothing")
	}
	if len(two.Notes) != 1 || !strings.Contains(two.Notes[0], filepath.Join(dir, "one", ".nanobot")) {
		t.Errorf("notes: %q", two.Notes)
	}
	for _, home := range []string{"one", "two"} {
		if w := identify(home); w.ID != one.ID || len(w.Notes) > 0 {
			t.Errorf("%s, once more: %s %q", home, w.ID, w.Notes)
		}
	}
	if one = identify("one"); one.Entry.Path != one.Path {
		t.Errorf("the original is thought to be in %s", one.Entry.Path)
	}
}

// A data folder that only knows a workspace below another one is no copy of it:
// it says whose conversations it has.
func TestDataFolderOfAnotherPlace(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	data := filepath.Join(dir, "two", ".nanobot")
	theirs, own := filepath.Join(dir, "one", ".nanobot", "workspace"), filepath.Join(data, "workspace")
	must(t, os.MkdirAll(theirs, 0o700))
	must(t, os.MkdirAll(own, 0o700))
	first, err := Identify(storetest.Disk(t, data), data, theirs)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(first.Dir(dirRoot), "cli_direct.jsonl"), []byte("{}\n"), 0o600))

	w, err := Identify(storetest.Disk(t, data), data, own)
	must(t, err)
	if w.ID == first.ID {
		t.Error("the conversations of a folder that is there were given to another one")
	}
	if len(w.Notes) != 1 || !strings.Contains(w.Notes[0], "belong to "+theirs) {
		t.Errorf("notes: %q", w.Notes)
	}
}
