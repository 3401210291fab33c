package origin

import (
	"crypto/sha256"
	"errors"
	"os"
	"slices"
	"time"
)

// Written is a content that the program itself gives a file, at the owner's
// word or in work without content from outside.
type Written struct {
	Path string // absolute
	Data []byte
	// From are further contents that parts of Data were taken from, such as
	// earlier versions of the file.
	From [][]byte
	// Whole says that nothing of what the file holds until now is in Data.
	Whole bool
}

// Write lets put give files their contents, and records where these come from. A
// file from outside stays one, whatever is changed in it, and becomes one if
// its content is known from outside or was made of one that is. It is marked
// before put, so that the mark exists even if the process dies. Everything else
// is the owner's, also if a command runs meanwhile: that costs nothing as long
// as none does. Where the record cannot be kept, nothing is written.
func (s *Store) Write(files []Written, put func() error) error {
	said, err := s.announce(files)
	if err != nil {
		return err
	}
	if err := put(); err != nil {
		return errors.Join(err, s.retract(files, said)) // what was to be marked stays marked
	}

	for i, w := range files {
		switch said[i].verdict {
		case fromOutside:
			err = errors.Join(err, s.Mark(w.Path))
		case fromOwner:
			err = errors.Join(err, s.vouched(w))
		case undecided: // the end of a command decides
		}
	}

	return err
}

// said is what was recorded about a file before it is written.
type said struct {
	verdict verdict
	before  entry // the word about it until then
}

// announce decides where contents come from and records it before they are written.
func (s *Store) announce(files []Written) ([]said, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return nil, err
	}

	records := s.records()
	out := make([]said, len(files))
	var lines []line
	for i, w := range files {
		out[i] = said{verdict: s.sourceOf(w, records), before: s.entries[s.name(w.Path)]}
		switch out[i].verdict {
		case fromOutside: // what is there now may be the owner's: its content is not marked
			lines = append(lines, line{Op: opMark, Path: s.name(w.Path)})
		case fromOwner:
			lines = append(lines, s.ownWord(w)...)
		case undecided:
		}
	}

	return out, s.append(lines...)
}

// retract says again what was the owner's word about files that were not written.
func (s *Store) retract(files []Written, before []said) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	var lines []line
	for i, w := range files {
		last := before[i].before
		if before[i].verdict == fromOwner && vouches(last, last.sum) {
			lines = append(lines, line{Op: opTrust, Path: s.name(w.Path), Sum: last.sum[:], Size: last.size})
		}
	}
	return s.append(lines...)
}

// sourceOf decides where a content comes from that is about to be written. records
// are those of all workspaces.
func (s *Store) sourceOf(w Written, records []*Store) verdict {
	for _, data := range append([][]byte{w.Data}, w.From...) {
		if s.isOutside(data, records) {
			return fromOutside
		}
	}

	changed, err := changeTime(w.Path)
	switch {
	case err != nil, w.Whole: // nothing of it is in the new content
		return fromOwner
	case s.foreign(w.Path):
		return fromOutside
	case s.mayBeWritten(w.Path, changed):
		return undecided
	}

	return fromOwner
}

// isOutside reports whether a content was seen in a file from outside. It is
// not asked about contents that many files have.
func (s *Store) isOutside(data []byte, records []*Store) bool {
	if len(data) < minSum {
		return false
	}
	sum := sha256.Sum256(data)
	return !s.trusts.has(sum) && slices.ContainsFunc(records, func(r *Store) bool { return r.sums[sum] })
}

// mayBeWritten reports whether a file was last changed by a command that runs and
// is clean so far. Its end decides about the file.
func (s *Store) mayBeWritten(abs string, changed time.Time) bool {
	name := s.name(abs)
	if isOwn(abs, s.lookup(name)) {
		return false
	}

	sealed := s.sealed(name)
	for _, w := range s.windows {
		if (!sealed || w.unsealed) && w.sees(name) && w.covers(changed) {
			return true
		}
	}
	return false
}

// ownWord returns the owner's word about a content, needed while commands run: they
// may be taken for its author. It does not end a mark that the path has.
func (s *Store) ownWord(w Written) []line {
	name := s.name(w.Path)
	if len(s.windows) == 0 || s.lookup(name).foreign {
		return nil
	}
	sum := sha256.Sum256(w.Data)
	return []line{{Op: opTrust, Path: name, Sum: sum[:], Size: int64(len(w.Data))}}
}

// vouched records that a content of the owner was written. A command may have
// started since Write announced it.
func (s *Store) vouched(w Written) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return err
	}

	s.justWrote(w.Path)
	if vouches(s.entries[s.name(w.Path)], sha256.Sum256(w.Data)) {
		return nil
	}
	return s.append(s.ownWord(w)...)
}

// Copying records that what a file holds is about to be kept elsewhere, such as
// in a history of its versions. A content from outside is known as such then,
// also when the file holds another one.
func (s *Store) Copying(abs string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if err := s.follow(); err != nil {
		return err
	}

	sum := sha256.Sum256(data)
	if len(data) == 0 || s.known.has(sum) || !s.foreign(abs) {
		return nil
	}

	k := identity{sum: sum, size: int64(len(data))}
	if info, err := os.Lstat(abs); err == nil {
		k.changed = changeTimeOf(info)
	}
	return s.append(packedLines(opMark, k.pack(nil))...)
}
