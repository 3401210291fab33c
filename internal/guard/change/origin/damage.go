package origin

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// The lines of the record end with a checksum, and there are two copies of it. A
// damaged line is not used: what the other copy has in its place is. Where both
// are damaged, a mark may be lost that nothing tells any more, so everything that
// had changed until then counts as from outside until the owner trusts it.

// suffixDamaged is added to the name of a log for the file with its damaged lines.
const suffixDamaged = ".bad"

// Damaged lists the files of a folder of records with lines that could not be used.
func Damaged(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // without records nothing of them is damaged
	}

	var found []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".jsonl"+suffixDamaged) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found
}

// encode adds a line to what is to be written.
func (l *line) encode(to *bytes.Buffer) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	to.Write(store.Seal(data, 0))
	to.WriteByte('\n')
	return nil
}

// parse reads a line. It is not ok if it is not as it was written. An empty line
// says nothing.
func parse(raw []byte) (l line, ok bool) {
	raw = bytes.TrimSuffix(raw, []byte{'\n'})
	if len(raw) == 0 {
		return line{}, true
	}
	if _, _, ok := store.Unseal(raw); !ok {
		return line{}, false
	}
	err := json.Unmarshal(raw, &l)
	return l, err == nil && (l.Path != "" || l.Op != opMark && l.Op != opTrust)
}

// stored is a line of a copy. Damaged lines that follow each other are one: how
// many there were cannot be told, since a newline may be damaged, too.
type stored struct {
	raw     []byte
	line    line
	damaged bool
}

func readCopy(data []byte) (lines []stored) {
	add := func(raw []byte, l line, ok bool) {
		if n := len(lines) - 1; !ok && n >= 0 && lines[n].damaged {
			lines[n].raw = slices.Concat(lines[n].raw, raw)
			return
		}
		lines = append(lines, stored{raw: raw, line: l, damaged: !ok})
	}
	for len(data) > 0 {
		raw, rest, _ := bytes.Cut(data, []byte{'\n'})
		l, ok := parse(raw)
		if !ok {
			if first, next := store.SplitSealed(slices.Clone(raw)); first != nil {
				raw, rest = first, data[min(next, len(data)):]
				l, ok = parse(raw)
			}
		}

		data = rest
		add(raw, l, ok)
	}

	return lines
}

// same reports whether two lines of the copies are the same one.
func (a stored) same(b stored) bool {
	return !a.damaged && !b.damaged && bytes.Equal(withoutSum(a.raw), withoutSum(b.raw))
}

// withoutSum returns a line as it was before it was sealed.
func withoutSum(raw []byte) []byte {
	body, sealed, _ := store.Unseal(raw)
	if sealed {
		return body
	}
	return bytes.TrimSuffix(raw, []byte{'}'})
}

// mend makes one record of two copies with damaged lines. What is damaged in both
// leaves a line that says so.
func mend(one, two []stored, now time.Time) (lines []line) {
	for len(one) > 0 || len(two) > 0 {
		switch {
		case len(one) > 0 && one[0].damaged:
			var found []line
			found, one, two = fill(one, two, now)
			lines = append(lines, found...)
		case len(two) > 0 && two[0].damaged:
			var found []line
			found, two, one = fill(two, one, now)
			lines = append(lines, found...)
		case len(one) > 0 && len(two) > 0 && one[0].same(two[0]):
			lines = append(lines, one[0].line)
			one, two = one[1:], two[1:]
		default: // two processes wrote at once, or one copy lacks lines: both count
			if len(two) > 0 {
				lines, two = append(lines, two[0].line), two[1:]
			}
			if len(one) > 0 && !one[0].damaged {
				lines, one = append(lines, one[0].line), one[1:]
			}
		}
	}
	return lines
}

// fill finds what the other copy has where one begins with something damaged: what
// stands there before the line that follows in both. It returns what is left of
// them then.
func fill(one, other []stored, now time.Time) (lines []line, rest, otherRest []stored) {
	damaged, rest := one[0], one[1:]
	n := len(other)
	if len(rest) > 0 {
		n = 0
		for i := 1; i < len(other) && n == 0; i++ {
			if other[i].same(rest[0]) {
				n = i
			}
		}
	}

	lost := n == 0
	for _, s := range other[:n] {
		if s.damaged {
			lost = true
			lines = append(lines, remains(s.raw)...)
		} else {
			lines = append(lines, s.line)
		}
	}

	if lost { // last, so that the owner's word counts only if it is known to be later
		lines = append(lines, remains(damaged.raw)...)
		lines = append(lines, line{Op: opWindowMarked, ID: newID(), From: 1, At: now.UnixNano(), Lost: true})
	}
	return lines, rest, other[n:]
}

// remains returns what a damaged line still says is from outside. A wrong mark does no
// harm.
func remains(raw []byte) []line {
	var l line
	switch {
	case json.Unmarshal(raw, &l) != nil:
		return nil
	case l.Op == opMark && l.Path == "":
		return []line{{Op: opKnown, Held: l.identity().pack(nil)}}
	case l.Op == opMark, l.Op == opKnown:
		return []line{l}
	}

	return nil
}

// loadDamaged reads the record from two copies of which at least one is damaged,
// keeps the damaged lines aside and writes both copies again.
func (s *Store) loadDamaged(ctx context.Context, one, two []byte) {
	s.reset()
	first, second := readCopy(one), readCopy(two)
	for _, l := range mend(first, second, s.o.Now()) {
		s.applyLine(l)
	}

	if s.alone {
		return // who works in that folder writes its record again
	}

	for i, lines := range [][]stored{first, second} {
		if err := s.setAside(ctx, i, lines); err != nil {
			s.o.Log.ErrorContext(ctx, "cannot save damaged lines of the record of outside files", "err", err)
		}
	}

	s.o.Log.ErrorContext(ctx, "the record of outside files is damaged", "meaning", s.damageMeans(), "file", s.o.Store.Where(s.names[0]))
}

func (s *Store) damageMeans() string {
	if s.hasLost() {
		return "files that were there before count as from outside until they are trusted"
	}
	return "its other copy has what is missing"
}

// setAside keeps the damaged lines of a copy.
func (s *Store) setAside(ctx context.Context, copied int, lines []stored) error {
	var damaged []byte
	for _, l := range lines {
		if l.damaged {
			damaged = append(append(damaged, l.raw...), '\n')
		}
	}

	if len(damaged) == 0 {
		return nil
	}
	return store.AppendLines(ctx, s.o.Store, s.names[copied]+suffixDamaged, damaged)
}

// hasLost reports whether a damaged line may have held a mark that is not known
// any more.
func (s *Store) hasLost() bool {
	return slices.ContainsFunc(s.past, func(w window) bool { return w.lost })
}

// lostSince is hasLost for lines after the latest word about a path.
func (s *Store) lostSince(last entry) bool {
	return slices.ContainsFunc(s.past, func(w window) bool { return w.lost && w.seq > last.seq })
}
