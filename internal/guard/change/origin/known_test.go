package origin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
)

// sh is the owner in a terminal, which nothing of ours sees.
func (r *room) sh(command string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "sh", "-ec", command)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// A mark belongs to a file, not to its name: whatever the owner does to the names
// of what a stranger wrote, it is known when it is read, and commands that can
// read it are not clean.
func TestMarksOutliveNames(t *testing.T) {
	t.Parallel()
	long := "a page of a stranger, " + text
	for name, row := range map[string]struct {
		files   map[string]string // by default in/x.md and in/short.sh
		owner   string
		foreign []string
	}{
		"mv":                             {owner: "mv in/x.md moved.md; rm in/short.sh", foreign: []string{"moved.md"}},
		"mv of a short one":              {owner: "mv in/short.sh run; rm in/x.md", foreign: []string{"run"}},
		"mv of a folder":                 {owner: "mv in out", foreign: []string{"out/x.md", "out/short.sh"}},
		"mv of a folder into another":    {owner: "mkdir -p a/b && mv in a/b/c", foreign: []string{"a/b/c/x.md"}},
		"mv, and another in its place":   {owner: "mv in/x.md moved.md; echo mine > in/x.md", foreign: []string{"moved.md"}},
		"cp, then rm":                    {owner: "cp in/x.md copy.md; cp in/short.sh copy.sh; rm -r in", foreign: []string{"copy.md", "copy.sh"}},
		"cp -r, then rm":                 {owner: "cp -r in out; rm -r in", foreign: []string{"out/x.md", "out/short.sh"}},
		"cp with its times":              {owner: "cp -rp in out; rm -r in", foreign: []string{"out/x.md", "out/short.sh"}},
		"a hard link":                    {owner: "ln in/x.md hard.md; rm -r in", foreign: []string{"hard.md"}},
		"a hard link that was edited":    {owner: "ln in/x.md hard.md; rm -r in; echo more >> hard.md", foreign: []string{"hard.md"}},
		"mv, then an edit":               {owner: "mv in/x.md moved.md; echo more >> moved.md; rm -r in", foreign: []string{"moved.md"}},
		"tar and back":                   {owner: "tar cf /dev/stdout in > t.tar; rm -r in; tar xf t.tar; mv in out", foreign: []string{"out/x.md", "out/short.sh"}},
		"tar and back to another place":  {owner: "tar czf t.tgz in; rm -r in; mkdir u; tar xzf t.tgz -C u; rm t.tgz", foreign: []string{"u/in/x.md", "u/in/short.sh"}},
		"git stash, as a rename":         {owner: "mkdir .g; mv in/x.md .g/1; rm -r in; cat .g/1 > again.md", foreign: []string{"again.md", ".g/1"}},
		"times that are set back":        {owner: "mv in/x.md moved.md; touch -d 2001-01-01 moved.md; rm -r in", foreign: []string{"moved.md"}},
		"mv into skills":                 {owner: "mkdir -p skills/tea; mv in/x.md skills/tea/SKILL.md; rm -r in", foreign: []string{"skills/tea/SKILL.md"}},
		"mv in place of instructions":    {owner: "mv in/x.md AGENTS.md; rm -r in", foreign: []string{"AGENTS.md"}},
		"a loop of three names":          {owner: "mv in/x.md a; mv a b; mv b c; rm -r in", foreign: []string{"c"}},
		"a large file":                   {files: map[string]string{"in/large": long + strings.Repeat("\n", 17<<20)}, owner: "mv in/large big", foreign: []string{"big"}},
		"a large file in a moved folder": {files: map[string]string{"in/large": long + strings.Repeat("\n", 17<<20)}, owner: "mv in out", foreign: []string{"out/large"}},
		"nothing is left":                {owner: "rm -r in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, how := range []string{"by a turn", "by a command", "as a folder"} {
				r := newRoom(t)
				r.old("mine.md", "mine "+text)
				files := row.files
				if files == nil {
					files = map[string]string{"in/x.md": long, "in/short.sh": "id\n"}
				}
				w, err := r.store.Begin(origin.Running{})
				r.must(err)
				for name, body := range files {
					r.write(name, body)
				}
				switch how {
				case "by a turn":
					r.must(w.Clean())
					for name := range files {
						r.must(r.store.Mark(r.path(name)))
					}
				case "by a command":
					r.old("in/mine.md", "also mine "+text)
					r.must(r.store.Wrote(r.path("in/mine.md"))) // so that the folder is not marked as a whole
					r.must(w.Foreign(t.Context()))
				case "as a folder":
					r.must(w.Foreign(t.Context()))
				}
				settleClock(t, r.path("in"))
				if r.store.Example(r.root) == "" {
					t.Fatal("nothing is marked")
				}

				r.sh(row.owner)
				for range 2 { // the second time in a new process
					for _, name := range row.foreign {
						r.want(name, true)
					}
					r.want("mine.md", false)
					gone := len(row.foreign) == 0
					if example := r.store.Example(r.root); (example == "") != gone {
						t.Errorf("%s: a command can read %q", how, example)
					}
					r.reopen()
				}

				// The owner's own word ends it, and the file in its old place is the owner's.
				r.must(r.store.Trust(r.root))
				r.want("mine.md", false)
				for _, name := range row.foreign {
					r.want(name, false)
				}
				if example := r.store.Example(r.root); example != "" {
					t.Errorf("%s: after it was trusted, a command can read %q", how, example)
				}
			}
		})
	}
}

// A file that is moved to another root is known there, too.
func TestMarksOutliveRoots(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	elsewhere := t.TempDir()
	open := func() *origin.Store {
		s, err := origin.Open(origin.Options{Store: disk.Open(r.dir, nil), Name: "elsewhere", Root: elsewhere})
		r.must(err)
		return s
	}
	r.must(r.store.Mark(r.write("page.md", text), r.write("run.sh", "id\n")))
	moved, copied := filepath.Join(elsewhere, "moved.md"), filepath.Join(elsewhere, "run.sh")
	r.must(os.Rename(r.path("page.md"), moved))
	r.sh("cp run.sh " + copied + "; rm run.sh")
	s := open()
	if !s.Foreign(moved) || !s.Foreign(copied) || s.Example(elsewhere) == "" {
		t.Errorf("moved %v, copied %v, example %q", s.Foreign(moved), s.Foreign(copied), s.Example(elsewhere))
	}
	r.must(s.Trust(elsewhere))
	for range 2 {
		if s.Foreign(moved) || s.Foreign(copied) || s.Example(elsewhere) != "" {
			t.Error("the owner trusted it there, and it is not the owner's")
		}
		s = open()
	}
}

// The owner's own files with the content of a stranger's stay the owner's, if they
// were there before; an empty file says nothing.
func TestSameContentAsAStranger(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.old("LICENSE", text)
	r.old("ok", "ok\n")
	r.old("empty", "")
	r.must(r.store.Mark(r.write("in/LICENSE", text), r.write("in/ok", "ok\n"), r.write("in/empty", "")))
	r.sh("rm -r in")
	for _, name := range []string{"LICENSE", "ok", "empty"} {
		r.want(name, false)
	}
	r.sh("touch later; mkdir d; touch d/empty")
	if example := r.store.Example(r.root); example != "" {
		t.Errorf("a command can read %q", example)
	}
	r.want("later", false)
}

// What is about to be written is marked, and not what it replaces.
func TestExpect(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	path := r.write("mine.md", text)
	r.must(r.store.Expect(path))
	r.want("mine.md", true)
	r.write("backup.md", text)
	r.want("backup.md", false)
}

// What a long record knows without names survives that it is written again.
func TestLongRecordKeepsContents(t *testing.T) {
	t.Parallel()
	r := newRoom(t)
	r.must(r.store.Mark(r.write("in/x.md", text), r.write("in/run.sh", "id\n")))
	r.sh("cp in/x.md copy.md; mv in/run.sh run.sh; rm -r in")
	line := strings.Repeat(`{"op":"forget","path":"page.md"}`+"\n", 5<<20/33)
	for _, name := range []string{"ws.jsonl", "ws.copy.jsonl"} {
		f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_APPEND|os.O_WRONLY, 0o600)
		r.must(err)
		_, err = f.WriteString(line)
		r.must(err)
		r.must(f.Close())
	}
	for range 2 {
		r.reopen()
		r.want("copy.md", true)
		r.want("run.sh", true)
	}
	if info, err := os.Stat(filepath.Join(r.dir, "ws.jsonl")); err != nil || info.Size() > 10_000 {
		t.Errorf("the record was not written again: %v", err)
	}
}
