package memory

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// python writes the files of a workspace as Python nanobot 0.1.5 does.
type python struct {
	p     place
	n     int
	wrote []string // contents of entries that it did not drop, none of them twice
}

func (py *python) cursor(t *testing.T, name string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(py.p.ws, "memory", name))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Errorf("%s holds %q", name, data)
	}
	return n
}

func (py *python) append(t *testing.T) {
	t.Helper()
	py.n++
	content := fmt.Sprintf("of Python, %d ü", py.n)
	next := py.cursor(t, ".cursor") + 1
	f, err := os.OpenFile(filepath.Join(py.p.ws, "memory", "history.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	_, err = fmt.Fprintf(f, "{\"cursor\": %d, \"timestamp\": \"2026-05-02 10:00\", \"content\": %q}\n", next, content)
	must(t, err)
	must(t, f.Close())
	py.p.write(t, ".cursor", strconv.Itoa(next))
	py.wrote = append(py.wrote, content)
}

func (py *python) dream(t *testing.T) {
	t.Helper()
	py.p.write(t, ".dream_cursor", strconv.Itoa(py.cursor(t, ".cursor")))
}

// compact writes its file again, in its own form and without the oldest lines.
// What Python dropped itself is not expected to be anywhere.
func (py *python) compact(t *testing.T, drop int) {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(py.p.read(t, "history.jsonl")) {
		if drop > 0 {
			drop--
			py.wrote = slices.DeleteFunc(py.wrote, func(content string) bool { return strings.Contains(line, content+`"`) })
			continue
		}
		var e map[string]any
		must(t, json.Unmarshal([]byte(line), &e))
		data, err := json.Marshal(e)
		must(t, err)
		out.Write(data)
		out.WriteString("\n")
	}
	py.p.write(t, "history.jsonl", out.String())
}

// check demands that each entry of Python is in our history once or, if it is
// not, still in Python's file and named as waiting.
func (py *python) check(t *testing.T, h *History, trail []string) {
	t.Helper()
	times := map[string]int{}
	for _, e := range all(t, h) {
		times[e.Content]++
	}
	waiting, err := h.Unimported(t.Context())
	must(t, err)
	copied := py.p.read(t, "history.jsonl")
	for _, content := range py.wrote {
		inFile := strings.Contains(copied, content+`"`)
		named := slices.ContainsFunc(waiting, func(e Entry) bool { return e.Content == content })
		switch {
		case times[content] > 1:
			t.Fatalf("%q is in the history %d times: %q", content, times[content], trail)
		case times[content] == 1 && named:
			t.Fatalf("%q waits although it was imported: %q", content, trail)
		case times[content] == 0 && (!inFile || !named):
			t.Fatalf("%q vanished: in the file %v, waiting %v: %q", content, inFile, named, trail)
		}
	}
	for _, e := range waiting {
		if !strings.HasPrefix(e.Content, "of Python") {
			t.Fatalf("%q waits, but it is ours: %q", e.Content, trail)
		}
	}
}

// Whatever the order in which both programs write, nothing of Python vanishes, is
// imported twice or is passed over, and its cursors never go back.
func TestAlternatingWithPython(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 29))
			p := newPlace(t, storetest.Memory())
			py := &python{p: p}
			for range r.IntN(4) {
				py.append(t)
			}
			ours := []*History{p.takeOver(t), p.open(t)} // two processes
			var trail []string
			for i := range 80 {
				h := ours[r.IntN(len(ours))]
				cursor, dreamt := py.cursor(t, ".cursor"), py.cursor(t, ".dream_cursor")
				waiting, err := Waiting(t.Context(), h.o)
				must(t, err)

				what, external := r.IntN(11), false
				switch what {
				case 0, 1, 2:
					py.append(t)
					external = true
				case 3:
					py.dream(t)
					external = true
				case 4:
					py.compact(t, r.IntN(4))
					external = true
				case 5:
					add(t, h, fmt.Sprintf("ours %d", i))
				case 6:
					must(t, h.SetDreamCursor(t.Context(), int64(r.IntN(i+1))))
				case 7:
					_, err := h.forget(t.Context(), func(e Entry) (Entry, bool) { return e, !strings.HasPrefix(e.Content, "ours") || r.IntN(4) > 0 })
					must(t, err)
				case 8:
					ours[r.IntN(len(ours))] = p.open(t)
				case 9: // the older ones go, as with a long history
					must(t, h.update(t.Context(), func() error {
						dropped := newKnown(h.entries[:len(h.entries)/3])
						kept := slices.DeleteFunc(slices.Clone(h.entries), func(e Entry) bool { return strings.HasPrefix(e.Content, "ours") && dropped.has(e) })
						return h.rewrite(t.Context(), kept, func(e Entry) (Entry, bool) {
							return e, !strings.HasPrefix(e.Content, "ours") || !dropped.has(e)
						})
					}))
				case 10:
					found, err := h.Unimported(t.Context())
					must(t, err)
					if len(found) > 0 && r.IntN(2) == 0 {
						found = found[:1+r.IntN(len(found))] // killed before the rest
					}
					n, err := h.Import(t.Context(), found)
					if n != len(found) || err != nil {
						t.Fatalf("imported %d of %d: %v", n, len(found), err)
					}
				}
				trail = append(trail, strconv.Itoa(what))
				py.check(t, ours[r.IntN(len(ours))], trail)

				if external {
					continue
				}
				nowCursor, nowDreamt := py.cursor(t, ".cursor"), py.cursor(t, ".dream_cursor")
				if nowCursor < cursor || nowDreamt < dreamt {
					t.Fatalf("cursors of Python went back: %d to %d, %d to %d: %q", cursor, nowCursor, dreamt, nowDreamt, trail)
				}
				if len(waiting) > 0 && what != 10 && (nowCursor != cursor || nowDreamt != dreamt) {
					t.Fatalf("cursors of Python moved while its entries wait: %d to %d, %d to %d: %q", cursor, nowCursor, dreamt, nowDreamt, trail)
				}
			}
			h := p.open(t)
			found, err := h.Unimported(t.Context())
			must(t, err)
			_, err = h.Import(t.Context(), found)
			must(t, err)
			if got := strings.Count(p.read(t, "history.jsonl"), "of Python"); got < len(py.wrote) {
				t.Errorf("the copy has %d of %d entries of Python after the import", got, len(py.wrote))
			}
		})
	}
}

// The same, with a death of our process at any point.
func TestKilledBesidePython(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	py := &python{p: p}
	py.append(t)
	p.takeOver(t)
	r := rand.New(rand.NewPCG(3, 29))
	for range 6 {
		cmd, out := otherProcess(t, "alternate", p)
		kill(t, cmd, out, 1+r.IntN(12))
		for range 1 + r.IntN(3) {
			py.append(t)
		}
		cursor, dreamt := py.cursor(t, ".cursor"), py.cursor(t, ".dream_cursor")
		py.check(t, p.open(t), nil)
		if got := py.cursor(t, ".cursor"); got != cursor {
			t.Errorf("the cursor of Python moved from %d to %d", cursor, got)
		}
		if got := py.cursor(t, ".dream_cursor"); got != dreamt {
			t.Errorf("the dream cursor of Python moved from %d to %d", dreamt, got)
		}
	}
}

// Entries that the oldest versions write into HISTORY.md wait as well.
func TestHistoryTextWaits(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	p.write(t, "HISTORY.md", "[2026-02-01 09:00] likes tea\n\nundated words\n")
	h := p.takeOver(t)
	if _, err := os.Stat(filepath.Join(p.ws, "memory", "HISTORY.md")); err == nil {
		t.Error("HISTORY.md was not set aside")
	}
	p.write(t, "HISTORY.md", "[2026-02-01 09:00] likes tea\n\n[2026-05-03 08:00] likes herons\n\nnew words without a date\n")

	found, err := h.Unimported(t.Context())
	must(t, err)
	if len(found) != 2 || found[0].Content != "likes herons" || found[1].Content != "new words without a date" {
		t.Fatalf("waiting: %+v", found)
	}
	if n, err := h.Import(t.Context(), found); n != 2 || err != nil {
		t.Errorf("imported %d: %v", n, err)
	}
	if !strings.Contains(p.read(t, "HISTORY.md"), "herons") {
		t.Error("the file of the other program is gone")
	}
	must(t, os.Chtimes(filepath.Join(p.ws, "memory", "HISTORY.md"), time.Now(), time.Now().Add(time.Hour)))
	if again, err := p.open(t).Unimported(t.Context()); err != nil || len(again) > 0 {
		t.Errorf("it waits still: %+v %v", again, err)
	}
	if got := len(all(t, h)); got != 4 {
		t.Errorf("%d entries, want 4", got)
	}
	if p.read(t, "HISTORY.md.bak") == "" {
		t.Error("the first HISTORY.md is gone")
	}
}

// To forget means also what another program wrote and nobody imported.
func TestForgetEntriesOfPython(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	h := p.open(t)
	add(t, h, "lives in Wien\nhas a cat")
	p.write(t, "history.jsonl", p.read(t, "history.jsonl")+`{"cursor": 2, "timestamp": "2026-05-02 10:00", "content": "moved to Wien\nhas a dog"}`+"\n")
	add(t, h, "between")

	n, err := h.forget(t.Context(), func(e Entry) (Entry, bool) {
		lines := slices.DeleteFunc(strings.Split(e.Content, "\n"), func(l string) bool { return strings.Contains(l, "Wien") })
		e.Content = strings.Join(lines, "\n")
		return e, e.Content != ""
	})
	must(t, err)
	if n != 2 {
		t.Errorf("changed %d entries, want 2", n)
	}
	if got := p.read(t, "history.jsonl"); strings.Contains(got, "Wien") || !strings.Contains(got, "has a dog") {
		t.Errorf("the file of the other program:\n%s", got)
	}
	found, err := h.Unimported(t.Context())
	must(t, err)
	if len(found) != 1 || found[0].Content != "has a dog" {
		t.Errorf("waiting: %+v", found)
	}
}
