package origin_test

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

type room struct {
	t         testing.TB
	dir, root string
	store     *origin.Store
}

func newRoom(tb testing.TB) *room {
	tb.Helper()
	r := &room{t: tb, dir: filepath.Join(tb.TempDir(), "origin"), root: tb.TempDir()}
	r.reopen()
	return r
}

// reopen is another process that looks at the same record.
func (r *room) reopen() {
	r.t.Helper()
	s, err := origin.Open(origin.Options{Store: disk.Open(r.dir, nil), Name: "ws", Root: r.root})
	if err != nil {
		r.t.Fatal(err)
	}
	r.store = s
}

func (r *room) path(name string) string { return filepath.Join(r.root, name) }

func (r *room) write(name, content string) string {
	r.t.Helper()
	path := r.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *room) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) want(name string, foreign bool) {
	r.t.Helper()
	if got := r.store.Foreign(r.path(name)); got != foreign {
		r.t.Errorf("Foreign(%s) = %v, want %v", name, got, foreign)
	}
}

// old makes a file that was there before anything else. Its inode must have
// changed before the window, so it is waited for.
func (r *room) old(name, content string) {
	r.t.Helper()
	r.write(name, content)
	settleClock(r.t, r.path(name))
}

const text = "a sentence that is long enough to be told by its content\n"

func TestFilesOfTheOwnerAreTrusted(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.old("notes.md", text)
	r.want("notes.md", false)
	r.want("missing.md", false)
	if e := r.store.Example(r.root); e != "" {
		t.Errorf("Example = %q, want none", e)
	}
}

func TestWindowMarksWhatACommandWrote(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.old("mine.txt", text)
	r.old("changed.txt", text)
	r.old("old/moved.txt", "moved by the command, "+text)

	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	r.write("new.txt", "new "+text)
	r.write("changed.txt", "changed "+text)
	r.write("repo/README.md", "readme "+text)
	r.write("repo/.git/config", "config "+text)
	r.must(os.MkdirAll(r.path("repo/.git/refs/tags"), 0o700)) // an empty folder is in every clone
	r.must(os.Rename(r.path("old/moved.txt"), r.path("moved.txt")))
	// A command can set the times that programs see.
	r.must(exec.CommandContext(t.Context(), "touch", "-d", "2001-01-01", r.path("new.txt")).Run())
	for _, name := range []string{"new.txt", "changed.txt", "repo/README.md", "moved.txt"} {
		r.want(name, true) // also while it runs
	}
	r.want("mine.txt", false)
	r.must(w.Foreign(t.Context()))

	check := func() {
		t.Helper()
		for _, name := range []string{"new.txt", "changed.txt", "repo/README.md", "repo/.git/config", "moved.txt"} {
			r.want(name, true)
		}
		r.want("mine.txt", false)
		r.want("repo/later.txt", true) // the folder came from outside
	}
	check()
	r.reopen()
	check()
	list, err := r.store.List()
	r.must(err)
	if !slices.Contains(list, "repo/") || slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, "repo/R") }) {
		t.Errorf("List = %q, want one mark for the folder", list)
	}
}

// A command renames a folder from outside: the files in it are the same, and the
// name that was marked is gone.
func TestFolderThatIsMoved(t *testing.T) {
	t.Parallel()
	for _, reopen := range []bool{false, true} {
		r := newRoom(t)
		r.old("mine/a.txt", "mine "+text)
		w, err := r.store.Begin(origin.Running{})
		r.must(err)
		r.write("repo/sub/README.md", "ok")
		r.must(w.Foreign(t.Context()))
		settleClock(t, r.path("repo/sub/README.md"))

		w, err = r.store.Begin(origin.Running{})
		r.must(err)
		r.must(os.Rename(r.path("repo"), r.path("mine/stuff")))
		r.must(exec.CommandContext(t.Context(), "touch", r.path("mine/stuff")).Run())
		r.must(w.Foreign(t.Context()))
		if reopen {
			r.reopen()
		}
		r.want("mine/stuff/sub/README.md", true)
		r.want("mine/a.txt", false)
		if e := r.store.Example(r.root); e == "" {
			t.Error("a command sees no file from outside")
		}

		// The owner moves it on, which nothing of ours sees.
		r.must(os.Rename(r.path("mine/stuff"), r.path("elsewhere")))
		r.want("elsewhere/sub/README.md", true)
		r.must(r.store.Trust(r.path("elsewhere")))
		r.want("elsewhere/sub/README.md", false)
	}
}

// A short file that a tainted turn wrote is moved with its folder.
func TestShortFileThatIsMoved(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.must(r.store.Mark(r.write("in/x.md", "obey\n")))
	settleClock(t, r.path("in/x.md"))
	r.must(os.Rename(r.path("in"), r.path("out")))
	r.want("out/x.md", true)
	r.reopen()
	r.want("out/x.md", true)
	r.must(r.store.Trust(r.path("out/x.md")))
	r.want("out/x.md", false)
}

func TestCleanWindowMarksNothing(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	r.write("new.txt", text)
	r.must(w.Clean())
	r.want("new.txt", false)
	if e := r.store.Example(r.root); e != "" {
		t.Errorf("Example = %q, want none", e)
	}
}

func TestProgramsOwnWritesStayTrusted(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w, err := r.store.Begin(origin.Running{}) // of another conversation
	r.must(err)
	path := r.write("ours.txt", "ok")
	r.want("ours.txt", true)
	r.must(r.store.Wrote(path))
	r.want("ours.txt", false)
	r.must(w.Foreign(t.Context()))
	r.want("ours.txt", false)

	// What the command does to it afterwards counts.
	w, err = r.store.Begin(origin.Running{})
	r.must(err)
	r.write("ours.txt", "OK")
	r.want("ours.txt", true)
	r.must(w.Foreign(t.Context()))
	r.want("ours.txt", true)
}

func TestMarkAndTrust(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	path := r.write("page.md", "from a page: "+text)
	r.must(r.store.Mark(path))
	r.want("page.md", true)
	if !r.store.ForeignSum(sha256.Sum256([]byte("from a page: " + text))) {
		t.Error("the content is not known")
	}
	if r.store.ForeignSum(sha256.Sum256([]byte("ok"))) {
		t.Error("a short content is known")
	}
	if e := r.store.Example(r.root); e != "page.md" {
		t.Errorf("Example = %q", e)
	}
	r.must(r.store.Trust(path))
	r.want("page.md", false)
	r.reopen()
	r.want("page.md", false)

	r.must(r.store.Mark(path))
	r.must(os.Remove(path))
	if e := r.store.Example(r.root); e != "" {
		t.Errorf("Example = %q after the file is gone", e)
	}
}

func TestTrustOfAFolder(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	r.write("repo/a.txt", "a "+text)
	r.write("repo/sub/b.txt", "b "+text)
	r.must(w.Foreign(t.Context()))
	r.want("repo/sub/b.txt", true)
	later := "later " + text
	r.must(r.store.Mark(r.write("repo/page.txt", later)))
	r.must(r.store.Trust(r.path("repo")))
	r.want("repo/a.txt", false)
	r.want("repo/sub/b.txt", false)
	r.want("repo/page.txt", false)
	if r.store.ForeignSum(sha256.Sum256([]byte(later))) {
		t.Error("the content of a trusted file is from outside")
	}
	if list, err := r.store.List(); err != nil || len(list) > 0 {
		t.Errorf("List = %q, %v", list, err)
	}
	if e := r.store.Example(r.root); e != "" {
		t.Errorf("Example = %q", e)
	}
}

// A command that is clean so far, such as a server that was left running, marks
// nothing that the owner edits meanwhile.
func TestCleanSoFar(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	var fetched atomic.Bool
	w, err := r.store.Begin(origin.Running{Outside: fetched.Load})
	r.must(err)
	r.write("AGENTS.md", text)
	r.want("AGENTS.md", false)
	if e := r.store.Example(r.root); e != "" {
		t.Errorf("Example = %q", e)
	}
	fetched.Store(true)
	r.want("AGENTS.md", true)
	r.reopen() // another process
	r.want("AGENTS.md", true)
	r.must(w.Foreign(t.Context()))
	r.want("AGENTS.md", true)
}

// No command may write what the agent follows, also a clean one.
func TestCleanCommandThatWritesInstructions(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	w, err := r.store.Begin(origin.Running{Outside: func() bool { return false }})
	r.must(err)
	r.write("TOOLS.md", text)
	r.write("notes.md", text)
	r.must(w.Clean("TOOLS.md", "SOUL.md"))
	r.want("TOOLS.md", true)
	r.want("notes.md", false)
}

// TestLossOfOneFile takes away or damages one file of the record.
func TestLossOfOneFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ws.jsonl", "ws.copy.jsonl"} {
		for what, damage := range map[string]func(path string) error{
			"removed":   os.Remove,
			"empty":     func(path string) error { return os.Truncate(path, 0) },
			"cut":       func(path string) error { return os.Truncate(path, 10) },
			"zeroed":    func(path string) error { return os.WriteFile(path, make([]byte, 100), 0o600) },
			"overwrite": func(path string) error { return os.WriteFile(path, []byte("{}\n"), 0o600) },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				r := newRoom(t)
				r.must(r.store.Mark(r.write("page.md", text)))
				r.must(damage(filepath.Join(r.dir, name)))
				r.want("page.md", true)
				r.reopen()
				r.want("page.md", true)
				r.must(r.store.Mark(r.write("second.md", "second "+text)))
				r.reopen()
				r.want("page.md", true)
				r.want("second.md", true)
			})
		}
	}
}

func TestUnreadableRecordMeansForeign(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.write("notes.md", text)
	r.must(os.MkdirAll(filepath.Join(r.dir, "ws.jsonl"), 0o700))
	r.want("notes.md", true)
	if _, err := r.store.Begin(origin.Running{}); err == nil {
		t.Error("a window was opened without a record")
	}
}

// TestProcessThatDied leaves a window open, as kill -9 does.
func TestProcessThatDied(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.old("mine.txt", text)
	r.must(os.MkdirAll(r.dir, 0o700))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMain$")
	cmd.Env = append(os.Environ(), "ORIGIN_DIE="+r.dir+"|"+r.root)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.reopen()
	r.want("written.txt", true)
	r.want("mine.txt", false)
	r.must(r.store.MarkEnded(t.Context()))
	r.want("written.txt", true)
	r.write("later.txt", text)
	settleClock(t, r.path("later.txt"))
	r.write("later.txt", text+text)
	r.want("later.txt", false)
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	other, err := origin.Open(origin.Options{Store: disk.Open(r.dir, nil), Name: "ws", Root: r.root})
	r.must(err)
	path := r.write("page.md", text)
	r.want("page.md", false)
	r.must(other.Mark(path))
	r.want("page.md", true)
}

func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	outside := filepath.Join(t.TempDir(), "secret")
	r.must(os.WriteFile(outside, []byte(text), 0o600))
	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	r.must(os.Symlink(outside, r.path("link")))
	r.must(os.Symlink(filepath.Dir(outside), r.path("folder")))
	r.must(w.Foreign(t.Context()))
	if r.store.ForeignSum(sha256.Sum256([]byte(text))) {
		t.Error("a file behind a link was read")
	}
	r.want("link", true)
}

// In a workspace that is too large to be walked the time of a command is kept,
// and files are compared with it when they are read.
func TestLargeWorkspace(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	for i := range 205 {
		dir := r.path("many/" + strconv.Itoa(i))
		r.must(os.MkdirAll(dir, 0o700))
		for j := range 100 {
			r.must(os.Mkdir(filepath.Join(dir, strconv.Itoa(j)), 0o700))
		}
	}
	r.old("mine.txt", text)
	w, err := r.store.Begin(origin.Running{})
	r.must(err)
	r.write("zz.txt", "new "+text)
	r.must(w.Foreign(t.Context()))
	r.reopen()
	r.want("zz.txt", true)
	r.want("mine.txt", false)
	if e := r.store.Example(r.root); e == "" {
		t.Error("a command sees no file from outside")
	}
}
