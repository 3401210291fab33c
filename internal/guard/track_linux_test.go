package guard

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// keeper is a tracker with a workspace and a record of files from outside.
func keeper(t *testing.T) (s *tracker, rec *origin.Store, ws string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws = filepath.Join(dir, "ws")
	writeFiles(t, ws, map[string]string{"mine.txt": "1\n", "sub/part.txt": "2\n", "AGENTS.md": "3\n"})
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, Restrict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = jail.Close() })
	log := slog.New(slog.DiscardHandler)
	s = &tracker{
		posture: Posture{Sandbox: sandbox.Auto, Approval: approve.Auto},
		jail:    jail,
		share:   filepath.Join(ws, "share"),
		origins: &origins{state: storetest.Disk(t, filepath.Join(dir, "origin")), workspace: ws, name: "ws", cache: filepath.Join(dir, "cache"), log: log},
		log:     log,
	}
	if rec, err = s.origins.of(""); err != nil {
		t.Fatal(err)
	}
	return s, rec, ws
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// A command has the rights of the least trusted thing that it can read.
func TestContained(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(t *testing.T, s *tracker, rec *origin.Store, ws string)
		call   tool.Call
		want   string // "" is clean
	}{
		"clean":                            {want: ""},
		"tainted":                          {call: tool.Call{Tainted: true}, want: "content from outside is in this conversation"},
		"a guest's":                        {call: tool.Call{Scope: "test:group/7"}, want: "it is a guest's"},
		"an empty share":                   {change: func(t *testing.T, _ *tracker, _ *origin.Store, ws string) { mkdir(t, ws, "share") }, want: ""},
		"a file that guests share":         {change: func(t *testing.T, _ *tracker, _ *origin.Store, ws string) { put(t, ws, "share/a.txt") }, want: "it can read what guests share"},
		"no share, but a folder of a name": {change: func(t *testing.T, s *tracker, _ *origin.Store, ws string) { put(t, ws, "share/a.txt"); s.share = "" }, want: ""},
		"a marked file":                    {change: markPart, want: "it can read a file from outside: sub/part.txt"},
		"a marked file that is gone": {change: func(t *testing.T, s *tracker, rec *origin.Store, ws string) {
			markPart(t, s, rec, ws)
			if err := os.Remove(filepath.Join(ws, "sub", "part.txt")); err != nil {
				t.Fatal(err)
			}
		}, want: ""},
		"without a sandbox": {change: func(_ *testing.T, s *tracker, _ *origin.Store, _ string) { s.posture.Sandbox = sandbox.None }, want: "nothing confines it"},
		"kept inside a folder, without a sandbox for others": {
			change: func(_ *testing.T, s *tracker, _ *origin.Store, _ string) { s.posture.Sandbox = sandbox.None },
			call:   tool.Call{Project: tool.Project{Dir: "sub", Only: true}}, want: "",
		},
		"works in a folder without the marked file": {change: markPart, call: tool.Call{Project: tool.Project{Dir: "other"}}, want: "it can read a file from outside: sub/part.txt"},
		"kept inside a folder without it":           {change: markPart, call: tool.Call{Project: tool.Project{Dir: "other", Only: true}}, want: ""},
		"kept inside the folder with it":            {change: markPart, call: tool.Call{Project: tool.Project{Dir: "sub", Only: true}}, want: "it can read a file from outside: sub/part.txt"},
		"a record that cannot be read": {change: func(t *testing.T, s *tracker, _ *origin.Store, _ string) {
			s.origins.main, s.origins.state = nil, storetest.Disk(t, filepath.Join(s.jail.Workspace(), "mine.txt")) // a file
		}, want: "?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rec, ws := keeper(t)
			mkdir(t, ws, "other")
			if row.change != nil {
				row.change(t, s, rec, ws)
			}
			if row.call.Project.Dir != "" {
				row.call.Project.Dir = filepath.Join(ws, row.call.Project.Dir)
			}
			if got := s.contained(row.call); got != row.want && (row.want != "?" || got == "") {
				t.Errorf("contained says %q, want %q", got, row.want)
			}
		})
	}
}

func mkdir(t *testing.T, ws, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(ws, name), 0o700); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, ws, name string) {
	t.Helper()
	writeFiles(t, ws, map[string]string{name: "x\n"})
}

func markPart(t *testing.T, _ *tracker, rec *origin.Store, ws string) {
	t.Helper()
	if err := rec.Mark(filepath.Join(ws, "sub", "part.txt")); err != nil {
		t.Fatal(err)
	}
}

// What a tainted turn writes is marked, before the file is there and after. A
// part of a marked file never ends its mark; a whole file of a clean turn does.
func TestWritesOfATurn(t *testing.T) {
	t.Parallel()
	written := strings.Repeat("what the turn wrote, long enough to be known by its content\n", 20)
	for name, row := range map[string]struct {
		call            tool.Call
		files           []string
		off             bool   // no approvals
		before, after   string // marked while it runs, and afterwards
		trusted, absent string
	}{
		"clean, new":                         {call: tool.Call{Name: "write_file"}, files: []string{"new.txt"}, trusted: "new.txt"},
		"clean, whole marked file":           {call: tool.Call{Name: "write_file"}, files: []string{"sub/part.txt"}, before: "sub/part.txt", trusted: "sub/part.txt"},
		"clean, part of a marked file":       {call: tool.Call{Name: "edit_file"}, files: []string{"sub/part.txt"}, before: "sub/part.txt", after: "sub/part.txt"},
		"clean, part of an own file":         {call: tool.Call{Name: "edit_file"}, files: []string{"mine.txt"}, trusted: "mine.txt"},
		"clean, several of which one is":     {call: tool.Call{Name: "apply_patch"}, files: []string{"mine.txt", "sub/part.txt"}, before: "mine.txt", after: "mine.txt"},
		"tainted, new":                       {call: tool.Call{Name: "write_file", Tainted: true}, files: []string{"new.txt"}, before: "new.txt", after: "new.txt"},
		"tainted, an own file":               {call: tool.Call{Name: "edit_file", Tainted: true}, files: []string{"mine.txt"}, before: "mine.txt", after: "mine.txt"},
		"tainted, approvals off":             {call: tool.Call{Name: "write_file", Tainted: true}, files: []string{"mine.txt"}, off: true, before: "mine.txt", after: "mine.txt"},
		"tainted, what is followed: a yes":   {call: tool.Call{Name: "write_file", Tainted: true}, files: []string{"AGENTS.md"}, before: "AGENTS.md", trusted: "AGENTS.md"},
		"tainted, part of a marked skill":    {call: tool.Call{Name: "edit_file", Tainted: true}, files: []string{"skills/x/SKILL.md"}, before: "skills/x/SKILL.md", after: "skills/x/SKILL.md"},
		"a guest's":                          {call: tool.Call{Name: "write_file", Tainted: true, Scope: "test:group/7"}, files: []string{"mine.txt"}, trusted: "mine.txt"},
		"tainted, a file that was not made":  {call: tool.Call{Name: "write_file", Tainted: true}, files: []string{"gone.txt"}, absent: "gone.txt", before: "gone.txt"},
		"tainted, a file beside a workspace": {call: tool.Call{Name: "write_file", Tainted: true}, files: []string{"../x.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rec, ws := keeper(t)
			put(t, ws, "skills/x/SKILL.md")
			markPart(t, s, rec, ws)
			if err := rec.Mark(filepath.Join(ws, "skills", "x", "SKILL.md")); err != nil {
				t.Fatal(err)
			}
			if row.off {
				s.posture.Approval = approve.Off
			}
			row.call.ID, row.call.SessionKey, row.call.TurnID = "1", "s", "t"
			if err := s.writes(row.call, row.files); err != nil {
				t.Fatal(err)
			}
			if row.before != "" && !rec.Foreign(filepath.Join(ws, row.before)) {
				t.Errorf("%s is not marked before it is written", row.before)
			}
			for _, name := range row.files {
				if name != row.absent && !strings.HasPrefix(name, "..") {
					writeFiles(t, ws, map[string]string{name: written})
				}
			}
			if err := s.wrote(row.call); err != nil {
				t.Fatal(err)
			}
			if row.after != "" && !rec.Foreign(filepath.Join(ws, row.after)) {
				t.Errorf("%s is not marked", row.after)
			}
			if known := rec.ForeignSum(sha256.Sum256([]byte(written))); known != (row.after != "") {
				t.Errorf("what was written is known as from outside: %v", known)
			}
			if row.trusted != "" && rec.Foreign(filepath.Join(ws, row.trusted)) {
				t.Errorf("%s is marked", row.trusted)
			}
			if _, left := s.writing.Load(callKey(row.call)); left {
				t.Error("the call is still remembered")
			}
		})
	}
}

// The end of a command decides about what it wrote: by what it was when it
// began, by what was typed into it, and by whether it used the network.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		call    tool.Call
		during  func(w *watch)
		outside bool
	}{
		"clean":                   {},
		"tainted":                 {call: tool.Call{Tainted: true}, outside: true},
		"typed into it":           {during: func(w *watch) { w.confined().Taint() }, outside: true},
		"could use the network":   {during: func(w *watch) { f := func() bool { return false }; w.used.Store(&f) }},
		"used the network":        {during: func(w *watch) { f := func() bool { return true }; w.used.Store(&f) }, outside: true},
		"typed into it, and ends": {during: func(w *watch) { c := w.confined(); c.Taint(); c.Release() }, outside: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rec, ws := keeper(t)
			if err := os.Remove(filepath.Join(ws, "AGENTS.md")); err != nil {
				t.Fatal(err)
			}
			w, err := s.watch(row.call, true)
			if err != nil {
				t.Fatal(err)
			}
			counted := false
			w.counting(func() { counted = true })
			writeFiles(t, ws, map[string]string{"made.txt": "made\n", "AGENTS.md": "obey\n"})
			if row.during != nil {
				row.during(w)
			}
			if got := w.outside(); got != row.outside {
				t.Errorf("outside while it runs: %v", got)
			}
			if strings.HasPrefix(name, "typed") && !counted {
				t.Error("what it sends is not counted from now on")
			}
			w.end()
			if got := rec.Foreign(filepath.Join(ws, "made.txt")); got != row.outside {
				t.Errorf("what it wrote is from outside: %v", got)
			}
			if _, err := os.Lstat(filepath.Join(ws, "AGENTS.md")); err == nil {
				t.Error("a command made a file that the agent follows, and it stays")
			}
			aside := filepath.Join(ws, "AGENTS.md.from-command")
			if _, err := os.Lstat(aside); err != nil || !rec.Foreign(aside) {
				t.Errorf("it is not kept beside as from outside: %v", err)
			}
			if example := rec.Example(ws); (example == "what another command is writing") || example == "" {
				t.Errorf("the record shows %q", example)
			}
		})
	}
}

// What nothing seals from a command counts as from outside while it runs, and is
// marked when it has brought something in.
func TestWatchUnsealed(t *testing.T) {
	t.Parallel()
	for _, seals := range []bool{true, false} {
		s, rec, ws := keeper(t)
		w, err := s.watch(tool.Call{Tainted: true}, seals)
		if err != nil {
			t.Fatal(err)
		}
		put(t, ws, "skills/new/SKILL.md")
		if got := rec.Foreign(filepath.Join(ws, "skills", "new", "SKILL.md")); got == seals {
			t.Errorf("sealed %v: a skill that appears is from outside: %v", seals, got)
		}
		w.end()
		if got := rec.Foreign(filepath.Join(ws, "skills", "new", "SKILL.md")); got == seals {
			t.Errorf("sealed %v: afterwards it is from outside: %v", seals, got)
		}
	}
	// Without a sandbox nothing is sealed.
	s, rec, ws := keeper(t)
	s.posture.Sandbox = sandbox.None
	f := &confiner{
		policy:  Policy{Posture: s.posture},
		tracker: s,
		covers:  func(context.Context) (*sandbox.Box, error) { return nil, errors.New("none here") },
	}
	cmd := exec.CommandContext(t.Context(), "true")
	held, err := f.confine(tool.Call{}, cmd)
	if err != nil {
		t.Fatal(err)
	}
	put(t, ws, "skills/new/SKILL.md")
	if !rec.Foreign(filepath.Join(ws, "skills", "new", "SKILL.md")) || !held.Outside() {
		t.Error("a skill that a command made without a sandbox is the owner's")
	}
	held.Release()
	if !rec.Foreign(filepath.Join(ws, "skills", "new", "SKILL.md")) {
		t.Error("afterwards it is the owner's")
	}
	// A command that did not start writes nothing.
	f.covers = func(context.Context) (*sandbox.Box, error) { return nil, nil }
	f.home = placeOf(ws)
	f.home.path = filepath.Join(ws, "elsewhere")
	if _, err := f.confine(tool.Call{}, cmd); err == nil {
		t.Error("a command starts although the data folder was moved")
	}
	if example := rec.Example(ws); example == "what another command is writing" {
		t.Error("a command that did not start counts as running")
	}
}

// Without a readable record every file is from outside.
func TestNoRecord(t *testing.T) {
	t.Parallel()
	s, _, ws := keeper(t)
	if s.origins.foreign(filepath.Join(ws, "mine.txt")) {
		t.Error("a file of the owner is from outside")
	}
	s.origins.main, s.origins.name = nil, ""
	if _, err := s.origins.of(""); err == nil {
		t.Fatal("a record without a name was opened")
	}
	if !s.origins.foreign(filepath.Join(ws, "mine.txt")) {
		t.Error("a file counts as the owner's although nothing is known")
	}
	if s.contained(tool.Call{}) == "" {
		t.Error("a command is clean although nothing is known")
	}
	if _, err := s.watch(tool.Call{}, true); err == nil {
		t.Error("a command starts without a record")
	}
}

// What a command sends counts from the moment content from outside is typed
// into it, and from its start if it can read a marked file.
func TestContainedCommandsAreCounted(t *testing.T) {
	t.Parallel()
	n := newNetLab(t, `"network":"host"`)
	ws := n.g.jail.Workspace()
	rec, err := n.g.tracker.origins.of("")
	if err != nil {
		t.Fatal(err)
	}
	put(t, ws, "got.txt")
	if err := rec.Mark(filepath.Join(ws, "got.txt")); err != nil {
		t.Fatal(err)
	}
	const many = `for i in $(seq 80); do curl -s -m 20 http://x.example.com/$i; echo; done | sort | uniq -c`
	c := tool.Call{ID: "1", Name: "exec", SessionKey: "s", TurnID: "t1", Ask: n.ask}
	n.answers = []string{"no"}
	n.expect(n.run(c, many), 1, "!80 page", "sent as much as it may")
}

// What a clean command in the background sends counts as soon as a tainted turn
// has typed into it.
func TestTypedIntoCommandsAreCounted(t *testing.T) {
	t.Parallel()
	for _, tainted := range []bool{false, true} {
		n := newNetLab(t, `"network":"host"`)
		tools := byName(n.g.commands.Tools())
		call := func(name string, tainted bool, args map[string]any) string {
			t.Helper()
			c := tool.Call{ID: name, Name: name, SessionKey: "s", TurnID: "t1", Ask: n.ask, Tainted: tainted}
			var err error
			if c.Input, err = json.Marshal(args); err != nil {
				t.Fatal(err)
			}
			r, err := tools[name].Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return r.Content.String()
		}
		const many = `read -r x; for i in $(seq 80); do curl -s -m 20 http://x.example.com/$i; echo; done | sort | uniq -c; echo all is sent`
		begun := call("exec", false, map[string]any{"command": many, "yield_time_ms": 0})
		_, id, found := strings.Cut(begun, "session_id ")
		id, _, _ = strings.Cut(id, ",")
		if !found {
			t.Fatalf("no session: %s", begun)
		}
		got := call("write_stdin", tainted, map[string]any{"session_id": id, "chars": "go\n", "wait_for": "all is sent", "wait_timeout_ms": 120000})
		if tainted {
			n.expect(got, 0, "all is sent", "!80 page", "sent as much as it may") // its call is over, so it cannot ask
		} else {
			n.expect(got, 0, "all is sent", "80 page")
		}
	}
}

// The same with the real sandbox: what it can write, and what its output counts as.
func TestContainedCommands(t *testing.T) {
	t.Parallel()
	n := newNetLab(t, `"network":"proxy","allowedHosts":["mine.example.org"]`)
	ws := n.g.jail.Workspace()
	rec, err := n.g.tracker.origins.of("")
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, ws, map[string]string{"repo/.git/config": "[core]\n", "repo/.git/hooks/post-commit": "#!/bin/sh\n", "AGENTS.md": "mine\n"})
	writeFiles(t, n.g.places.media, map[string]string{"sent.txt": "words of a stranger\n"})
	number := 0
	run := func(c tool.Call, command string) tool.Result {
		t.Helper()
		number++
		c.ID, c.Name, c.SessionKey, c.TurnID = string(rune('a'+number)), "exec", "s", string(rune('a'+number))
		c.Input, _ = json.Marshal(map[string]string{"command": command})
		r, err := n.exec.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	check := func(what string, r tool.Result, untrusted bool, words ...string) {
		t.Helper()
		if r.Untrusted != untrusted {
			t.Errorf("%s: the output is untrusted: %v\n%s", what, r.Untrusted, r.Content)
		}
		for _, w := range words {
			if no, isNo := strings.CutPrefix(w, "!"); strings.Contains(r.Content.String(), no) == isNo {
				t.Errorf("%s: want %q in %s", what, w, r.Content)
			}
		}
	}
	const tries = `(echo x >> AGENTS.md) 2>/dev/null && echo followed; (echo x > skills/a.md) 2>/dev/null && echo skill
(echo '#' >> repo/.git/hooks/post-commit) 2>/dev/null && echo hook; (echo '#' >> repo/.git/config) 2>/dev/null && echo settings
mv repo/.git repo/moved 2>/dev/null && echo replaced && mv repo/moved repo/.git; echo cache $GOCACHE; `
	sent := "cat " + filepath.Join(n.g.places.media, "sent.txt") + " 2>/dev/null; "

	check("clean", run(tool.Call{}, tries+sent+"echo a > clean.txt"), false, "!followed", "!skill", "hook", "settings", "replaced", "!stranger", "!-outside")
	if rec.Foreign(filepath.Join(ws, "clean.txt")) {
		t.Error("what a clean command wrote is marked")
	}
	check("network", run(tool.Call{}, "curl -sS -m 20 http://mine.example.org/ > page.txt; echo done"), true, "done")
	page := filepath.Join(ws, "page.txt")
	if !rec.Foreign(page) {
		t.Error("what a command wrote that used the network is not marked")
	}
	check("with a marked file", run(tool.Call{}, tries+sent+"echo b > after.txt"), true, "!followed", "!skill", "!hook", "!settings", "!replaced", "stranger", "-outside")
	if !rec.Foreign(filepath.Join(ws, "after.txt")) {
		t.Error("what a command wrote that could read a marked file is not marked")
	}

	if err := rec.Trust(ws, n.g.tracker.origins.cache); err != nil {
		t.Fatal(err)
	}
	if why := n.g.tracker.contained(tool.Call{}); why != "" {
		list, _ := rec.List()
		t.Errorf("after the owner's decision: %s; marked %q", why, list)
	}
	check("trusted again", run(tool.Call{}, "echo c > again.txt"), false)
	check("tainted", run(tool.Call{Tainted: true}, tries+sent+"echo d > tainted.txt"), true, "!followed", "!skill", "!hook", "!settings", "!replaced", "stranger", "-outside")
	if !rec.Foreign(filepath.Join(ws, "tainted.txt")) {
		t.Error("what a tainted turn's command wrote is not marked")
	}
}

// Settings of a repository are plain only if every line of them is known to
// start no program.
func TestPlainGitConfig(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		"[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n# note\n; note\n\n": true,
		"[core]\n\tfsmonitor = ./x\n":              false,
		"[core] fsmonitor = ./x\n":                 false, // behind the head of the section
		"[remote \"o\"]\n\turl = a\\\n\turl = b\n": false, // goes on in the next line
		"[alias]\n\tx = !sh\n":                     false,
		"[remote \"o\"]\n\tuploadpack = ./x\n":     false,
		"[include]\n\tpath = x\n":                  false,
		"[core]\n" + strings.Repeat("#\n", 40<<10): false, // too long to be read
	} {
		dir := t.TempDir()
		writeFiles(t, dir, map[string]string{"config": body})
		if got := plainGitConfig(filepath.Join(dir, "config")); got != want {
			t.Errorf("%.60q is plain: %v", body, got)
		}
	}
	if plainGitConfig(filepath.Join(t.TempDir(), "none")) {
		t.Error("a missing file is plain")
	}
	base := t.TempDir()
	writeFiles(t, base, map[string]string{"real/config": "[core]\n\tbare = false\n"})
	if err := os.Symlink("real", filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	if !plainGitConfig(filepath.Join(base, "real", "config")) || plainGitConfig(filepath.Join(base, "link", "config")) {
		t.Error("settings behind a link are plain, or those without one are not")
	}
}

// Everything in the folders of received and shared files came from outside,
// whatever the record says.
func TestOutsideAlways(t *testing.T) {
	t.Parallel()
	s, rec, ws := keeper(t)
	put(t, ws, "share/x.sh")
	s.media = t.TempDir()
	put(t, s.media, "sent.sh")
	for path, want := range map[string]int{
		filepath.Join(ws, "share", "x.sh"): 1, filepath.Join(s.media, "sent.sh"): 1, filepath.Join(ws, "mine.txt"): 0,
	} {
		if got := s.outside(tool.Call{}, "sh "+path, ws); len(got) != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if got := s.outside(tool.Call{}, "sh ../*", ws); len(got) != 0 {
		t.Errorf("nothing is marked: %v", got)
	}
	markPart(t, s, rec, ws)
	if got := s.outside(tool.Call{}, "", ws); len(got) != 1 {
		t.Errorf("a call without a command: %v", got)
	}
}
