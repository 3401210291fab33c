package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/diskio"
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
		m.open, m.consolidated, m.created = nil, 0, ""
		fresh := &journal{key: s.j.key, path: s.j.path, sync: s.j.sync}
		b := &batch{j: fresh, now: s.store.opt.Now()}
		b.metadata(m)
		tmp := fresh.path + suffixTemp
		if err := writeTemp(tmp, bytes.NewReader(b.buf)); err != nil {
			return err
		}
		if err := s.close(); err != nil {
			return err
		}
		if err := archiveWhole(fresh.path); err != nil {
			return err
		}
		if err := diskio.Replace(tmp, fresh.path); err != nil {
			return err
		}
		b.commit()
		s.adopt(fresh)
		return nil
	})
}

// Compact moves what lies before the live part to the archive directory and
// rewrites the log with the rest, whose lines are copied as they are. Message
// indices begin anew at the first live message. Release does it by itself for
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
	if err := s.close(); err != nil {
		return err
	}
	f, err := os.Open(s.j.path)
	if err != nil {
		return err
	}
	fresh, err := s.rewrite(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := diskio.Replace(fresh.path+suffixTemp, fresh.path); err != nil {
		return err
	}
	s.adopt(fresh)
	return nil
}

// rewrite archives the dead part of f and writes the live part beside it.
func (s *Session) rewrite(f *os.File) (*journal, error) {
	from := s.j.liveOffset(s.j.size)
	if err := archivePart(s.j.path, f, from); err != nil {
		return nil, err
	}
	fresh := &journal{key: s.j.key, path: s.j.path, sync: s.j.sync}
	m := s.j.meta
	m.consolidated = max(0, m.consolidated-s.j.first)
	b := &batch{j: fresh, now: s.store.opt.Now()}
	b.metadata(m)
	// The metadata lines inside the live part stay behind, because they describe
	// the old file; the new one ends in one that describes it.
	var offsets []int64
	for line, err := range diskio.Lines(io.NewSectionReader(f, from, s.j.size-from), from) {
		if err != nil {
			return nil, err
		}
		if mayBeMetadata(line.Bytes) {
			if _, kind := parseMetadata(line.Bytes); kind == "metadata" {
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
	if err := writeTemp(fresh.path+suffixTemp, bytes.NewReader(b.buf)); err != nil {
		return nil, err
	}
	b.commit()
	return fresh, nil
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
		if err := s.close(); err != nil {
			return err
		}
		if err := archiveWhole(s.j.path); err != nil {
			return err
		}
		if err := os.Remove(s.j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.j.reset()
		return diskio.SyncDir(st.dir)
	})
	return errors.Join(err, s.Release())
}

func (s *Session) close() error {
	var err error
	for _, f := range []**os.File{&s.f, &s.slot.f} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}

// adopt makes a freshly written and durable log the session's own.
func (s *Session) adopt(fresh *journal) {
	fresh.bytesRead = s.j.bytesRead
	fresh.seen, _ = os.Stat(fresh.path) // nil makes the next owner read the file
	*s.j = *fresh
	s.synced, s.created = s.written, false
}

// archiveWhole gives a log a second name in the archive, or moves it there
// where the file system knows no links.
func archiveWhole(path string) error {
	old, err := os.Stat(path)
	if err != nil {
		return err
	}
	target, err := archiveSlot(path, func(fi os.FileInfo, _ string) (bool, error) { return os.SameFile(fi, old), nil })
	if err != nil {
		return err
	}
	if _, err := os.Lstat(target); err == nil {
		return nil // a crash came between the link and what follows it
	}
	if err := os.Link(path, target); err != nil {
		if err := os.Rename(path, target); err != nil {
			return err
		}
	}
	return diskio.SyncDir(filepath.Dir(target))
}

// archivePart copies the first n bytes of a log to the archive.
func archivePart(path string, f *os.File, n int64) error {
	target, err := archiveSlot(path, func(fi os.FileInfo, name string) (bool, error) {
		if fi.Size() != n {
			return false, nil
		}
		return sameContent(name, io.NewSectionReader(f, 0, n))
	})
	if err != nil {
		return err
	}
	if _, err := os.Lstat(target); err == nil {
		return nil // a crash came after this step last time
	}
	if err := writeTemp(target+suffixTemp, io.NewSectionReader(f, 0, n)); err != nil {
		return err
	}
	return diskio.Replace(target+suffixTemp, target)
}

// archiveSlot is the first numbered name that is free, or holds the same already.
func archiveSlot(path string, same func(fi os.FileInfo, name string) (bool, error)) (string, error) {
	dir := filepath.Join(filepath.Dir(path), dirArchive)
	if err := diskio.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	base := filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), suffixLog))
	for n := 1; ; n++ {
		name := base + "." + strconv.Itoa(n) + suffixLog
		fi, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		if ok, err := same(fi, name); err != nil || ok {
			return name, err
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
