package memory

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

const roleEnv = "NANOBOT_MEMORY_TEST_ROLE"

// otherProcess starts this test binary again in one of the roles of TestRole.
func otherProcess(t *testing.T, role string, p place) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRole$", "-test.count=1")
	cmd.Env = append(os.Environ(), roleEnv+"="+role+"|"+p.dir+"|"+p.ws)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // open until the child ends
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	return cmd, bufio.NewReader(out)
}

// TestRole is not a test but what the other process does.
func TestRole(t *testing.T) {
	args := strings.Split(os.Getenv(roleEnv), "|")
	if len(args) != 3 {
		t.Skip("only runs as another process")
	}
	p := place{args[1], args[2], storetest.Disk}
	h := p.open(t)
	say := func(a ...any) { fmt.Fprintln(os.Stdout, a...) }
	switch role, n, _ := strings.Cut(args[0], "-"); role {
	case "write":
		for i := range 40 {
			_, err := h.Append(t.Context(), Entry{Content: n + "/" + strconv.Itoa(i)})
			must(t, err)
		}
	case "append": // until killed, saying what is safe
		for i := 0; ; i++ {
			say(add(t, h, "entry "+strconv.Itoa(i)))
		}
	case "rewrite": // until killed
		for i := 0; ; i++ {
			_, err := h.forget(t.Context(), func(e Entry) (Entry, bool) {
				e.Content = e.Content[:10] + strconv.Itoa(i)
				return e, true
			})
			must(t, err)
			say(i)
		}
	case "alternate": // until killed: everything that writes the copy, and imports
		for i := 0; ; i++ {
			add(t, h, "ours "+strconv.Itoa(i)+strings.Repeat(".", 200))
			say(i)
			_, err := h.forget(t.Context(), func(e Entry) (Entry, bool) {
				return e, !strings.HasPrefix(e.Content, "ours") || e.Cursor%3 > 0
			})
			must(t, err)
			say(i)
			if i%2 == 0 {
				found, err := h.Unimported(t.Context())
				must(t, err)
				_, err = h.Import(t.Context(), found)
				must(t, err)
				say(i)
			}
		}
	case "between": // write the summary, but do not note it in the session
		s := openSession(t, p)
		c := consolidator(t, h)
		v := viewOf(s)
		w := work{passage: v.passage(v.boundaries()[1])}
		entries, err := c.summarise(t.Context(), w, Engine{Model: llmtest.NewScript(t, llmtest.Reply("- first")), Input: 10000, Scale: 1})
		must(t, err)
		for _, e := range entries {
			_, err := h.Append(t.Context(), e)
			must(t, err)
		}
		say("written")
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

func openSession(t *testing.T, p place) *session.Session {
	t.Helper()
	st, err := session.Open(session.Options{DataDir: filepath.Join(p.dir, "data"), Store: p.at(t, filepath.Join(p.dir, "data")), Workspace: p.ws})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	s, err := st.Acquire(t.Context(), "cli:direct")
	must(t, err)
	t.Cleanup(func() { must(t, s.Release()) })
	return s
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	var cmds []*exec.Cmd
	for _, role := range []string{"write-a", "write-b"} {
		cmd, out := otherProcess(t, role, p)
		cmds = append(cmds, cmd)
		go func() { _, _ = io.Copy(io.Discard, out) }()
	}
	h := p.open(t)
	for i := range 20 {
		add(t, h, "c/"+strconv.Itoa(i))
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "file already closed") {
			t.Error(err)
		}
	}
	next, last := map[string]int{}, int64(0)
	for _, e := range all(t, h) {
		who, i, _ := strings.Cut(e.Content, "/")
		if i != strconv.Itoa(next[who]) || e.Cursor != last+1 {
			t.Errorf("entry %d of %s is %s, want %d", e.Cursor, who, i, next[who])
		}
		next[who]++
		last = e.Cursor
	}
	if last != 100 {
		t.Errorf("%d entries, want 100", last)
	}
	if got := strings.Count(p.read(t, "history.jsonl"), "\n"); got != 100 {
		t.Errorf("the mirror has %d lines", got)
	}
}

// kill ends a child after it said some lines, and returns them.
func kill(t *testing.T, cmd *exec.Cmd, out *bufio.Reader, lines int) []string {
	t.Helper()
	var said []string
	for range lines {
		line, err := out.ReadString('\n')
		must(t, err)
		said = append(said, strings.TrimSpace(line))
	}
	must(t, cmd.Process.Kill())
	rest, _ := io.ReadAll(out)
	_ = cmd.Wait()
	for line := range strings.Lines(string(rest)) {
		if strings.HasSuffix(line, "\n") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	return said
}

func TestWriterKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	r := rand.New(rand.NewPCG(1, 2))
	safe := map[string]bool{}
	for range 4 {
		cmd, out := otherProcess(t, "append", p)
		for _, n := range kill(t, cmd, out, 1+r.IntN(20)) {
			if safe[n] {
				t.Errorf("cursor %s was given twice", n)
			}
			safe[n] = true
		}
		h := p.open(t)
		there := map[string]bool{}
		for _, e := range all(t, h) {
			there[strconv.FormatInt(e.Cursor, 10)] = true
		}
		for n := range safe {
			if !there[n] {
				t.Fatalf("entry %s was lost", n)
			}
		}
		n := add(t, h, "after the crash")
		if safe[strconv.FormatInt(n, 10)] {
			t.Errorf("cursor %d was given twice", n)
		}
		safe[strconv.FormatInt(n, 10)] = true
	}
}

// Crash row 10: a rewrite that was not finished leaves the old file, and the
// temporary one is removed.
func TestRewriterKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	h := p.open(t)
	for i := range 30 {
		add(t, h, fmt.Sprintf("entry %04d", i))
	}
	litter := filepath.Join(p.dir, ".history.jsonl.tmp-1")
	must(t, os.WriteFile(litter, []byte(`{"cursor":999,"timestamp":"t","content":"half"}`), 0o600))
	for n := 1; n < 5; n++ {
		cmd, out := otherProcess(t, "rewrite", p)
		kill(t, cmd, out, n)
		es := all(t, p.open(t))
		if len(es) != 30 || es[29].Cursor != 30 {
			t.Fatalf("%d entries: %v", len(es), cursors(es))
		}
		for i, e := range es {
			if e.Content[:10] != fmt.Sprintf("entry %04d", i) {
				t.Errorf("entry %d = %q", i, e.Content)
			}
		}
	}
	// What those who died left goes when it is old: a younger file may be one
	// that somebody writes right now.
	young, _ := filepath.Glob(filepath.Join(p.dir, ".*.tmp-*"))
	for _, name := range young {
		must(t, os.Chtimes(name, time.Now(), time.Now().Add(-2*time.Hour)))
	}
	if got := add(t, p.open(t), "next"); got != 31 {
		t.Errorf("next cursor = %d", got)
	}
	if left, _ := filepath.Glob(filepath.Join(p.dir, ".*.tmp-*")); len(young) == 0 || len(left) > 0 {
		t.Errorf("left behind: %q of %q", left, young)
	}
}

// Crash row 8: the summary is written, the session does not know. Nothing is
// summarised, paid or stored twice.
func TestKilledBetweenSummaryAndSession(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	p.open(t)
	func() {
		st, err := session.Open(session.Options{DataDir: filepath.Join(p.dir, "data"), Store: p.at(t, filepath.Join(p.dir, "data")), Workspace: p.ws})
		must(t, err)
		s, err := st.Acquire(t.Context(), "cli:direct")
		must(t, err)
		talk(t, s, 5)
		must(t, s.Release())
		must(t, st.Close())
	}()
	cmd, out := otherProcess(t, "between", p)
	kill(t, cmd, out, 1)
	s := openSession(t, p)
	if s.LastConsolidated() != 0 {
		t.Fatal("the child got too far")
	}
	h := p.open(t)
	if es := all(t, h); len(es) != 1 || es[0].Content != "- first" {
		t.Fatalf("entries = %+v", es)
	}
	c := consolidator(t, h)
	asked := 0
	model := llmtest.NewScript(t)
	model.Otherwise = func(req llm.Request) llmtest.Step {
		asked++
		if strings.Contains(req.Messages[0].Content.Text, "question 0") || strings.Contains(req.Messages[0].Content.Text, "question 1") {
			t.Errorf("asked about what was summarised already:\n%s", req.Messages[0].Content.Text)
		}
		return llmtest.Reply("- rest")
	}
	changed, err := c.Run(t.Context(), holding(s, Task{Engine: Engine{Model: model, Input: 10000}, Whole: true}))
	if !changed || err != nil {
		t.Fatalf("Run = %v, %v", changed, err)
	}
	es := all(t, h)
	if len(es) != 2 || es[0].Content != "- first" || es[1].Content != "- rest" || asked != 1 {
		t.Errorf("asked %d times, entries %+v", asked, es)
	}
	if s.LastConsolidated() != s.Len() {
		t.Errorf("consolidated %d of %d", s.LastConsolidated(), s.Len())
	}
}
