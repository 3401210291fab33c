package session

import (
	"context"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// tailKept is how many bytes are remembered to recognise a log.
const tailKept = 128

// batch collects lines that go to the log in one write.
type batch struct {
	j       *journal
	now     time.Time
	turn    string
	secrets *httpsafe.Registry
	buf     []byte
	recs    []Record
	offsets []int64
	meta    *metadata // the last metadata line in the batch
	metaEnd int64
}

// next returns the offset of the line that is added next.
func (b *batch) next() int64 { return b.j.size + int64(len(b.buf)) }

func (b *batch) records(recs []Record) error {
	for _, r := range recs {
		if r.Time.IsZero() {
			r.Time = b.now
		}
		if r.TurnID == "" {
			r.TurnID = b.turn
		}

		r = r.redacted(b.secrets)
		at := b.next()
		buf, err := r.appendLine(b.buf)
		if err != nil {
			return err
		}

		b.buf = append(store.Seal(buf, len(b.buf)), '\n')
		b.recs = append(b.recs, r)
		b.offsets = append(b.offsets, at)
	}
	return nil
}

// metadata adds a metadata line that describes the log up to itself.
func (b *batch) metadata(m metadata) {
	at := b.next()
	m.key = b.j.key
	if m.created == "" {
		m.created = string(appendTime(nil, b.now))
	}

	m.updated = string(appendTime(nil, b.now))
	m.replay = &replay{Index: b.j.first, Count: b.j.count() + len(b.recs), At: at, Offset: at}
	if o := slices.Concat(b.j.offsets[:min(1, len(b.j.offsets))], b.offsets); len(o) > 0 {
		m.replay.Offset = o[0]
	}

	b.buf = append(store.Seal(m.appendLine(b.buf), len(b.buf)), '\n')
	b.meta, b.metaEnd = &m, b.next()
}

// commit tells the journal that the batch is in the file.
func (b *batch) commit() {
	j := b.j
	j.size = b.next()
	j.recs = append(j.recs, b.recs...)
	j.offsets = append(j.offsets, b.offsets...)

	if b.meta != nil {
		j.meta = *b.meta
		j.metaEnd = b.metaEnd
		j.dirty = false
		j.meta.ended = nil // only that line has it
	}

	j.seen.At, j.seen.Tail = j.size, slices.Clone(b.buf[max(0, len(b.buf)-tailKept):])
}

// write sends the batch to the session's file and takes it over.
func (s *Session) write(b *batch) error {
	if s.broken != nil {
		return s.broken
	}
	if s.memory {
		b.commit()
		return nil
	}
	if err := s.j.log.Append(context.Background(), s.j.size, b.buf, false); err != nil {
		s.broken = err // the next Acquire reads the log again and repairs it
		return err
	}

	b.commit()
	s.written++
	return nil
}
