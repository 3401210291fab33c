package guard_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// undoPlace is a place where turns work.
type undoPlace struct {
	*shared
	conf   string
	dir    string // relative names of its calls begin here
	folder string // bus.Inbound.Folder
	scope  string
	guest  bool
}

// events lets the model make calls in the place and returns what the chat got.
func (p *undoPlace) events(calls ...map[string]any) (out []bus.Outbound) {
	p.t.Helper()
	p.mu.Lock()
	p.calls = calls
	p.got.Reset()
	p.mu.Unlock()
	return p.message("go")
}

func (p *undoPlace) message(words string) (all []bus.Outbound) {
	p.t.Helper()
	in := bus.Inbound{Route: bus.Route{Channel: "test", ChatID: "owner"}, SenderID: "7", Text: words, Scope: p.scope, Folder: p.folder}
	if p.scope != "" {
		in.Route.ChatID = "group"
	}
	for out, err := range p.app.Agent.Ask(p.t.Context(), in) {
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, out)
	}
	return all
}

// answer is the reply to a slash command.
func (p *undoPlace) answer(words string) string {
	p.t.Helper()
	for _, out := range p.message(words) {
		if out.Kind == bus.Final {
			return out.Text
		}
	}
	return ""
}

// files are the names and contents of a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && path != dir && slices.Contains([]string{"prompts", "skills"}, d.Name()) {
				return filepath.SkipDir
			}
			return err
		}
		data, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const notebook = `{"cells":[{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":["old"],"id":"a"}],"metadata":{},"nbformat":4,"nbformat_minor":5}`

// What a turn changed can be shown and undone wherever it worked: in the
// workspace, in the folder that the program was started in, in the folder of a
// chat, with a guest. A folder gets no file that the turn did not ask for.
func TestUndoInEveryPlace(t *testing.T) {
	t.Parallel()
	const restricted = `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"auto","network":"none"}}}`
	const bare = `{"tools":{"restrictToWorkspace":true,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`
	const open = `{"tools":{"restrictToWorkspace":false,"approval":{"mode":"off"},"exec":{"sandbox":"none"}}}`
	house := func(t *testing.T, conf string) *undoPlace {
		s := newShared(t, conf)
		return &undoPlace{shared: s, conf: conf, dir: s.ws}
	}
	start := func(t *testing.T, conf string) *undoPlace {
		s := newStarted(t, conf)
		return &undoPlace{shared: s.shared, conf: conf, dir: s.dir, folder: s.dir}
	}
	chat := func(t *testing.T, conf, dir, mode string) *undoPlace {
		s := newShared(t, conf)
		ws, err := filepath.EvalSymlinks(s.ws)
		if err != nil {
			t.Fatal(err)
		}
		if dir == "" {
			dir = filepath.Join(ws, "proj")
			s.put("proj/own.txt", "own\n")
		}
		err = s.app.Sessions.Annotate(t.Context(), "test:owner", func(sess *session.Session) error {
			return sess.SetMeta(turn.WorkspaceScopeKey, guard.Scope{Path: dir, Mode: mode})
		})
		if err != nil {
			t.Fatal(err)
		}
		return &undoPlace{shared: s, conf: conf, dir: dir}
	}
	outside := func(t *testing.T) string {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, place := range map[string]func(t *testing.T) *undoPlace{
		"workspace":                            func(t *testing.T) *undoPlace { return house(t, restricted) },
		"workspace, no sandbox":                func(t *testing.T) *undoPlace { return house(t, bare) },
		"start folder":                         func(t *testing.T) *undoPlace { return start(t, restricted) },
		"start folder, no sandbox":             func(t *testing.T) *undoPlace { return start(t, bare) },
		"start folder, nothing restricted":     func(t *testing.T) *undoPlace { return start(t, open) },
		"folder of a chat, kept inside":        func(t *testing.T) *undoPlace { return chat(t, restricted, "", guard.AccessRestricted) },
		"folder of a chat":                     func(t *testing.T) *undoPlace { return chat(t, restricted, "", guard.AccessFull) },
		"folder of a chat elsewhere":           func(t *testing.T) *undoPlace { return chat(t, open, outside(t), guard.AccessFull) },
		"folder of a chat elsewhere, enclosed": func(t *testing.T) *undoPlace { return chat(t, open, outside(t), guard.AccessRestricted) },
		"guest": func(t *testing.T) *undoPlace {
			p := house(t, restricted)
			p.run(guest, call("list_dir", "path", "."))
			p.dir, p.scope, p.guest = p.guestSpace(), guest, true
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			level := sandbox.Probe(t.Context(), sandbox.Options{Mode: sandbox.Auto})
			p := place(t)
			for name, body := range map[string]string{"edit.txt": "old words\n", "patch.txt": "old\n", "n.ipynb": notebook, "cmd.txt": "old\n", "rm.txt": "gone\n"} {
				if err := os.WriteFile(filepath.Join(p.dir, name), []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := files(t, p.dir)

			calls := map[string]map[string]any{
				"made/new.txt": call("write_file", "path", "made/new.txt", "content", "new\n"),
				"edit.txt":     call("edit_file", "path", "edit.txt", "old_text", "old words", "new_text", "new words"),
				"patch.txt":    call("apply_patch", "edits", []any{map[string]any{"path": "patch.txt", "action": "replace", "old_text": "old", "new_text": "new"}}),
				"n.ipynb":      call("notebook_edit", "path", "n.ipynb", "cell_index", 0, "new_source", "new"),
			}
			if (level.MountNS || !strings.Contains(p.conf, "auto")) && runtime.GOOS != "windows" {
				calls["cmd.txt"] = call("exec", "command", "echo new > cmd.txt; rm rm.txt")
			}
			for file, c := range calls {
				p.undoOne(t, file, c, before)
			}
		})
	}
}

// undoOne makes a call, looks at what it changed in every way there is, and
// undoes it, and that.
func (p *undoPlace) undoOne(t *testing.T, file string, c map[string]any, before map[string]string) {
	t.Helper()
	var edited []string
	for _, out := range p.events(c) {
		for _, e := range out.Edits {
			edited = append(edited, e.Path)
		}
	}
	after := files(t, p.dir)
	if fmt.Sprint(after) == fmt.Sprint(before) {
		t.Fatalf("%s: nothing was changed, so this tests nothing: %s", file, p.got.String())
	}
	if !slices.ContainsFunc(edited, func(path string) bool { return strings.HasSuffix(path, file) }) {
		t.Errorf("%s: file_edit tells of %q", file, edited)
	}
	if got := p.answer("/diff"); !strings.Contains(got, file) || !strings.Contains(got, "new") {
		t.Errorf("%s: /diff says %s", file, got)
	}

	turn := p.last(t)
	for _, change := range turn.Changes {
		name := filepath.Base(change.Path)
		if !strings.HasSuffix(change.Path, file) && name != "made" && name != "rm.txt" {
			t.Errorf("%s: the turn lists %+v, which it did not change", file, change)
		}
	}

	if got := p.answer("/undo"); !strings.Contains(got, "Took back turn") {
		t.Errorf("%s: /undo says %s", file, got)
	}
	if got := files(t, p.dir); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Fatalf("%s: after /undo the folder holds %q, want %q", file, got, before)
	}
	undone := p.last(t)
	if undone.Undoes != turn.ID && !p.guest {
		t.Errorf("%s: the last turn is %+v, want the undo of %s", file, undone, turn.ID)
	}

	// A person at the command line, and the page, reach the same turns.
	if p.guest {
		p.answer("/undo " + undo.Short(undone.ID))
	} else {
		r, done, err := app.OpenUndo(t.Context(), p.app.Config, p.ws, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Undo(t.Context(), undone.ID, undo.Choice{}); err != nil {
			t.Errorf("%s: nanobot undo: %v", file, err)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	if got := files(t, p.dir); fmt.Sprint(got) != fmt.Sprint(after) {
		t.Errorf("%s: undoing the undo leaves %q, want %q", file, got, after)
	}
	p.answer("/undo " + undo.Short(p.last(t).ID))
	if got := files(t, p.dir); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("%s: in the end the folder holds %q, want %q", file, got, before)
	}
}

// last is the newest turn or undo of the place.
func (p *undoPlace) last(t *testing.T) undo.Turn {
	t.Helper()
	if p.guest { // no page shows theirs
		return undo.Turn{ID: strings.Split(p.answer("/undo --list"), "`")[1]}
	}
	turns, err := app.Changes(p.app).Turns(t.Context(), "test:owner")
	if err != nil || len(turns) == 0 {
		t.Fatalf("the turns are %v, %v", turns, err)
	}
	return turns[0]
}
