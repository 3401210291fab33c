package origin

import (
	"crypto/sha256"
	"errors"
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
	verdicts, err := s.announce(files)
	if err != nil {
		return err
	}
	if err := put(); err != nil {
		return err // what was to be marked stays marked
	}

	for i, w := range files {
		switch verdicts[i] {
		case fromOutside:
			err = errors.Join(err, s.Mark(w.Path))
		case fromOwner:
			err = errors.Join(err, s.vouched(w))
		case undecided: // the end of a command decides
		}
	}
	return err
}

// announce decides where contents come from and records it before they are written.
func (s *Store) announce(files []Written) ([]verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(); err != nil {
		return nil, err
	}

	verdicts := make([]verdict, len(files))
	var lines []line
	for i, w := range files {
		verdicts[i] = s.sourceOf(w)
		switch verdicts[i] {
		case fromOutside: // what is there now may be the owner's: its content is not marked
			lines = append(lines, line{Op: opMark, Path: s.name(w.Path)})
		case fromOwner:
			lines = append(lines, s.ownWord(w)...)
		case undecided:
		}
	}
	return verdicts, s.append(lines...)
}

// sourceOf decides where a content comes from that is about to be written.
func (s *Store) sourceOf(w Written) verdict {
	if slices.ContainsFunc(append([][]byte{w.Data}, w.From...), s.isOutside) {
		return fromOutside
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
func (s *Store) isOutside(data []byte) bool {
	if len(data) < minSum {
		return false
	}
	sum := sha256.Sum256(data)
	return !s.trusts.has(sum) && slices.ContainsFunc(s.records(), func(r *Store) bool { return r.sums[sum] })
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

// ownWord is the owner's word about a content, needed while commands run: they
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
