package storetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

const childEnv = "NANOBOT_STORETEST_CHILD"

// Numbers of the processes that are killed.
const (
	killLines = 120 // a process is killed after at most so many lines
	killBlock = 16  // numbers in a document
	replaceAt = 40  // lines in a log that is made smaller
)

// Child does the work of a process that will be killed: it writes to logs and
// documents that another one writes to as well, and says what is safe. A
// driver's tests have a test that calls only this; it skips itself otherwise.
func Child(t *testing.T, open Open) {
	t.Helper()
	me, place, ok := strings.Cut(os.Getenv(childEnv), "|")
	if !ok {
		t.Skip("only runs as a process to be killed")
	}

	w := &writer{s: open(t, place), me: me}
	var wg sync.WaitGroup
	for _, work := range []func(context.Context, int) error{w.append, w.compact, w.count, w.archive, w.alone} {
		wg.Go(func() {
			for i := 0; ; i++ {
				if err := work(t.Context(), i); err != nil {
					fmt.Printf("error %v\n", err)
					return
				}
			}
		})
	}

	wg.Wait()
}

type writer struct {
	s  store.Store
	me string
}

func (w *writer) report(what string, args ...any) {
	fmt.Printf("%s %s\n", what, strings.TrimSpace(fmt.Sprintln(args...)))
}

// add appends a line wherever the log ends.
func add(ctx context.Context, l store.Log, line string, sync bool) error {
	for {
		info, err := l.Info(ctx)
		if err == nil {
			err = l.Append(ctx, info.Size, []byte(line+"\n"), sync)
		}
		if !errors.Is(err, store.ErrMoved) {
			return err
		}
	}
}

// append adds lines of all sizes to one log.
func (w *writer) append(ctx context.Context, i int) error {
	l, err := w.s.Log(ctx, "logs/shared.jsonl")
	if err != nil {
		return err
	}

	id := fmt.Sprintf("%s-%d", w.me, i)
	if err := add(ctx, l, id+" "+strings.Repeat("x", i%7*3000)+".", i%5 == 0); err != nil {
		return err
	}

	w.report("appended", id)
	return l.Close()
}

// compact adds lines to a log and leaves out old ones all the time; a document
// says what was left out, as ids of a journal are kept.
func (w *writer) compact(ctx context.Context, i int) error {
	release, err := store.WaitLock(ctx, w.s, "logs/compacted", 1<<40)
	if err != nil {
		return err
	}

	defer release() //nolint:errcheck // the process is killed anyway
	l, err := w.s.Log(ctx, "logs/compacted.jsonl")
	if err != nil {
		return err
	}

	defer l.Close() //nolint:errcheck // nothing waits to be written
	id := fmt.Sprintf("%s-%d", w.me, i)
	if err := add(ctx, l, id, false); err != nil {
		return err
	}

	lines, size, err := read(ctx, l)
	if err != nil {
		return err
	}

	if len(lines) > replaceAt {
		gone, kept := lines[:len(lines)-replaceAt/2], lines[len(lines)-replaceAt/2:]
		err := store.Update(ctx, w.s, "logs/gone.json", func(old []byte) ([]byte, error) {
			return append(old, []byte(strings.Join(gone, "\n")+"\n")...), nil
		})
		if err == nil {
			err = l.Replace(ctx, size, []byte(strings.Join(kept, "\n")+"\n"))
		}

		if err != nil {
			return err
		}
	}

	w.report("kept", id)
	return nil
}

// count changes a document whose parts must agree.
func (w *writer) count(ctx context.Context, _ int) error {
	var n int
	err := store.Update(ctx, w.s, "docs/n.json", func(old []byte) (_ []byte, err error) {
		if n, err = block(old); err != nil {
			return nil, err
		}
		n++
		return bytes.Repeat(fmt.Appendf(nil, "%d\n", n), killBlock), nil
	})
	if err != nil {
		return err
	}

	w.report("counted", n)
	return nil
}

// block reads what count wrote.
func block(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	f := strings.Fields(string(data))
	if len(f) != killBlock || slices.ContainsFunc(f, func(s string) bool { return s != f[0] }) {
		return 0, fmt.Errorf("the document holds %q", data)
	}
	return strconv.Atoi(f[0])
}

// archive gives logs a second name and begins again.
func (w *writer) archive(ctx context.Context, i int) error {
	name := "logs/a" + w.me + ".jsonl"
	l, err := w.s.Log(ctx, name)
	if err != nil {
		return err
	}

	defer l.Close() //nolint:errcheck // nothing waits to be written
	line := fmt.Sprintf("%s-%d", w.me, i)
	if err := l.Append(ctx, 0, []byte(line+"\n"), false); err != nil {
		return err
	}

	n := int64(len(line) + 1)
	if err := w.s.Archive(ctx, name, "logs/archive/"+line+".jsonl", n); err != nil {
		return err
	}
	if err := l.Replace(ctx, n, nil); err != nil {
		return err
	}

	w.report("archived", line)
	return nil
}

// alone holds a lock while it writes a document that only the holder may write.
func (w *writer) alone(ctx context.Context, _ int) error {
	release, err := store.WaitLock(ctx, w.s, "docs/alone.lock", 1<<40)
	if err != nil {
		return err
	}

	defer release() //nolint:errcheck // the process is killed anyway
	data, _, err := w.s.Doc(ctx, "docs/alone.json")
	if err != nil {
		return err
	}

	n, err := block(data)
	if err != nil {
		return err
	}
	if _, err := w.s.Put(ctx, "docs/alone.json", bytes.Repeat(fmt.Appendf(nil, "%d\n", n+1), killBlock), store.Any, false); err != nil {
		return err
	}

	w.report("alone", n+1)
	return nil
}

func read(ctx context.Context, l store.Log) (lines []string, size int64, err error) {
	info, err := l.Info(ctx)
	if err != nil {
		return nil, 0, err
	}

	for line, err := range store.Lines(l, 0, info.Size) {
		if err != nil {
			return nil, 0, err
		}
		if !line.Whole {
			return nil, 0, errors.New("half a line is shown")
		}
		lines = append(lines, string(line.Bytes))
	}

	return lines, info.Size, nil
}

// RunKill kills processes that use one place at the same time, again and again,
// at any moment, and looks that everything they were told is safe is there,
// once, in order and whole. childTest is the name of the test that calls Child.
func RunKill(t *testing.T, open Open, childTest string, rounds int) {
	t.Helper()
	place := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers in every run
	w := &witness{safe: map[string][]string{}, most: map[string]int{}}
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range 2 {
			lines := 1 + rng.IntN(killLines)
			wg.Go(func() {
				RunChild(t, childTest, fmt.Sprintf("%s=%d.%d|%s", childEnv, round, i, place), lines, func(line string) { w.record(t, line) })
			})
		}

		wg.Wait()
		if t.Failed() {
			return
		}
	}

	s := open(t, place)
	defer s.Close() //nolint:errcheck // only read from
	w.judge(t, s)
}

// witness writes down what the processes say.
type witness struct {
	mu   sync.Mutex
	safe map[string][]string
	most map[string]int
}

// RunChild runs a test of this binary as a process of its own, with a variable
// of the environment, until it has said so many lines, and kills it. note gets
// every line.
func RunChild(t *testing.T, test, env string, lines int, note func(line string)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.count=1") //nolint:gosec // the test's own binary
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}

	if err != nil {
		t.Error(err)
		return
	}

	r := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines {
			_ = cmd.Process.Kill() // it runs until then
		}

		line, err := r.ReadString('\n') // also what it said before it died
		if err != nil {
			if n < lines {
				t.Errorf("the process ended by itself: %v %q", err, line)
			}
			break
		}

		note(strings.TrimSpace(line))
	}

	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // it was killed
}

func (w *witness) record(t *testing.T, line string) {
	t.Helper()
	what, id, ok := strings.Cut(line, " ")
	w.mu.Lock()
	defer w.mu.Unlock()

	switch what {
	case "counted", "alone":
		n, err := strconv.Atoi(id)
		if err != nil {
			t.Errorf("a process said %q", line)
		}
		w.most[what] = max(w.most[what], n)
		w.safe[what] = append(w.safe[what], id)

	case "appended", "kept", "archived":
		w.safe[what] = append(w.safe[what], id)
	default:
		t.Errorf("a process said %q, %v", line, ok)
	}
}

func (w *witness) judge(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	lines := func(name string) []string {
		l, err := s.Log(ctx, name)
		if err != nil {
			t.Fatal(err)
		}

		defer l.Close() //nolint:errcheck // only read from
		out, _, err := read(ctx, l)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return out
	}

	doc := func(name string) []byte {
		data, _, err := s.Doc(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}

	var shared []string
	for _, line := range lines("logs/shared.jsonl") {
		id, _, _ := strings.Cut(line, " ")
		if !strings.HasSuffix(line, ".") {
			t.Errorf("%s is half a line", id)
		}
		shared = append(shared, id)
	}

	complete(t, "appended", w.safe["appended"], shared)
	ordered(t, shared)

	// What left the log and what is in it overlap only after a crash between.
	kept := lines("logs/compacted.jsonl")
	gone := strings.Fields(string(doc("logs/gone.json")))
	complete(t, "kept", w.safe["kept"], slices.Concat(gone, kept))
	ordered(t, kept)

	for _, id := range w.safe["archived"] {
		if got := lines("logs/archive/" + id + ".jsonl"); len(got) != 1 || got[0] != id {
			t.Errorf("the archive of %s holds %q", id, got)
		}
	}

	for what, name := range map[string]string{"counted": "docs/n.json", "alone": "docs/alone.json"} {
		n, err := block(doc(name))
		if err != nil || n < w.most[what] {
			t.Errorf("%s: %d, %v; a process was told that %d is safe", name, n, err, w.most[what])
		}

		told := slices.Clone(w.safe[what])
		slices.Sort(told)
		if len(slices.Compact(told)) != len(w.safe[what]) {
			t.Errorf("%s: two processes were told the same number", what)
		}
	}

	t.Logf("%d lines, %d kept, %d archived, %d and %d versions of documents were said to be safe",
		len(w.safe["appended"]), len(w.safe["kept"]), len(w.safe["archived"]), len(w.safe["counted"]), len(w.safe["alone"]))
}

// complete looks that everything that is safe is there.
func complete(t *testing.T, what string, safe, there []string) {
	t.Helper()
	have := map[string]bool{}
	for _, id := range there {
		have[id] = true
	}

	for _, id := range safe {
		if !have[id] {
			t.Errorf("%s was %s and is gone", id, what)
		}
	}
}

// ordered looks that the lines of each writer are there once and in order.
func ordered(t *testing.T, ids []string) {
	t.Helper()
	last := map[string]int{}
	for _, id := range ids {
		who, num, _ := strings.Cut(id, "-")
		n, err := strconv.Atoi(num)
		if err != nil {
			t.Errorf("a line says %q", id)
			continue
		}

		if before, ok := last[who]; ok && n <= before {
			t.Errorf("%s came after number %d of the same writer", id, before)
		}
		last[who] = n
	}
}
