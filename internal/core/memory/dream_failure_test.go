package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// Whatever fails, files and cursor are as before, and the next run succeeds.
func TestFailedDreamChangesNothing(t *testing.T) { storetest.Each(t, testFailedDreamChangesNothing) }

func testFailedDreamChangesNothing(t *testing.T, open storetest.Open) {
	t.Parallel()
	found := llmtest.Reply("[MEMORY] fact one\n[USER] fact two\n[SKILL] new-one: steps")
	edits := llmtest.Call("edit_file", edit(memoryName, "", "- fact one")).Call("edit_file", edit(userName, "", "- fact two")).
		Call("write_file", map[string]string{"path": "skills/new-one/SKILL.md", "content": "---\nname: new-one\ndescription: d\n---\ntext\n"})
	down := &llm.Error{Kind: llm.Overloaded, Message: "busy"}
	huge := edit(memoryName, "", strings.Repeat("- long line of text\n", 2000))
	for _, c := range []struct {
		name  string
		steps []llmtest.Step
		step  string // where perform breaks
	}{
		{"first phase fails", []llmtest.Step{llmtest.Fail(down)}, ""},
		{"first phase is cut", []llmtest.Step{llmtest.Length("[MEMORY] fa")}, ""},
		{"first phase says nothing", []llmtest.Step{llmtest.Reply(" ")}, ""},
		{"first phase refuses", []llmtest.Step{llmtest.Reply("I am sorry.")}, ""},
		{"first phase calls a tool", []llmtest.Step{llmtest.Call("exec", "{}")}, ""},
		{"second phase fails", []llmtest.Step{found, llmtest.Fail(down)}, ""},
		{"second phase fails after edits", []llmtest.Step{found, edits, llmtest.Fail(down)}, ""},
		{"file grows too much", []llmtest.Step{found, llmtest.Call("edit_file", huge), llmtest.Reply("ok")}, ""},
		{"journal", []llmtest.Step{found, edits, llmtest.Reply("ok")}, "journal"},
		{"file", []llmtest.Step{found, edits, llmtest.Reply("ok")}, "file"},
		{"commit", []llmtest.Step{found, edits, llmtest.Reply("ok")}, "commit"},
		{"notes", []llmtest.Step{found, edits, llmtest.Reply("ok")}, "notes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := llmtest.NewScript(t, c.steps...)
			d := newDreamer(t, open, m)
			d.entry(t, Entry{Content: "facts"})
			before := d.tree(t)
			d.broken = func(step string) error {
				if step == c.step {
					return errors.New("disk is full")
				}
				return nil
			}
			if rep, err := d.Run(t.Context(), true); err == nil || len(rep.Files) > 0 || rep.Commit != "" {
				t.Fatalf("run: %+v, %v", rep, err)
			}
			if diff := cmp.Diff(before, d.tree(t)); diff != "" {
				t.Errorf("files: %s", diff)
			}
			if dream(t, d.h) != 0 {
				t.Errorf("cursor = %d", dream(t, d.h))
			}
			if st, err := d.Status(t.Context()); err != nil || st.Attempts != 1 || st.LastError == "" || !st.NextTry.Equal(d.now.Add(2*time.Hour)) {
				t.Errorf("state: %+v, %v", st, err)
			}
			if rep, err := d.Run(t.Context(), false); err != nil || rep.Waiting.IsZero() {
				t.Errorf("a run that nobody asked for did not wait: %+v, %v", rep, err)
			}
			d.broken = func(string) error { return nil }
			m.Add(found, edits, llmtest.Reply("ok"))
			d.now = d.now.Add(3 * time.Hour)
			rep, err := d.Run(t.Context(), false)
			must(t, err)
			before[memoryName] += "- fact one\n"
			before[userName] += "- fact two\n"
			before["skills/new-one/SKILL.md"] = "---\nname: new-one\ndescription: d\n---\ntext\n"
			if diff := cmp.Diff(before, d.tree(t)); diff != "" || dream(t, d.h) != 1 || rep.Commit == "" {
				t.Errorf("second run: %+v, cursor %d, %s", rep, dream(t, d.h), diff)
			}
		})
	}
}

func TestDreamIsStopped(t *testing.T) { storetest.Each(t, testDreamIsStopped) }

func testDreamIsStopped(t *testing.T, open storetest.Open) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := llmtest.NewScript(t, llmtest.Func(func(llm.Request) llmtest.Step { cancel(); return llmtest.Block(make(chan struct{})) }))
	d := newDreamer(t, open, m)
	d.entry(t, Entry{Content: "x"})
	if _, err := d.Run(ctx, true); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	if st, err := d.Status(t.Context()); err != nil || st.Attempts != 0 || st.Pending != 1 {
		t.Errorf("state: %+v, %v", st, err)
	}
}

// A change by hand during a run wins.
func TestDreamYieldsToHandEdits(t *testing.T) { storetest.Each(t, testDreamYieldsToHandEdits) }

func testDreamYieldsToHandEdits(t *testing.T, open storetest.Open) {
	t.Parallel()
	var d *dreamer
	m := llmtest.NewScript(t, llmtest.Reply("[USER] x"), llmtest.Func(func(llm.Request) llmtest.Step {
		d.put(t, userName, "by hand\n")
		return llmtest.Call("edit_file", edit(userName, "", "- x"))
	}), llmtest.Reply("ok"))
	d = newDreamer(t, open, m)
	d.entry(t, Entry{Content: "x"})
	if _, err := d.Run(t.Context(), true); !errors.Is(err, errMeanwhile) {
		t.Errorf("run: %v", err)
	}
	if got := d.get(t, userName); got != "by hand\n" || dream(t, d.h) != 0 {
		t.Errorf("USER.md = %q, cursor %d", got, dream(t, d.h))
	}
}

func TestGuards(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("- a line of some length\n", 40)
	remove := []finding{{Target: MemoryFile, Remove: true, Text: "x"}}
	for _, c := range []struct {
		name          string
		file          string
		before, after string
		findings      []finding
		ok            bool
	}{
		{"small edit", memoryName, long, long + "- more\n", nil, true},
		{"emptied without reason", memoryName, long, "", nil, false},
		{"more removed than explained", memoryName, long, "- a line of some length\n", remove, false},
		{"explained", memoryName, long, long[:len(long)*7/10], remove, true},
		{"explained by several", memoryName, long, long[:240], slices.Repeat(remove, 3), true},
		{"small file", memoryName, "- a\n- b\n", "", nil, true},
		{"too large", memoryName, long, strings.Repeat("x", MaxFile+1), nil, false},
		{"was too large and shrinks", memoryName, strings.Repeat("x", MaxFile+9), strings.Repeat("x", MaxFile+1), nil, true},
		{"soul grows slowly", soulName, someSoul, someSoul + long[:900], nil, true},
		{"soul grows fast", soulName, someSoul, someSoul + strings.Repeat(long, 2), nil, false},
	} {
		if err := guard(&page{Name: c.file, Before: c.before, After: c.after}, c.findings); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// An entry that always fails is passed over; the others get through, and an
// outage of the provider costs no entry.
func TestDreamMakesProgress(t *testing.T) { storetest.Each(t, testDreamMakesProgress) }

func testDreamMakesProgress(t *testing.T, open storetest.Open) {
	t.Parallel()
	m := llmtest.NewScript(t)
	mode := "down"
	m.Otherwise = func(req llm.Request) llmtest.Step {
		switch {
		case mode == "down":
			return llmtest.Fail(&llm.Error{Kind: llm.Connection, Message: "no route"})
		case strings.Contains(req.Messages[0].Content.String(), "POISON"):
			return llmtest.Reply("what?")
		}
		return llmtest.Reply("[SKIP]")
	}
	d := newDreamer(t, open, m)
	for i := range 8 {
		d.entry(t, Entry{Content: map[bool]string{true: "POISON", false: "fine"}[i == 5]})
	}
	for range 12 {
		_, _ = d.Run(t.Context(), true)
	}
	if dream(t, d.h) != 0 {
		t.Fatalf("cursor = %d although nothing was read", dream(t, d.h))
	}
	mode = "up"
	runs := 0
	for ; dream(t, d.h) < 8 && runs < 30; runs++ {
		d.now = d.now.Add(9 * time.Hour)
		_, _ = d.Run(t.Context(), false)
	}
	if dream(t, d.h) != 8 {
		t.Fatalf("cursor = %d after %d runs", dream(t, d.h), runs)
	}
	failed, err := readRows[failedEntry](d.state(), fileFailed)
	if err != nil || len(failed) != 1 || !strings.Contains(string(failed[0].Entry), "POISON") {
		t.Errorf("passed over: %+v, %v", failed, err)
	}
	if len(d.told) != 1 || !strings.Contains(d.told[0], "entry 6") {
		t.Errorf("told: %q", d.told)
	}
	if st, err := d.Status(t.Context()); err != nil || st.Attempts != 0 {
		t.Errorf("state: %+v, %v", st, err)
	}
}

func TestDreamHasATokenLimit(t *testing.T) { storetest.Each(t, testDreamHasATokenLimit) }

func testDreamHasATokenLimit(t *testing.T, open storetest.Open) {
	t.Parallel()
	m := llmtest.NewScript(t, llmtest.Step{Text: "[USER] x", Usage: llm.Usage{Prompt: 900, Completion: 200}})
	d := newDreamer(t, open, m)
	d.o.Tokens = 1000
	d.entry(t, Entry{Content: "x"})
	rep, err := d.Run(t.Context(), true)
	if !errors.Is(err, errRunTokens) || rep.Usage.Prompt != 900 || !entriesFault(err) {
		t.Errorf("run: %+v, %v", rep, err)
	}
}

// TestDreamVictim is the process that TestKilledDream kills.
func TestDreamVictim(t *testing.T) {
	where, step := os.Getenv("DREAM_VICTIM"), os.Getenv("DREAM_STEP")
	if where == "" {
		t.Skip("only run by TestKilledDream")
	}
	dir, ws, _ := strings.Cut(where, string(os.PathListSeparator))
	d := dreamerAt(t, place{dir, ws, storetest.Disk}, llmtest.NewScript(t,
		llmtest.Reply("[MEMORY] fact one (#1)\n[USER] fact two (#1)"),
		llmtest.Call("edit_file", edit(memoryName, "", "- fact one")).Call("edit_file", edit(userName, "", "- fact two")), llmtest.Reply("ok"),
	))
	d.broken = func(s string) error {
		if s == step {
			p, err := os.FindProcess(os.Getpid())
			must(t, err)
			must(t, p.Kill())
			select {} // until the signal arrives
		}
		return nil
	}
	_, err := d.Run(t.Context(), true)
	t.Fatalf("survived: %v", err)
}

// A process that dies between any two steps leaves files that the next one
// makes whole; somebody's edits since then stand.
func TestKilledDream(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	must(t, err)
	for _, step := range []string{"journal", "file", "commit", "notes"} {
		for _, meddled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", step, meddled), func(t *testing.T) {
				t.Parallel()
				d := newDreamer(t, storetest.Disk, llmtest.NewScript(t))
				d.entry(t, Entry{Content: "facts"})
				before := d.tree(t)
				cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestDreamVictim$")
				cmd.Env = append(os.Environ(), "DREAM_VICTIM="+d.dir+string(os.PathListSeparator)+d.ws, "DREAM_STEP="+step)
				if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "survived") || dream(t, d.h) != 0 {
					t.Fatalf("the victim: %v, cursor %d\n%s", err, dream(t, d.h), out)
				}
				if meddled {
					d.put(t, userName, "by hand\n")
				}
				must(t, d.repair(t.Context()))
				must(t, d.repair(t.Context()))
				cursor := int64(0)
				if meddled {
					before[userName] = "by hand\n"
				} else {
					cursor = 1
					before[memoryName] += "- fact one\n"
					before[userName] += "- fact two\n"
				}
				if diff := cmp.Diff(before, d.tree(t)); diff != "" || dream(t, d.h) != cursor {
					t.Errorf("cursor %d, want %d: %s", dream(t, d.h), cursor, diff)
				}
				if meddled {
					return
				}
				why, err := d.Why(t.Context(), memoryName)
				if err != nil || why[1].ByHand || why[1].Commit == "" {
					t.Errorf("why: %+v, %v", why, err)
				}
				if rows, _ := readRows[fact](d.state(), fileProvenance); len(rows) != 2 {
					t.Errorf("%d origins, want 2", len(rows))
				}
				if s := d.subjects(t)[0]; !strings.HasPrefix(s, "dream: ") {
					t.Errorf("newest commit: %s", s)
				}
			})
		}
	}
}

func TestBrokenJournalIsSetAside(t *testing.T) { storetest.Each(t, testBrokenJournalIsSetAside) }

func testBrokenJournalIsSetAside(t *testing.T, open storetest.Open) {
	t.Parallel()
	d := newDreamer(t, open, llmtest.NewScript(t, llmtest.Reply("(nothing)")))
	d.entry(t, Entry{Content: "x"})
	put(t, d.state(), fileJournal, "{")
	if _, err := d.Run(t.Context(), true); err != nil || dream(t, d.h) != 1 {
		t.Errorf("run: %v", err)
	}
	if doc(t, d.state(), fileJournal+".bad") != "{" {
		t.Error("the journal is gone")
	}
}
