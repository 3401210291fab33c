package origin

import (
	"errors"
	"slices"
	"time"
)

// Says says what the record said about a content when it was taken from a
// file.
type Says string

// What a record can say.
const (
	Unasked Says = ""        // taken by a version that did not ask
	Outside Says = "outside" // it came from outside
	Owned   Says = "owned"   // the program wrote it in clean work, or the owner trusted it
	Silent  Says = "silent"  // nothing; a command that was running then may still turn out to have written it
)

// Kept is a content that was taken from a file, to be put back later.
type Kept struct {
	Sum  [32]byte // zero: it is not that of a file
	Size int64
	Says Says
	At   time.Time // when the file had changed last; zero is not known
}

// Asks is a file whose content is taken.
type Asks struct {
	Path string // absolute
	Sum  [32]byte
}

// Ask reports what the record says about files with these contents. It is
// called after the contents were read, so that what changes in between counts
// for them.
func (s *Store) Ask(files []Asks) ([]Says, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return nil, err
	}
	if len(s.entries) == 0 && len(s.windows) == 0 && !s.hasOutside() {
		return slices.Repeat([]Says{Silent}, len(files)), nil
	}

	out := make([]Says, len(files))
	for i, f := range files {
		out[i] = s.says(f)
	}
	return out, nil
}

func (s *Store) says(f Asks) Says {
	last := s.entries[s.name(f.Path)]
	switch {
	case s.foreign(f.Path):
		return Outside
	case vouches(last, f.Sum):
		return Owned
	}
	return Silent
}

// vouches reports whether an entry is the owner's word about this very content.
func vouches(e entry, sum [32]byte) bool {
	return e.seq > 0 && !e.foreign && sum != [32]byte{} && e.sum == sum
}

// Restore puts a content back to a path, and what is known about the content
// with it: content from outside is marked before and after, so that the mark
// exists even if the process dies; the owner's own loses a mark that the path
// got meanwhile. put does the work and may be called once. Where the record
// cannot be kept, nothing is put back.
func (s *Store) Restore(abs string, k Kept, put func() error) error {
	verdict, err := s.judge(abs, k)
	if err != nil {
		return err
	}

	if verdict != fromOutside {
		if err := put(); err != nil {
			return err
		}
		return s.restored(abs, k, verdict)
	}

	// What is there now may be the owner's: its content must not be marked.
	s.mu.Lock()
	err = s.append(line{Op: opMark, Path: s.name(abs)})
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return errors.Join(put(), s.Mark(abs))
}

// Copied says that the files of the workspace are copies now, as a backup puts
// them back: commands that were running wrote none of these, and the named ones
// came from outside.
func (s *Store) Copied(outside []string) error {
	s.mu.Lock()
	err := s.follow()
	var lines []line
	for id := range s.windows {
		lines = append(lines, line{Op: opDrop, ID: id})
	}

	if err == nil && len(lines) > 0 {
		err = s.append(lines...)
	}

	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Mark(outside...)
}

// verdict is where a content comes from, decided when it is put back.
type verdict int

const (
	fromOutside verdict = iota
	fromOwner
	undecided // a command is running that may turn out to have written it
)

// judge decides where a content comes from. What was said when it was taken
// counts, and what became known since: which commands had brought something,
// which contents are marked, and what the owner trusted.
func (s *Store) judge(abs string, k Kept) (verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return fromOutside, err
	}

	name := s.name(abs)
	switch {
	case vouches(s.entries[name], k.Sum) && !s.lostSince(s.entries[name]):
		return fromOwner, nil // trusted since it was taken
	case k.Says == Outside:
		return fromOutside, nil
	case k.Says == Owned:
		return fromOwner, nil
	case s.known.copies(k):
		return fromOutside, nil
	case k.Says == Unasked && s.hasOutside():
		return fromOutside, nil
	case k.At.IsZero() && s.hasLost():
		return fromOutside, nil
	case k.At.IsZero() || len(s.windows) == 0 && len(s.past) == 0:
		return fromOwner, nil
	}

	sealed := s.sealed(name)
	for i := range s.past {
		if s.past[i].reaches(name, sealed) && s.past[i].covers(k.At) {
			return fromOutside, nil
		}
	}

	found := fromOwner
	for id, w := range s.windows {
		switch {
		case sealed && !w.unsealed, !w.sees(name), !w.covers(k.At):
		case s.counts(id):
			return fromOutside, nil
		default:
			found = undecided
		}
	}

	return found, nil
}

// hasOutside reports whether anything from outside was ever recorded here.
func (s *Store) hasOutside() bool {
	if s.unwalked || len(s.past) > 0 || !s.known.empty() {
		return true
	}

	for id := range s.windows {
		if s.counts(id) {
			return true
		}
	}

	for _, e := range s.entries {
		if e.foreign {
			return true
		}
	}
	return false
}

// restored records that a content which is not from outside was put back. Like
// Wrote, it costs nothing as long as no record about the file exists.
func (s *Store) restored(abs string, k Kept, v verdict) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return err
	}

	s.justWrote(abs)
	if v == undecided { // the end of that command decides
		return nil
	}

	name := s.name(abs)
	last := s.lookup(name)
	if len(s.windows) == 0 && !last.foreign && !s.isKnown(abs, last) {
		return nil
	}

	l := line{Op: opTrust, Path: name, Size: k.Size}
	if k.Sum != ([32]byte{}) {
		l.Sum = k.Sum[:]
	}

	if err := s.append(l); err != nil {
		return err
	}
	// A command may have put something else there before this was recorded.
	if sum, _, err := sumOf(abs); err == nil && sum != k.Sum {
		return s.append(line{Op: opMark, Path: name})
	}
	return nil
}

// copies reports whether a content that was kept may be a copy of a known one: it
// was there no earlier.
func (n *known) copies(k Kept) bool {
	seen, ok := n.contents[k.Sum]
	return ok && k.Size > 0 && (k.At.IsZero() || !k.At.Before(seen.since))
}
