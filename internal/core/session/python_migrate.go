package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// kindGrown is the kind in Entry.Imported of the last look at the logs in a
// workspace; its time is that of the newest one.
const kindGrown = "grown"

// Unimported is a log in the workspace that holds more than the store.
type Unimported struct {
	File     string
	Key      string
	Messages int  // that would be added
	New      bool // the store has no conversation of this key
	// Apart logs have the key of a conversation here but do not go on where it
	// ended. They are not taken.
	Apart bool
	Last  string // the beginning of the last message

	name string // in the workspace
	sum  string
}

// Unimported lists the logs in the sessions folder of the workspace that hold more
// than the store has: conversations of another program, or what was put there
// by hand. Nothing of it is used before Take.
func (st *Store) Unimported(ctx context.Context) ([]Unimported, error) {
	tree, err := diskio.OpenTree(st.opt.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	defer tree.Close() //nolint:errcheck // only read from

	entries, err := tree.ReadDir(dirOld)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	var out []Unimported
	var errs []error
	for _, e := range entries {
		if filepath.Ext(e.Name()) != suffixLog || len(out) > maxOldFiles {
			continue
		}

		l := oldLog{tree: tree, name: dirOld + "/" + e.Name()}
		u, err := st.compare(ctx, l)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l, err))
			continue
		}

		if u.Messages > 0 {
			out = append(out, u)
		}
	}

	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out, errors.Join(errs...)
}

// Waiting lists what the next Open would take over, if first, or what Unimported
// lists. It changes nothing.
func Waiting(ctx context.Context, opt Options) (found []Unimported, first bool, err error) {
	place, seen, err := Find(opt.Store, opt.DataDir, opt.Workspace)
	if err != nil {
		return nil, false, err
	}

	st := &Store{opt: opt, place: place, dir: place.Dir(dirRoot), state: store.Under(opt.Store, dirRoot, place.ID), used: map[string]*slot{}}
	if seen && !place.Entry.Imported[kindSessions].IsZero() {
		found, err = st.Unimported(ctx)
		return found, false, err
	}

	logs, left, done, err := st.oldLogs()
	defer done()
	for _, l := range logs {
		f, err := l.tree.Open(l.name)
		if err != nil {
			left = append(left, err.Error())
			continue
		}

		theirs, err := recordsIn(io.LimitReader(f, maxOldBytes))
		if err := errors.Join(err, f.Close()); err != nil {
			left = append(left, err.Error())
		}
		found = append(found, Unimported{File: l.String(), Key: l.key, Messages: len(theirs), New: true})
	}

	if len(left) > 0 {
		err = errors.Join(err, errors.New(strings.Join(left, "; ")))
	}
	return found, true, err
}

// Grown returns what Unimported lists, if a log in the workspace was written
// since the last call; otherwise it only looks at the times of the files.
func Grown(ctx context.Context, st *Store) ([]Unimported, error) {
	tree, err := diskio.OpenTree(st.opt.Workspace)
	if err != nil {
		return nil, nil // without a workspace there is nothing to tell
	}

	defer tree.Close() //nolint:errcheck // only read from
	entries, err := tree.ReadDir(dirOld)
	if err != nil {
		return nil, nil // no folder, or none of ours
	}

	newest := st.place.Entry.Imported[kindGrown]
	for _, e := range entries {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == suffixLog && info.ModTime().After(newest) {
			newest = info.ModTime().UTC()
		}
	}

	if newest.Equal(st.place.Entry.Imported[kindGrown]) {
		return nil, nil
	}

	found, err := st.Unimported(ctx) // a file that cannot be read is not told of again, either
	return found, errors.Join(err, st.place.Update(func(r *Entry) error {
		if r.Imported == nil {
			r.Imported = map[string]time.Time{}
		}
		r.Imported[kindGrown] = newest
		return nil
	}))
}

// compare finds out what a log has more than the conversation of its key.
func (st *Store) compare(ctx context.Context, l oldLog) (Unimported, error) {
	l, err := l.inspect()
	if err != nil {
		return Unimported{}, err
	}

	f, err := l.tree.Open(l.name)
	if err != nil {
		return Unimported{}, err
	}

	defer f.Close() //nolint:errcheck // only read from

	sum := sha256.New()
	theirs, err := recordsIn(io.TeeReader(io.LimitReader(f, maxOldBytes), sum))
	if err != nil {
		return Unimported{}, err
	}

	u := Unimported{File: l.String(), Key: l.key, name: l.name, sum: hex.EncodeToString(sum.Sum(nil))}
	if n := len(theirs); n > 0 {
		u.Last = firstRunes(theirs[n-1].Display(), previewRunes)
	}

	ours, err := st.all(ctx, l.key)
	if errors.Is(err, ErrNotFound) {
		u.New, u.Messages = true, len(theirs)
		return u, nil
	}
	if err != nil {
		return Unimported{}, err
	}

	more, fits := goesOn(ours, theirs)
	u.Messages, u.Apart = len(more), !fits
	if !fits {
		u.Messages = len(theirs)
	}
	return u, nil
}

// all returns the messages of a conversation, archived ones not.
func (st *Store) all(ctx context.Context, key string) (out []Record, err error) {
	for r, err := range st.Records(ctx, key) {
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// recordsIn reads the messages of a log.
func recordsIn(r io.Reader) (out []Record, err error) {
	for line, err := range diskio.Lines(r, 0) {
		if err != nil {
			return nil, err
		}

		if mayBeMetadata(line.Bytes) {
			if _, kind := parseMetadata(line.Bytes); kind != "" {
				continue
			}
		}

		var rec Record
		if rec.UnmarshalJSON(line.Bytes) == nil {
			out = append(out, rec)
		}
	}
	return out, nil
}

// goesOn returns what theirs has behind the end of ours. Either may lack the
// beginning of the other; fits is false when they have nothing in common, or
// something different.
func goesOn(ours, theirs []Record) (more []Record, fits bool) {
	if len(ours) == 0 {
		return theirs, true
	}

	for end := len(theirs); end > 0; end-- {
		n := min(len(ours), end)
		if slices.EqualFunc(ours[len(ours)-n:], theirs[end-n:end], sameMessage) {
			return theirs[end:], true
		}
	}

	// An older state of ours has nothing more.
	for end := len(ours); end > 0; end-- {
		n := min(len(theirs), end)
		if slices.EqualFunc(theirs[len(theirs)-n:], ours[end-n:end], sameMessage) {
			return nil, true
		}
	}
	return nil, len(theirs) == 0
}

// sameMessage compares what was said; programs add and drop other keys.
func sameMessage(a, b Record) bool {
	if a.Role != b.Role || a.ToolCallID != b.ToolCallID || len(a.ToolCalls) != len(b.ToolCalls) || a.Content.String() != b.Content.String() {
		return false
	}
	for i := range a.ToolCalls {
		if a.ToolCalls[i].ID != b.ToolCalls[i].ID {
			return false
		}
	}
	return true
}

// Import adds what Unimported showed to the conversation, or makes one of it. A log
// that was changed since is not imported. The file stays where it is.
func (st *Store) Import(ctx context.Context, u Unimported) error {
	if u.Apart {
		return fmt.Errorf("%s does not go on where the conversation ends", u.File)
	}

	tree, err := diskio.OpenTree(st.opt.Workspace)
	if err != nil {
		return err
	}

	defer tree.Close() //nolint:errcheck // only read from
	data, err := tree.ReadFile(u.name, maxOldBytes)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != u.sum {
		return fmt.Errorf("%s was changed meanwhile; look again", u.File)
	}

	s, err := st.Acquire(ctx, u.Key)
	if err != nil {
		return err
	}
	if u.New && s.Len() == 0 {
		return errors.Join(st.plantLog(u.Key, data), s.Release())
	}

	theirs, err := recordsIn(bytes.NewReader(data))
	if err == nil {
		var ours []Record
		if ours, err = st.all(ctx, u.Key); err == nil {
			more, fits := goesOn(ours, theirs)
			if err = errors.New("the conversation went on meanwhile; look again"); fits && len(more) == u.Messages {
				err = errors.Join(s.Append(more...), s.Sync(ctx))
			}
		}
	}

	return errors.Join(err, s.Release())
}

// plantLog makes the log of a conversation that does not exist. The caller has
// the session, so that no other caller makes one.
func (st *Store) plantLog(key string, data []byte) error {
	target, free, err := st.placeFor(key)
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("there is a conversation %s by now; look again", key)
	}
	if err := copyVerified(bytes.NewReader(data), int64(len(data)), target); err != nil {
		return errors.Join(err, removeMissing(target+suffixTemp))
	}
	return nil
}

func removeMissing(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
