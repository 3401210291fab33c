// Package session hides how conversations are kept on disk so that nothing is
// lost when the process dies at any point. A Store hands out one Session per
// key at a time, across goroutines and processes; a Session is an append-only
// JSONL log of which only the live part (what can still be sent to a model) is
// held in memory. A turn is bracketed by BeginTurn and EndTurn; every message
// is appended the moment it exists, there is no separate checkpoint, and
// Recover closes a turn whose process died by looking at the end of the log.
//
// The line format is the one of the Python generations: their files are
// imported on first use and they can read ours.
//
// A Store is safe for concurrent use. The methods of a Session are, too, until
// Release, after which they fail with errReleased.
package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// errReleased says that a Session was used after Release.
var errReleased = errors.New("the session was released")

// Session is the exclusive use of one conversation between Acquire and Release.
type Session struct {
	store *Store
	slot  *slot

	mu      sync.Mutex
	j       *journal // nil once released
	written uint64   // batches written
	synced  uint64   // of those known to be durable
	broken  error    // a write or sync failed; nothing more is written
	memory  bool     // there is no file: see Ephemeral
	note    []byte   // of the open turn, see Note
}

// Key returns the conversation's key.
func (s *Session) Key() string { return s.slot.key }

// Messages returns the live part of the conversation, oldest first. The slice and
// what it points to must not be changed; later appends do not show in it.
func (s *Session) Messages() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.j == nil {
		return nil
	}
	return slices.Clip(s.j.recs)
}

// Len returns the number of messages ever stored in the current log, the ones
// before the live part included. Messages()[0] has index Len()-len(Messages()).
func (s *Session) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.j == nil {
		return 0
	}
	return s.j.count()
}

// Created and Updated say when the conversation began and last changed; zero
// for one that is not stored yet.
func (s *Session) Created() time.Time {
	return s.metaTime(func(m metadata) string { return m.created })
}

// Updated is documented with Created.
func (s *Session) Updated() time.Time {
	return s.metaTime(func(m metadata) string { return m.updated })
}

func (s *Session) metaTime(pick func(metadata) string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.j == nil {
		return time.Time{}
	}
	t, _ := parseTime(pick(s.j.meta))
	return t
}

// OpenTurn returns the turn that was begun and not ended, nil when there is none.
// Right after Acquire it is a turn whose owner died or gave up.
func (s *Session) OpenTurn() *OpenTurn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.j == nil {
		return nil
	}
	return s.j.meta.open
}

// Meta reads a metadata value into v and reports whether it was there and fit.
func (s *Session) Meta(key string, v any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.j == nil {
		return false
	}
	raw, ok := s.j.meta.values[key]
	return ok && json.Unmarshal(raw, v) == nil
}

// SetMeta changes a metadata value; nil removes it. It reaches the disk with
// the next BeginTurn, Append, EndTurn, SaveMeta or Release.
func (s *Session) SetMeta(key string, v any) error {
	switch key {
	case keyOpenTurn, keyReplay, keyInbound, keyTurn:
		return fmt.Errorf("the metadata key %q belongs to the log", key)
	}

	var raw bytes.Buffer
	if v != nil {
		enc := json.NewEncoder(&raw)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("metadata %q: %w", key, err)
		}
	}

	return s.do(func() error {
		s.j.meta.values = maps.Clone(s.j.meta.values)
		if v == nil {
			delete(s.j.meta.values, key)
		} else {
			if s.j.meta.values == nil {
				s.j.meta.values = map[string]json.RawMessage{}
			}
			s.j.meta.values[key] = bytes.TrimSpace(raw.Bytes())
		}

		s.j.dirty = true
		return nil
	})
}

// SaveMeta writes changed metadata now.
func (s *Session) SaveMeta() error {
	return s.do(s.saveMeta)
}

func (s *Session) saveMeta() error {
	if !s.j.dirty {
		return nil
	}
	b := s.batch("")
	b.metadata(s.j.meta)
	if err := s.write(b); err != nil {
		return err
	}
	return s.syncIf(FsyncAlways)
}

// LastConsolidated returns the number of messages, from the beginning of the log,
// that memory has taken in.
func (s *Session) LastConsolidated() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.j == nil {
		return 0
	}
	return min(s.j.meta.consolidated, s.j.count())
}

// SetLastConsolidated moves the cursor of LastConsolidated; it reaches the
// disk like SetMeta.
func (s *Session) SetLastConsolidated(n int) error {
	return s.do(func() error {
		if n < 0 || n > s.j.count() {
			return fmt.Errorf("consolidated cursor %d is not in 0..%d", n, s.j.count())
		}
		s.j.dirty = s.j.dirty || n != s.j.meta.consolidated
		s.j.meta.consolidated = n
		return nil
	})
}

// SetReplay drops the messages before index, counted from the beginning of the
// log, out of the live part for good; the log keeps them. index lies between
// the current beginning and Len. It reaches the disk like SetMeta.
func (s *Session) SetReplay(index int) error {
	return s.do(func() error {
		if index < s.j.first || index > s.j.count() {
			return fmt.Errorf("replay index %d is not in %d..%d", index, s.j.first, s.j.count())
		}
		if index == s.j.first {
			return nil
		}

		s.carryInbound(s.j.recs[:index-s.j.first], s.j.recs[index-s.j.first:])
		s.j.drop(index - s.j.first)
		s.j.dirty = true
		return nil
	})
}

// Append stores records in one write. Under FsyncAlways it also syncs.
func (s *Session) Append(recs ...Record) error {
	if len(recs) == 0 {
		return nil
	}
	return s.do(func() error {
		b := s.batch("")
		if s.j.dirty || s.j.size == 0 || s.j.size-s.j.metaEnd > metadataEvery {
			b.metadata(s.j.meta)
		}

		if err := b.records(recs); err != nil {
			return err
		}
		if err := s.write(b); err != nil {
			return err
		}
		return s.syncIf(FsyncAlways)
	})
}

// BeginTurn stores the mark of an open turn and the records that start it (the
// user's message) in one write. The caller calls Sync, beside the first model
// request, so that the request does not wait for the disk. An earlier turn that
// was never ended is recovered first, as Recover(nil) does.
func (s *Session) BeginTurn(id string, recs ...Record) error {
	return s.do(func() error { return s.beginTurn(id, recs) })
}

func (s *Session) beginTurn(id string, recs []Record) error {
	if _, err := s.recover(nil); err != nil {
		return err
	}

	m := s.j.meta
	s.note = nil
	b := s.batch(id)
	m.open = &OpenTurn{ID: id, Started: b.now, PID: os.Getpid()}
	// The mark goes first: a torn write leaves a mark without a message,
	// which is nothing, rather than a message that is not known to be
	// unanswered.
	b.metadata(m)
	if err := b.records(recs); err != nil {
		return err
	}
	return s.write(b)
}

// EndTurn stores the last records of a turn and takes its mark away in one
// write, and syncs.
func (s *Session) EndTurn(recs ...Record) error {
	return s.do(func() error {
		b := s.batch("")
		if err := b.records(recs); err != nil {
			return err
		}

		m := s.j.meta
		m.open = nil
		m.ended, s.note = s.note, nil
		b.metadata(m)
		if err := s.write(b); err != nil {
			return err
		}
		return s.syncIf(FsyncAlways, FsyncTurn)
	})
}

// Sync makes everything appended so far durable, unless the policy is
// FsyncNever. It does not hold up appends that happen meanwhile.
func (s *Session) Sync(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}

	s.mu.Lock()
	target := s.written
	switch {
	case s.j == nil:
		s.mu.Unlock()
		return errReleased
	case s.broken != nil:
		s.mu.Unlock()
		return s.broken
	case s.memory || s.synced >= target || s.store.opt.Fsync == FsyncNever:
		s.mu.Unlock()
		return nil
	}

	log := s.j.log
	s.mu.Unlock()
	err := log.Sync(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.afterSync(target, err)
}

// SeenInbound reports whether a message with this inbound id was stored
// recently, so that a redelivery can be dropped.
func (s *Session) SeenInbound(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.j == nil || id == "" {
		return false
	}

	// A redelivery comes soon; looking at the newest records keeps this cheap
	// however long the conversation is.
	recent := s.j.recs[max(0, len(s.j.recs)-recentRecords):]
	return slices.ContainsFunc(recent, func(r Record) bool { return r.InboundID == id }) ||
		slices.Contains(s.carried(), id)
}

// do runs fn with the journal owned and not released.
func (s *Session) do(fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.j == nil {
		return errReleased
	}
	if err := fn(); err != nil {
		return fmt.Errorf("session %q: %w", s.slot.key, err)
	}
	return nil
}

// batch starts a batch of records of a turn, by default the open one.
func (s *Session) batch(turn string) *batch {
	if turn == "" && s.j.meta.open != nil {
		turn = s.j.meta.open.ID
	}
	return &batch{j: s.j, now: s.store.opt.Now(), turn: turn, secrets: s.store.opt.Secrets}
}

// syncIf syncs when the store's policy is one of those given.
func (s *Session) syncIf(policies ...Fsync) error {
	if !slices.Contains(policies, s.store.opt.Fsync) || s.memory || s.synced >= s.written {
		return nil
	}
	return s.afterSync(s.written, s.j.log.Sync(context.Background()))
}

// afterSync notes what became durable. After a failed sync the kernel may have
// dropped the pages, so nothing further can be promised about this file.
func (s *Session) afterSync(target uint64, err error) error {
	if err != nil {
		s.broken = err
		return err
	}
	s.synced = max(s.synced, target)
	return nil
}

// recentRecords bounds how far back SeenInbound looks.
const recentRecords = 2048

// carriedMax bounds the inbound ids kept of messages that left the live part.
const carriedMax = 16

func (s *Session) carried() []string {
	var ids []string
	if json.Unmarshal(s.j.meta.values[keyInbound], &ids) != nil {
		return nil
	}
	return ids
}

// carryInbound keeps the newest inbound ids of dropped records when those that
// stay are too few to recognise a redelivery.
func (s *Session) carryInbound(dropped, kept []Record) {
	ids := s.carried()
	for _, r := range dropped {
		if r.InboundID != "" {
			ids = append(ids, r.InboundID)
		}
	}

	room := carriedMax
	for _, r := range kept {
		if r.InboundID != "" {
			room--
		}
	}

	ids = ids[max(0, len(ids)-max(0, room)):]
	values := maps.Clone(s.j.meta.values)
	delete(values, keyInbound)

	if len(ids) > 0 {
		if values == nil {
			values = map[string]json.RawMessage{}
		}
		raw, err := json.Marshal(ids)
		if err != nil {
			return // strings always marshal
		}
		values[keyInbound] = raw
	}

	s.j.meta.values = values
}
