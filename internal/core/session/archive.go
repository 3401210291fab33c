package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

const (
	dirArchive = "archive"
	suffixTemp = ".tmp"
)

// Clear starts the conversation afresh. The old log goes to the archive
// directory under a name that is still free; metadata stays, except what was
// said about the messages. At every moment the log is the old or the new one.
func (s *Session) Clear() error {
	return s.do(func() error {
		if s.j.size == 0 {
			return nil
		}
		if s.memory {
			return errNoFile
		}
		if s.broken != nil {
			return s.broken
		}

		s.carryInbound(s.j.recs, nil)
		m := s.j.meta
		m.values = maps.Clone(m.values)
		for _, k := range []string{keyCheckpoint, keyPendingUser, keySummary, keyLastUsage} {
			delete(m.values, k)
		}

		if _, own := m.values[keyTitled]; !own {
			delete(m.values, TitleKey) // it was made of the first words
		}

		m.open = nil
		m.consolidated = 0
		m.created = ""
		fresh := &journal{key: s.j.key, name: s.j.name, log: s.j.log}
		b := &batch{j: fresh, now: s.store.opt.Now()}
		b.metadata(m)
		if err := s.archive(s.j.size); err != nil {
			return err
		}
		return s.replace(b)
	})
}

// Compact moves what lies before the live part to the archive directory and
// rewrites the log with the rest, whose lines are copied as they are. Message
// indices begin again at the first live message. Release does it by itself for
// a log that is mostly dead weight.
func (s *Session) Compact() error { return s.do(s.compact) }

// wasteful reports whether more than half of a large log is dead.
func (s *Session) wasteful() bool {
	dead := s.j.liveOffset(s.j.size)
	return s.broken == nil && s.j.size > 0 && dead > s.store.opt.CompactBytes && dead > s.j.size/2
}

func (s *Session) compact() error {
	if s.j.first == 0 {
		return nil
	}
	if s.memory {
		return errNoFile
	}
	if s.broken != nil {
		return s.broken
	}

	b, err := s.rewrite()
	if err != nil {
		return err
	}
	if err := s.archive(s.j.liveOffset(s.j.size)); err != nil {
		return err
	}
	return s.replace(b)
}

// rewrite returns the log without its dead part.
func (s *Session) rewrite() (*batch, error) {
	from := s.j.liveOffset(s.j.size)
	fresh := &journal{key: s.j.key, name: s.j.name, log: s.j.log}
	m := s.j.meta
	m.consolidated = max(0, m.consolidated-s.j.first)
	b := &batch{j: fresh, now: s.store.opt.Now()}
	b.metadata(m)
	// The metadata lines inside the live part stay behind, because they describe
	// the old file, except that what they note about turns is written again; the
	// new one ends in one that describes it.
	var offsets []int64
	for line, err := range store.Lines(s.j.log, from, s.j.size) {
		if err != nil {
			return nil, err
		}

		if mayBeMetadata(line.Bytes) {
			if old, kind := parseMetadata(line.Bytes); kind == "metadata" {
				if old.ended != nil {
					note := m
					note.ended, note.open = old.ended, nil
					b.recs, b.offsets = s.j.recs[:len(offsets)], offsets
					b.metadata(note)
				}
				continue
			}
		}

		if n := len(offsets); n < len(s.j.offsets) && s.j.offsets[n] == line.Offset {
			offsets = append(offsets, b.next())
		}
		b.buf = append(append(b.buf, line.Bytes...), '\n')
	}

	b.recs, b.offsets = s.j.recs, offsets
	if len(b.recs) != len(b.offsets) {
		return nil, fmt.Errorf("compact: %d live messages, %d found", len(b.recs), len(b.offsets))
	}

	b.metadata(m)
	return b, nil
}

// replace makes a batch the whole log.
func (s *Session) replace(b *batch) error {
	ctx := context.Background()
	if err := s.j.log.Replace(ctx, s.j.size, b.buf); err != nil {
		return err
	}

	b.commit()
	fresh := b.j
	fresh.bytesRead = s.j.bytesRead
	if fresh.recordState(ctx) != nil {
		fresh.seen = store.Cursor{} // makes the next owner read the log
	}

	*s.j = *fresh
	s.synced = s.written
	return nil
}

// Delete moves a conversation to the archive directory.
func (st *Store) Delete(ctx context.Context, key string) error {
	s, err := st.Acquire(ctx, key)
	if err != nil {
		return err
	}

	err = s.do(func() error {
		if s.j.size == 0 {
			return ErrNotFound
		}
		if err := s.archive(s.j.size); err != nil {
			return err
		}
		if err := st.state.Remove(ctx, s.j.name); err != nil {
			return err
		}

		s.j.reset()
		return nil
	})
	return errors.Join(err, s.Release())
}

// archive gives the first n bytes of the log the first numbered name in the
// archive that is free, or holds the same already because a crash came after
// this step last time.
func (s *Session) archive(n int64) error {
	base := dirArchive + "/" + strings.TrimSuffix(s.j.name, suffixLog)
	for i := 1; ; i++ {
		err := s.store.state.Archive(context.Background(), s.j.name, base+"."+strconv.Itoa(i)+suffixLog, n)
		if !errors.Is(err, store.ErrExists) {
			return err
		}
	}
}

// writeTemp writes a whole file and syncs it, over what a crash left there.
func writeTemp(path string, src io.Reader) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return diskio.CopyFile(path, src, 0o600)
}
