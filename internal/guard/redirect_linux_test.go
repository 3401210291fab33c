package guard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// A link from outside never leads a write into what the agent follows.
func TestLinksIntoInstructions(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		link, target string // made by a command of a tainted turn
		own          bool   // or by the owner
		then         func(t *testing.T, ws string)
		writes       string
		want         bool // it is written
	}{
		"to instructions":                   {link: "notes.md", target: "AGENTS.md", writes: "notes.md"},
		"to a folder of skills":             {link: "docs", target: "skills/tea", writes: "docs/SKILL.md"},
		"to a new file in it":               {link: "docs", target: "skills", writes: "docs/new.md"},
		"to the workspace itself":           {link: "sub/here", target: "..", writes: "sub/here/AGENTS.md"},
		"by a full name":                    {link: "notes.md", target: "/AGENTS.md", writes: "notes.md"},
		"over a link of the owner's":        {link: "one", target: "two", writes: "one", then: func(t *testing.T, ws string) { symlink(t, "AGENTS.md", filepath.Join(ws, "two")) }},
		"moved by the owner":                {link: "notes.md", target: "AGENTS.md", writes: "list.md", then: func(t *testing.T, ws string) { rename(t, ws, "notes.md", "list.md") }},
		"in a folder the owner moved":       {link: "in/notes.md", target: "../AGENTS.md", writes: "out/notes.md", then: func(t *testing.T, ws string) { rename(t, ws, "in", "out") }},
		"reached over the parent folder":    {link: "sub/x/notes.md", target: "../../AGENTS.md", writes: "sub/../sub/x/notes.md"},
		"to memory":                         {link: "diary.md", target: "memory/MEMORY.md", writes: "diary.md"},
		"to a file that nobody follows":     {link: "notes.md", target: "mine.txt", writes: "notes.md", want: true},
		"of the owner's":                    {link: "CLAUDE.md", target: "AGENTS.md", own: true, writes: "CLAUDE.md", want: true},
		"without a link":                    {link: "notes.md", target: "mine.txt", writes: "AGENTS.md", want: true},
		"a link, but another file is meant": {link: "notes.md", target: "AGENTS.md", writes: "mine.txt", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, ws := keeper(t)
			writeFiles(t, ws, map[string]string{"skills/tea/SKILL.md": "tea\n", "memory/MEMORY.md": "1\n"})
			target := row.target
			if filepath.IsAbs(target) {
				target = filepath.Join(ws, target)
			}
			mkdir(t, ws, filepath.Dir(row.link))
			if row.own {
				symlink(t, target, filepath.Join(ws, row.link))
			} else {
				w, err := s.watch(tool.Call{Tainted: true}, true)
				if err != nil {
					t.Fatal(err)
				}
				symlink(t, target, filepath.Join(ws, row.link))
				w.end()
				w.close()
			}
			if row.then != nil {
				row.then(t, ws)
			}
			for _, tainted := range []bool{false, true} {
				if err := s.redirected(tool.Call{Name: "write_file", Tainted: tainted}, []string{row.writes}); (err == nil) != row.want {
					t.Errorf("tainted %v: %v", tainted, err)
				}
			}
		})
	}
}

func symlink(t *testing.T, target, at string) {
	t.Helper()
	if err := os.Symlink(target, at); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, ws, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(ws, from), filepath.Join(ws, to)); err != nil {
		t.Fatal(err)
	}
}
