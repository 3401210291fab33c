package guard

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// A clean command that goes on running is as clean as what others write meanwhile
// where it can read it: its output, what it writes and what it sends.
func TestWatchOfWhatOthersWrite(t *testing.T) {
	t.Parallel()
	tainted := tool.Call{Name: "write_file", ID: "9", SessionKey: "other", TurnID: "u", Tainted: true}
	for name, row := range map[string]struct {
		call      tool.Call // of the command
		meanwhile func(t *testing.T, s *tracker, ws string)
		want      bool
	}{
		"nothing": {},
		"a clean turn writes a file": {meanwhile: func(t *testing.T, s *tracker, ws string) {
			c := tainted
			c.Tainted = false
			writeAs(t, s, c, ws, "page.md")
		}},
		"a tainted turn writes a file": {meanwhile: func(t *testing.T, s *tracker, ws string) {
			writeAs(t, s, tainted, ws, "page.md")
		}, want: true},
		"a tainted turn is about to write a file": {meanwhile: func(t *testing.T, s *tracker, _ string) {
			if err := s.writes(tainted, []string{"page.md"}); err != nil {
				t.Fatal(err)
			}
		}, want: true},
		"a tainted turn writes a file and removes it": {meanwhile: func(t *testing.T, s *tracker, ws string) {
			writeAs(t, s, tainted, ws, "page.md")
			_ = os.Remove(filepath.Join(ws, "page.md"))
			s.contained(tool.Call{}) // the record notices that it is gone
		}, want: true},
		"a tainted command runs": {meanwhile: func(t *testing.T, s *tracker, _ string) {
			other, err := s.watch(tool.Call{Tainted: true}, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(other.end)
		}, want: true},
		"a clean command fetches something": {meanwhile: func(t *testing.T, s *tracker, _ string) {
			other, err := s.watch(tool.Call{}, true)
			if err != nil {
				t.Fatal(err)
			}
			other.record()
			t.Cleanup(other.end)
		}, want: true},
		"a clean command is typed into by a tainted turn": {meanwhile: func(t *testing.T, s *tracker, _ string) {
			other, err := s.watch(tool.Call{}, true)
			if err != nil {
				t.Fatal(err)
			}
			other.confined().Taint()
			t.Cleanup(other.end)
		}, want: true},
		"a guest shares a file": {meanwhile: func(t *testing.T, _ *tracker, ws string) { put(t, ws, "share/a.txt") }, want: true},
		"a guest shares a file and takes it back": {meanwhile: func(t *testing.T, _ *tracker, ws string) {
			put(t, ws, "share/a.txt")
			_ = os.Remove(filepath.Join(ws, "share", "a.txt"))
		}, want: true},
		"kept inside a folder; a file beside it": {
			call: tool.Call{Project: tool.Project{Dir: "sub", Only: true}},
			meanwhile: func(t *testing.T, s *tracker, ws string) {
				writeAs(t, s, tainted, ws, "page.md")
			},
		},
		"kept inside a folder; a file in it": {
			call: tool.Call{Project: tool.Project{Dir: "sub", Only: true}},
			meanwhile: func(t *testing.T, s *tracker, ws string) {
				writeAs(t, s, tainted, ws, "sub/page.md")
			}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, rec, ws := keeper(t)
			mkdir(t, ws, "share")
			if row.call.Project.Dir != "" {
				row.call.Project.Dir = filepath.Join(ws, row.call.Project.Dir)
			}
			w, err := s.watch(row.call, true)
			if err != nil {
				t.Fatal(err)
			}
			counted := false
			w.counting(func() { counted = true })
			if w.outside() {
				t.Fatalf("it is not clean: %q", w.why)
			}
			writeFiles(t, ws, map[string]string{"sub/made.txt": "made before\n"})
			if row.meanwhile != nil {
				row.meanwhile(t, s, ws)
			}
			if got := w.outside(); got != row.want || got != counted {
				t.Errorf("its output is from outside: %v, counted: %v, want %v", got, counted, row.want)
			}
			w.end()
			if got := w.outside(); got != row.want { // it may be frozen and go on reading
				t.Errorf("when it writes no longer, its output is from outside: %v", got)
			}
			w.close()
			if got := rec.Foreign(filepath.Join(ws, "sub", "made.txt")); got != row.want {
				t.Errorf("what it wrote is from outside: %v, want %v", got, row.want)
			}
		})
	}
}

func writeAs(t *testing.T, s *tracker, c tool.Call, ws, name string) {
	t.Helper()
	if err := s.writes(c, []string{name}); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, ws, map[string]string{name: "words of a stranger, or of the owner\n"})
	if err := s.wrote(c); err != nil {
		t.Fatal(err)
	}
}

// The same with the real tools: a command that follows a file, in the background
// and in a terminal, prints what a tainted turn writes, in another conversation
// and in another process.
func TestFollowersAreNotClean(t *testing.T) {
	t.Parallel()
	for _, pty := range []bool{false, true} {
		n := newNetLab(t, `"network":"none"`)
		ws := n.g.jail.Workspace()
		writeFiles(t, ws, map[string]string{"log.txt": "mine\n"})
		tools := byName(n.g.commands.Tools())
		call := func(name string, args map[string]any) tool.Result {
			t.Helper()
			c := tool.Call{ID: name, Name: name, SessionKey: "s", TurnID: "t1", Ask: n.ask}
			var err error
			if c.Input, err = json.Marshal(args); err != nil {
				t.Fatal(err)
			}
			r, err := tools[name].Run(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		begun := call("exec", map[string]any{"command": "tail -n +1 -F log.txt", "yield_time_ms": 0, "pty": pty})
		_, id, found := strings.Cut(begun.Content.String(), "session_id ")
		id, _, _ = strings.Cut(id, ",")
		if !found {
			t.Fatalf("no session: %s", begun.Content)
		}
		r := call("write_stdin", map[string]any{"session_id": id, "wait_for": "mine", "wait_timeout_ms": 60000})
		if r.Untrusted {
			t.Errorf("pty %v: the owner's own line is from outside: %s", pty, r.Content)
		}

		other := tool.Call{Name: "write_file", ID: "9", SessionKey: "other", TurnID: "u", Tainted: true}
		writeAs(t, n.g.tracker, other, ws, "log.txt")
		r = call("write_stdin", map[string]any{"session_id": id, "wait_for": "stranger", "wait_timeout_ms": 60000})
		if !r.Untrusted || !strings.Contains(r.Content.String(), "stranger") {
			t.Errorf("pty %v: untrusted %v: %s", pty, r.Untrusted, r.Content)
		}
		if r = call("write_stdin", map[string]any{"session_id": id, "terminate": true}); !r.Untrusted {
			t.Errorf("pty %v: its end is trusted: %s", pty, r.Content)
		}
	}
}
