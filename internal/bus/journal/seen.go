package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

const seenFor = 7 * 24 * time.Hour

// seen remembers ids against duplicates, as 64 bits of their hash, the newest
// max ones and none for longer than a week. New ones are in the journal until
// it is rewritten; then they go into a file of lines
//
//	{"at":MS,"seen":"16 hex digits per id"}
//
// All methods but store are called under Journal.mu.
type seen struct {
	log   store.Log
	max   int
	known keySet
	order []seenID // oldest first
	fresh int      // how many at the end of order are not in the file
	lines int      // ids in the file, also forgotten ones
}

type seenID struct {
	key uint64
	at  int64 // ms
}

// flushed is a piece of the file to be written.
type flushed struct {
	data  []byte
	fresh int  // ids in it
	whole bool // it replaces the file
}

func newSeen(ctx context.Context, st store.Store, limit int) (seen, error) {
	l, err := st.Log(ctx, nameSeen)
	return seen{log: l, max: limit}, err
}

func inKey(id string) uint64  { return hash('i', id) }
func outKey(id string) uint64 { return hash('o', id) }

func hash(kind byte, id string) uint64 {
	sum := sha256.Sum256(append([]byte{kind}, id...))
	return binary.BigEndian.Uint64(sum[:8])
}

func (s *seen) has(key uint64) bool { return s.known.has(key) }

func (s *seen) add(key uint64, at time.Time) {
	if s.has(key) {
		return
	}
	s.known.add(key)
	s.order = append(s.order, seenID{key, at.UnixMilli()})
	s.fresh++
	if len(s.order) > s.max+s.max/4 { // seldom, so that it costs little per id
		s.forget(len(s.order) - s.max)
	}
}

func (s *seen) forget(n int) {
	if n <= 0 {
		return
	}
	s.order = append(s.order[:0], s.order[n:]...)
	s.fresh = min(s.fresh, len(s.order))
	s.known = newKeySet(len(s.order))
	for _, id := range s.order {
		s.known.add(id.key)
	}
}

// flush forgets what is too old and gives what is not in the file.
func (s *seen) flush(now time.Time) flushed {
	n, limit := 0, now.Add(-seenFor).UnixMilli()
	for n < len(s.order) && s.order[n].at < limit {
		n++
	}

	s.forget(max(n, len(s.order)-s.max))
	ids, whole := s.order[len(s.order)-s.fresh:], false
	if s.lines+s.fresh > 2*s.max {
		ids, whole = s.order, true
	}
	return flushed{data: seenLines(ids), fresh: len(ids), whole: whole}
}

// seenLines puts ids of one hour into one line.
func seenLines(ids []seenID) []byte {
	var b bytes.Buffer
	const hour = int64(time.Hour / time.Millisecond)
	for i, id := range ids {
		if i == 0 || id.at/hour != ids[i-1].at/hour {
			if i > 0 {
				b.WriteString("\"}\n")
			}
			fmt.Fprintf(&b, `{"at":%d,"seen":"`, id.at)
		}

		var key [8]byte
		binary.BigEndian.PutUint64(key[:], id.key)
		b.Write(hex.AppendEncode(b.AvailableBuffer(), key[:]))
	}

	if len(ids) > 0 {
		b.WriteString("\"}\n")
	}
	return b.Bytes()
}

// store writes what flush gave, on the disk before the journal forgets it.
func (s *seen) store(ctx context.Context, fl flushed) error {
	if fl.fresh == 0 {
		return nil
	}
	if fl.whole {
		return s.log.Replace(ctx, -1, fl.data)
	}

	info, err := s.log.Info(ctx)
	if err != nil {
		return err
	}
	return s.log.Append(ctx, info.Size, fl.data, true)
}

// stored counts what store has written.
func (s *seen) stored(fl flushed) {
	s.fresh = 0
	if fl.whole {
		s.lines = 0
	}
	s.lines += fl.fresh
}

func (s *seen) load(ctx context.Context, now time.Time) error {
	_, data, err := readAll(ctx, s.log)
	if err != nil || data == nil {
		return err
	}

	s.known = newKeySet(min(len(data)/16, s.max+s.max/4))
	limit := now.Add(-seenFor)
	for raw := range bytes.Lines(data) {
		at, keys, ok := scanSeen(raw)
		if !ok {
			continue // torn by a crash; its ids were still in the journal then
		}

		s.lines += len(keys) / 8
		if at.Before(limit) {
			continue
		}

		s.order = slices.Grow(s.order, len(keys)/8)
		for ; len(keys) >= 8; keys = keys[8:] {
			s.add(binary.BigEndian.Uint64(keys), at)
		}
	}

	s.fresh = 0
	return nil
}

func scanSeen(raw []byte) (at time.Time, keys []byte, ok bool) {
	s := scanner{rest: bytes.TrimRight(raw, "\n"), ok: true}
	s.lit(`{"at":`)
	ms := s.num()
	s.lit(`,"seen":"`)
	digits := s.tail()
	if !s.ok || len(digits) == 0 || digits[len(digits)-1] != '"' {
		return at, nil, false
	}

	digits = digits[:len(digits)-1]
	n, err := hex.Decode(digits, digits) // in place: the file was read for this
	return time.UnixMilli(ms), digits[:n], err == nil
}

// keySet is a set of hashes. They are spread evenly already, so that each is
// put at its own place or the next free one; at most half of the places are
// taken. Filling it is a part of every start of the program, which is why it
// is not a map.
type keySet struct {
	places []uint64 // 0 is free
	n      int
	zero   bool // the key 0 is in the set
}

func newKeySet(n int) keySet {
	size := 64
	for size < 2*n {
		size *= 2
	}
	return keySet{places: make([]uint64, size)}
}

// find returns the place of a key, or where it would go.
func (k *keySet) find(key uint64) int {
	i := int(key) & (len(k.places) - 1) //nolint:gosec // only the low bits count
	for k.places[i] != 0 && k.places[i] != key {
		i = (i + 1) & (len(k.places) - 1)
	}
	return i
}

func (k *keySet) has(key uint64) bool {
	if key == 0 {
		return k.zero
	}
	return len(k.places) > 0 && k.places[k.find(key)] != 0
}

func (k *keySet) add(key uint64) {
	if key == 0 {
		k.zero = true
		return
	}

	if 2*k.n >= len(k.places) {
		old := k.places
		*k = keySet{places: newKeySet(max(k.n+1, 32) * 2).places, zero: k.zero}
		for _, o := range old {
			if o != 0 {
				k.add(o)
			}
		}
	}

	if i := k.find(key); k.places[i] == 0 {
		k.places[i] = key
		k.n++
	}
}
