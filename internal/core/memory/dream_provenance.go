package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Origin is a history entry that a fact comes from.
type Origin struct {
	Cursor  int64  `json:"cursor"`
	Session string `json:"session,omitempty"`
	Sender  string `json:"sender,omitempty"`
	Time    string `json:"time,omitempty"` // in TimeLayout
}

func originOf(e Entry) Origin { return Origin{e.Cursor, e.Session, e.Sender, e.Time} }

// fact is a line that was added to a file, with its origin.
type fact struct {
	Run     string   `json:"run"`
	Time    string   `json:"time"`
	File    string   `json:"file"`
	Line    string   `json:"line"`
	Finding string   `json:"finding,omitempty"`
	Sources []Origin `json:"sources,omitempty"`
	Guessed bool     `json:"guessed,omitempty"`
	Held    string   `json:"held,omitempty"` // id of the finding that the owner confirmed
	Commit  string   `json:"commit,omitempty"`
}

// maxFacts is how many origins are kept.
const maxFacts = 5000

// Fact is a line of a memory file and what is known about its origin.
type Fact struct {
	File      string   `json:"file"`
	Line      int      `json:"line"` // from 1
	Text      string   `json:"text"`
	ByHand    bool     `json:"by_hand,omitempty"`   // no dream wrote it
	Edited    bool     `json:"edited,omitempty"`    // a dream wrote it a little differently
	Confirmed bool     `json:"confirmed,omitempty"` // came from outside, and the owner said yes
	Finding   string   `json:"finding,omitempty"`
	Sources   []Origin `json:"sources,omitempty"`
	Guessed   bool     `json:"guessed,omitempty"` // the sources are the likeliest ones, not what the model named
	Time      string   `json:"time,omitempty"`    // when it was written, RFC 3339
	Commit    string   `json:"commit,omitempty"`
}

// nearEnough is the share of letter pairs that makes two lines the same line.
const nearEnough = 0.6

// explain says where the lines that were added to a file come from.
func (r *dreamRun) explain(file string, lines []string) (out []fact) {
	for _, line := range lines {
		if !hasWords(line) {
			continue
		}

		f := fact{Run: r.rep.ID, Time: stamp(r.now), File: file, Line: line}
		best, at := 0.0, -1
		for i, s := range r.sourced {
			if s.Remove || fileOf(s.scope, s.Target) != file && (s.Target != NewSkill || skillFile(s.Skill) != file) {
				continue
			}
			if n := alike(line, s.Text); n > best || at < 0 {
				best, at = n, i
			}
		}

		if at >= 0 {
			s := r.sourced[at]
			f.Finding = s.String()
			f.Sources = s.sources
			f.Guessed = s.guessed
		}

		out = append(out, f)
	}
	return out
}

// sourcesOf maps what a finding cites to entries. When it cites none of them,
// the likeliest is named and marked as a guess.
func sourcesOf(f finding, entries []Entry) (out []Origin, guessed bool) {
	best, at := -1.0, 0
	for i, e := range entries {
		if slices.Contains(f.Cites, e.Cursor) {
			out = append(out, originOf(e))
		}
		if n := contained(f.Text, e.Content); n > best {
			best, at = n, i
		}
	}

	if len(out) > 0 || len(entries) == 0 {
		return out, false
	}
	return []Origin{originOf(entries[at])}, len(entries) > 1
}

// hasWords reports whether a line says something, and is not only form.
func hasWords(line string) bool {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "<!--") {
		return false // a heading or a comment
	}
	return strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// pairs returns the pairs of neighbouring letters of a text, whatever its script.
func pairs(s string) map[[2]rune]int {
	out := map[[2]rune]int{}
	prev := ' '
	for _, r := range strings.ToLower(s) {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		if prev != ' ' || r != ' ' {
			out[[2]rune{prev, r}]++
		}
		prev = r
	}

	return out
}

func common(a, b map[[2]rune]int) (both, inA, inB int) {
	for p, n := range a {
		both += min(n, b[p])
		inA += n
	}
	for _, n := range b {
		inB += n
	}
	return both, inA, inB
}

// alike returns how much two texts have in common, from 0 to 1.
func alike(a, b string) float64 {
	both, inA, inB := common(pairs(a), pairs(b))
	if inA+inB == 0 {
		return 0
	}
	return 2 * float64(both) / float64(inA+inB)
}

// contained returns how much of a is in b, from 0 to 1.
func contained(a, b string) float64 {
	both, inA, _ := common(pairs(a), pairs(b))
	if inA == 0 {
		return 0
	}
	return float64(both) / float64(inA)
}

// bare returns a line without its bullet and with single blanks.
func bare(line string) string {
	return strings.ToLower(strings.Join(strings.Fields(strings.TrimLeft(strings.TrimSpace(line), "-*+• ")), " "))
}

// Why tells for every line of a memory file where it comes from. The file is
// named relative to the workspace.
func (d *Dream) Why(_ context.Context, file string) ([]Fact, error) {
	root, err := diskio.OpenTree(d.o.History.Workspace())
	if err != nil {
		return nil, err
	}

	defer root.Close() //nolint:errcheck // only read from
	p, err := readPage(root, file)
	if err != nil {
		return nil, err
	}

	known, err := readRows[fact](d.state(), fileProvenance)
	if err != nil {
		return nil, err
	}

	known = slices.DeleteFunc(known, func(f fact) bool { return f.File != file })
	same, near := map[string]int{}, lookalikes{}
	for i, f := range known {
		same[bare(f.Line)] = i // the newest wins
		near.add(f.Line)
	}

	out := []Fact{}
	n := 0
	for line := range strings.Lines(p.Before) {
		n++
		if !hasWords(line) {
			continue
		}

		f := Fact{File: file, Line: n, Text: strings.TrimSpace(line), ByHand: true}
		at, ok := same[bare(line)]
		if !ok {
			at = near.nearest(line)
			f.Edited = at >= 0
		}

		if at >= 0 {
			k := known[at]
			f.ByHand = false
			f.Confirmed = k.Held != ""
			f.Finding = k.Finding
			f.Sources = k.Sources
			f.Guessed = k.Guessed
			f.Time = k.Time
			f.Commit = k.Commit
		}

		out = append(out, f)
	}

	return out, nil
}

// lookalikes finds similar lines among many: it knows which lines have a pair of
// letters, so that a search does not look at every pair of every line.
type lookalikes struct {
	lines map[[2]rune][]pairIn
	sizes []int // pairs of each line
	both  []int // what the line that is looked for has in common with each
}

type pairIn struct{ line, times int }

func (l *lookalikes) add(line string) {
	if l.lines == nil {
		l.lines = map[[2]rune][]pairIn{}
	}
	size := 0
	for p, n := range pairs(line) {
		l.lines[p] = append(l.lines[p], pairIn{len(l.sizes), n})
		size += n
	}
	l.sizes, l.both = append(l.sizes, size), append(l.both, 0)
}

// nearest returns the index of the most similar line, the newest of several, and -1 if
// none is near enough.
func (l *lookalikes) nearest(line string) int {
	clear(l.both)
	size := 0
	for p, n := range pairs(line) {
		size += n
		for _, c := range l.lines[p] {
			l.both[c.line] += min(n, c.times)
		}
	}

	best, at := nearEnough, -1
	for i, both := range l.both {
		if both == 0 {
			continue
		}
		if n := 2 * float64(both) / float64(size+l.sizes[i]); n >= best {
			best, at = n, i
		}
	}

	return at
}

// state returns where Dream keeps what it remembers, beside the history.
func (d *Dream) state() store.Store { return d.o.History.o.Store }

// saveFacts adds the origins of a change, once.
func (d *Dream) saveFacts(c changeSet, commit string) error {
	if len(c.Facts) == 0 {
		return nil
	}

	old, err := readRows[fact](d.state(), fileProvenance)
	if err != nil {
		return err
	}

	old = slices.DeleteFunc(old, func(f fact) bool { return f.Run == c.ID })
	for _, f := range c.Facts {
		f.Commit = commit
		old = append(old, f)
	}
	return writeRows(d.state(), fileProvenance, old, maxFacts)
}

// renamed tells that versions got other ids, new ones by their old ones, so that
// origins name versions that exist. The caller has entered.
func (d *Dream) renamed(ctx context.Context, ids map[string]string) error {
	if len(ids) == 0 {
		return nil
	}

	var st dreamState
	if ok, err := d.o.History.dreamState(ctx, &st); err != nil {
		return err
	} else if id := ids[st.LastCommit]; ok && id != "" {
		st.LastCommit = id
		if err := d.o.History.setDreamState(ctx, st); err != nil {
			return err
		}
	}

	facts, err := readRows[fact](d.state(), fileProvenance)
	if err != nil {
		return err
	}

	changed := false
	for i := range facts {
		if id, ok := ids[facts[i].Commit]; ok {
			facts[i].Commit, changed = id, true
		}
	}

	if !changed {
		return nil
	}
	return writeRows(d.state(), fileProvenance, facts, len(facts))
}

// readRows reads a file of one JSON object per line; lines that cannot be read
// are left out.
func readRows[T any](s store.Store, name string) (out []T, err error) {
	data, _, err := s.Doc(context.Background(), name)
	if err != nil {
		return nil, err
	}

	for line := range bytes.Lines(data) {
		var row T
		if len(bytes.TrimSpace(line)) > 0 && json.Unmarshal(line, &row) == nil {
			out = append(out, row)
		}
	}
	return out, nil
}

// writeRows replaces such a file, keeping the newest rows.
func writeRows[T any](s store.Store, name string, rows []T, most int) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)

	for _, r := range rows[max(0, len(rows)-most):] {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}

	_, err := s.Put(context.Background(), name, b.Bytes(), store.Any, true)
	return err
}

func appendRows[T any](s store.Store, name string, rows []T, most int) error {
	old, err := readRows[T](s, name)
	if err != nil {
		return err
	}
	return writeRows(s, name, append(old, rows...), most)
}
