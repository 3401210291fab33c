package change_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// marked is a workspace whose files have an origin. It does what package guard
// does around calls.
type marked struct {
	*change.Record
	t   *testing.T
	top string
	ws  string
	rec *origin.Store
	n   int
}

// marked opens the workspace below top as a process of its own.
func openMarked(t *testing.T, top string) *marked {
	t.Helper()
	m := &marked{t: t, top: top, ws: filepath.Join(top, "ws")}
	must(t, os.MkdirAll(m.ws, 0o700))
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: m.ws, Restrict: true})
	must(t, err)
	m.rec, err = origin.Open(origin.Options{Store: disk.Open(filepath.Join(top, "data", "origin"), nil), Name: "ws", Root: m.ws})
	must(t, err)
	m.Record, err = change.Open(change.Options{
		Dir: filepath.Join(top, "data", "undo"), Jail: jail,
		Origin: func(string) (*origin.Store, error) { return m.rec, nil },
	})
	must(t, err)
	t.Cleanup(func() {
		must(t, m.Close())
		must(t, jail.Close())
	})
	return m
}

func newMarked(t *testing.T) *marked {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return openMarked(t, top)
}

func (m *marked) path(name string) string { return filepath.Join(m.ws, filepath.FromSlash(name)) }

func (m *marked) call(turn string, input any) tool.Call {
	m.n++
	raw, err := json.Marshal(input)
	must(m.t, err)
	return tool.Call{ID: fmt.Sprint("c", m.n), TurnID: turn, SessionKey: "s", Input: raw}
}

// write lets a turn write a file; "" deletes it.
func (m *marked) write(turn, name, content string, tainted bool) {
	m.t.Helper()
	c := m.call(turn, map[string]string{"path": name})
	must(m.t, m.Before(m.t.Context(), tool.Tool{Name: "write_file", Sink: tool.SinkWrite, Paths: tool.PathArg("path")}, c))
	m.put(name, content)
	switch {
	case tainted:
		must(m.t, m.rec.Mark(m.path(name)))
	case content != "":
		must(m.t, m.rec.Wrote(m.path(name)))
	}
	_, err := m.After(m.t.Context(), c)
	must(m.t, err)
}

func (m *marked) put(name, content string) {
	m.t.Helper()
	if content == "" {
		must(m.t, os.RemoveAll(m.path(name)))
		return
	}
	must(m.t, os.MkdirAll(filepath.Dir(m.path(name)), 0o700))
	must(m.t, os.WriteFile(m.path(name), []byte(content), 0o600))
}

// command lets a turn run a command, which ends with the call.
func (m *marked) command(turn string, outside bool, do func()) {
	m.t.Helper()
	c := m.call(turn, nil)
	must(m.t, m.Before(m.t.Context(), tool.Tool{Name: "exec", Sink: tool.SinkCommand}, c))
	w, err := m.rec.Begin(origin.Running{Outside: func() bool { return outside }})
	must(m.t, err)
	do()
	if outside {
		must(m.t, w.Foreign(m.t.Context()))
	} else {
		must(m.t, w.Clean())
	}
	_, err = m.After(m.t.Context(), c)
	must(m.t, err)
}

func (m *marked) undo(turn string) undo.Report {
	m.t.Helper()
	r, err := m.Undo(m.t.Context(), turn, undo.Choice{Force: true})
	must(m.t, err)
	return r
}

// foreign is what a reader asks: by the name and by the content.
func (m *marked) foreign(name string) bool {
	m.t.Helper()
	data, err := os.ReadFile(m.path(name))
	must(m.t, err)
	return m.rec.Foreign(m.path(name)) || m.rec.ForeignSum(sha256.Sum256(data))
}

func (m *marked) want(name, content string, foreign bool) {
	m.t.Helper()
	if data, err := os.ReadFile(m.path(name)); string(data) != content {
		m.t.Errorf("%s holds %q, %v; want %q", name, data, err, content)
	}
	if got := m.foreign(name); got != foreign {
		m.t.Errorf("%s counts as from outside: %v, want %v", name, got, foreign)
	}
}

const (
	theirs = "words of a stranger, long enough to be told by their content\n"
	ours   = "words of the owner, long enough to be told by their content\n"
)

// later waits until files that are written now are surely later than all before.
func later(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(60 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// A content takes its origin with it, whatever happened to the file since.
func TestUndoKeepsOrigin(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no time that programs cannot set")
	}
	for name, story := range map[string]func(m *marked){
		"a stranger's file that was deleted and forgotten": func(m *marked) {
			m.write("t1", "a.md", theirs, true)
			m.write("t2", "a.md", "", false)
			if e := m.rec.Example(m.ws); e != "" {
				m.t.Errorf("%s is there", e)
			}
			r := m.undo("t2")
			m.want("a.md", theirs, true)
			again := m.undo(r.Undo)
			_ = m.rec.Example(m.ws)
			m.undo(again.Undo)
			m.want("a.md", theirs, true)
		},
		"a stranger's short file": func(m *marked) {
			m.write("t1", "a.sh", "rm x\n", true)
			m.write("t2", "a.sh", ours, false)
			m.want("a.sh", ours, false)
			m.undo("t2")
			m.want("a.sh", "rm x\n", true)
		},
		"the owner's file that a stranger's turn replaced": func(m *marked) {
			m.put("a.md", ours)
			later(m.t)
			m.write("t1", "a.md", theirs, true)
			r := m.undo("t1")
			m.want("a.md", ours, false)
			m.undo(r.Undo)
			m.want("a.md", theirs, true)
		},
		"by a command": func(m *marked) {
			m.put("own.md", ours)
			later(m.t)
			m.command("t1", true, func() { m.put("a.md", theirs) })
			later(m.t)
			m.command("t2", false, func() { m.put("a.md", ""); m.put("own.md", "") })
			_ = m.rec.Example(m.ws)
			m.undo("t2")
			m.want("a.md", theirs, true)
			m.want("own.md", ours, false)
		},
		"by another process": func(m *marked) {
			m.write("t1", "a.md", theirs, true)
			m.write("t2", "a.md", ours, false)
			openMarked(m.t, m.top).undo("t2")
			m.want("a.md", theirs, true)
		},
		"trusted since": func(m *marked) {
			m.write("t1", "a.md", theirs, true)
			must(m.t, m.rec.Trust(m.path("a.md")))
			m.write("t2", "a.md", ours, true)
			m.undo("t2")
			m.want("a.md", theirs, false)
		},
		"a command that turns out to be a stranger's when its file is gone": func(m *marked) {
			var outside atomic.Bool
			w, err := m.rec.Begin(origin.Running{Outside: outside.Load})
			must(m.t, err)
			m.put("a.md", theirs)
			m.want("a.md", theirs, false) // nobody can know
			m.write("t1", "a.md", "", false)
			outside.Store(true)
			must(m.t, w.Foreign(m.t.Context()))
			m.undo("t1")
			m.want("a.md", theirs, true)
		},
		"and while it runs": func(m *marked) {
			var outside atomic.Bool
			w, err := m.rec.Begin(origin.Running{Outside: outside.Load})
			must(m.t, err)
			m.put("a.md", theirs)
			m.write("t1", "a.md", ours, false)
			m.undo("t1")
			outside.Store(true)
			m.want("a.md", theirs, true)
			must(m.t, w.Foreign(m.t.Context()))
			m.want("a.md", theirs, true)
		},
		"a link": func(m *marked) {
			m.put("a.md", ours)
			later(m.t)
			m.command("t1", true, func() { must(m.t, os.Symlink("a.md", m.path("l.md"))) })
			later(m.t)
			m.command("t2", false, func() { must(m.t, os.Remove(m.path("l.md"))) })
			_ = m.rec.Example(m.ws)
			m.undo("t2")
			if !m.rec.Foreign(m.path("l.md")) {
				m.t.Error("the link is the owner's")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(newMarked(t))
		})
	}
}

// What an earlier version kept has no origin. It is from outside if anything is.
func TestUndoOfAnOlderLog(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ seen, want bool }{
		"a workspace that saw content from outside": {true, true},
		"a workspace that never did":                {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMarked(t)
			m.put("a.md", ours)
			m.write("t1", "a.md", "", false)
			must(t, m.Close())

			log := filepath.Join(m.top, "data", "undo", "log")
			data, err := os.ReadFile(log)
			must(t, err)
			sums := regexp.MustCompile(`,"(pos":\d+|sum":"\w+"|_crc":"\w+")`)
			plain := sums.ReplaceAllString(string(data), "")
			older := strings.ReplaceAll(plain, `"o":{"s":"silent"`, `"q":{"s":"silent"`)
			if older == plain {
				t.Fatalf("the log has no origin: %s", data)
			}
			must(t, os.WriteFile(log, []byte(older), 0o600))
			m = openMarked(t, m.top)
			if row.seen {
				m.write("t2", "b.md", theirs, true)
			}
			m.undo("t1")
			m.want("a.md", ours, row.want)
		})
	}
}

// Whatever turns, commands, the owner and undos do to a workspace, a content that
// a stranger wrote counts as from outside wherever it stands.
func TestOriginSurvivesAnything(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no time that programs cannot set")
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 5))
	m := newMarked(t)
	names := []string{"a.md", "b.md", "d/c.md", "d/e/f.md"}
	stranger, owner := 0, 0
	content := func(outside bool) string {
		if r.IntN(5) == 0 {
			return ""
		}
		if outside {
			stranger++
			return fmt.Sprintf("stranger %d %s", stranger, theirs)
		}
		owner++
		return fmt.Sprintf("owner %d %s", owner, ours)
	}
	var steps []string
	step := func(format string, args ...any) { steps = append(steps, fmt.Sprintf(format, args...)) }
	var running *origin.Window // a command that goes on, and was found to be a stranger's
	var outside *atomic.Bool
	for i := range 150 {
		turn, name := fmt.Sprintf("turn%d", i), names[r.IntN(len(names))]
		switch r.IntN(9) {
		case 0, 1:
			tainted := r.IntN(2) == 0
			text := content(tainted)
			step("turn %d, tainted %v, writes %s: %.12q", i, tainted, name, text)
			m.write(turn, name, text, tainted)
		case 2, 3:
			tainted := r.IntN(2) == 0
			step("turn %d, tainted %v, runs a command on %s", i, tainted, name)
			m.command(turn, tainted, func() {
				if r.IntN(3) == 0 {
					must(t, os.RemoveAll(m.path("d")))
				}
				m.put(name, content(tainted))
			})
		case 4, 5, 6:
			turns, err := m.Turns(t.Context(), "")
			must(t, err)
			if len(turns) > 0 {
				back := turns[r.IntN(min(len(turns), 12))]
				step("undo %s: %s", back.ID, back.Summary())
				m.undo(back.ID)
			}
		case 7:
			step("the owner deletes %s; a command looks for files from outside", name)
			m.put(name, "")
			_ = m.rec.Example(m.ws)
		case 8:
			if running == nil {
				step("a command goes on")
				now := &atomic.Bool{}
				w, err := m.rec.Begin(origin.Running{Outside: now.Load})
				must(t, err)
				running, outside = w, now
			} else {
				step("it was a stranger's, and wrote %s", name)
				outside.Store(true)
				m.put(name, content(true))
				must(t, running.Foreign(t.Context()))
				running = nil
			}
		}
		for _, name := range names {
			data, err := os.ReadFile(m.path(name))
			if err == nil && strings.HasPrefix(string(data), "stranger") && !m.foreign(name) {
				t.Fatalf("seed %d: %s holds %.12q and counts as the owner's after:\n%s", seed, name, data, strings.Join(steps, "\n"))
			}
		}
		if r.IntN(20) == 0 {
			other := openMarked(t, m.top)
			other.n = m.n
			m = other
			if running != nil { // it belongs to the process before
				outside.Store(true)
				must(t, running.Foreign(t.Context()))
				running = nil
			}
		}
	}
}
