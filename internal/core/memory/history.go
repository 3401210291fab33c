package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// Limits of the history.
const (
	// maxEntries is how many entries are kept, besides those Dream has not read.
	maxEntries = 1000
	// maxEntryChars bounds one entry, whatever it is made of.
	maxEntryChars = 64000
	// compactSlack is how far over maxEntries the file may grow before an
	// append rewrites it, so that not every append does.
	compactSlack = 100
	// timeLayout is how entries tell their time, in local time.
	timeLayout = "2006-01-02 15:04"
)

// Entry is one thing that was remembered of a conversation.
type Entry struct {
	Cursor  int64  // position, strictly increasing; given by Append
	Time    string // in TimeLayout; Append fills it in when empty
	Content string
	Session string // key of the conversation it comes from, "" if unknown
	Scope   string // whose memory it belongs to; "" is the owner's
	Sender  string // who said it, as the channel names people
	// Tainted entries were made of content that came from outside, such as web
	// pages: data, never instructions, and no facts without the owner's word.
	Tainted bool
	// Derived says that it is Tainted only because the summary of what was said
	// before is. It is not kept.
	Derived bool
	// Range identifies the messages the entry was made of. A second entry with
	// the same Range is not added.
	Range string
	// Extra holds keys of other programs, kept as they are.
	Extra map[string]json.RawMessage
}

// HistoryOptions configure a History. Store and Workspace are required.
type HistoryOptions struct {
	Store     store.Store // of the authoritative files; see Place
	Workspace string      // where the copy for searching is kept
	// Files writes files of the workspace that people change with Memory; nil
	// records nothing about them.
	Files *change.Writer
	// Import lets a history that does not exist yet begin with what older
	// versions left in the workspace. Otherwise nothing there is ever read back.
	Import   bool
	Log      *slog.Logger
	Now      func() time.Time
	LockWait time.Duration // how long to wait for another process; default 30 s
}

// History is the log of entries with its two cursors: the last one written and
// the last one Dream has taken in. The file is the truth about the first; the
// cursor in the state file is a hint that keeps it from going back when entries
// are lost.
type History struct {
	o    HistoryOptions
	turn chan struct{} // capacity 1: holds the right to everything below

	copies  mirror
	opened  bool
	log     store.Log
	read    store.Cursor // how far log is in entries
	entries []Entry      // sorted by cursor
	ranges  map[string]int64
	st      state
	stSeen  store.Info
	warned  int // entries of other programs that were last warned of
}

// OpenHistory makes a History. It does no I/O: the first use reads the files.
func OpenHistory(o HistoryOptions) (*History, error) {
	if o.Store == nil || o.Workspace == "" {
		return nil, errors.New("a history needs a store and a workspace")
	}

	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LockWait <= 0 {
		o.LockWait = 30 * time.Second
	}

	log, err := o.Store.Log(context.Background(), fileHistory)
	if err != nil {
		return nil, err
	}
	return &History{o: o, turn: make(chan struct{}, 1), log: log, copies: mirror{o.Workspace}, ranges: map[string]int64{}}, nil
}

// Dir returns the directory of the authoritative files, for those who keep more
// about the same memory.
func (h *History) Dir() string { return h.o.Store.Where("") }

// Workspace returns the directory that holds the copy.
func (h *History) Workspace() string { return h.o.Workspace }

// Close gives back what the History holds. It may be used again.
func (h *History) Close() error {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	return h.log.Close()
}

// Append adds an entry, makes it durable and returns its cursor. An entry
// whose Range is there already is not added again; its cursor is returned.
func (h *History) Append(ctx context.Context, e Entry) (int64, error) {
	e.Content = tidy(e.Content, maxEntryChars)
	if e.Content == "" {
		return 0, errors.New("add to the history: the entry is empty")
	}

	if e.Time == "" {
		e.Time = h.o.Now().Format(timeLayout)
	}

	err := h.update(ctx, func() error {
		if at, ok := h.ranges[e.Range]; ok && e.Range != "" {
			e.Cursor = at
			return nil
		}

		e.Cursor = h.high() + 1
		if err := h.add(ctx, append(e.line(), '\n')); err != nil {
			return err
		}

		h.insert(e)
		h.st.Cursor = e.Cursor
		if len(h.entries) > maxEntries+compactSlack {
			return h.dropOldest(ctx)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("add to the history: %w", err)
	}
	return e.Cursor, nil
}

// tidy returns the form in which texts of models are kept.
func tidy(s string, most int) string {
	s = strings.TrimRight(text.StripThink(text.Valid(s)), " \t\r\n")
	return text.Cut(s, most)
}

// since returns the entries behind a cursor, oldest first.
func (h *History) since(ctx context.Context, cursor int64) ([]Entry, error) {
	var out []Entry
	err := h.view(ctx, func() error {
		i, _ := slices.BinarySearchFunc(h.entries, cursor+1, func(e Entry, c int64) int { return cmp.Compare(e.Cursor, c) })
		out = slices.Clone(h.entries[i:])
		return nil
	})
	return out, err
}

// Recent returns the newest n entries for which keep is true, oldest first;
// n <= 0 means all, a nil keep every entry.
func (h *History) Recent(ctx context.Context, n int, keep func(Entry) bool) ([]Entry, error) {
	var out []Entry
	err := h.view(ctx, func() error {
		for _, e := range slices.Backward(h.entries) {
			if n > 0 && len(out) == n {
				break
			}
			if keep == nil || keep(e) {
				out = append(out, e)
			}
		}

		slices.Reverse(out)
		return nil
	})
	return out, err
}

// has reports whether an entry with this Range is there, and its cursor.
func (h *History) has(ctx context.Context, rng string) (cursor int64, ok bool, err error) {
	err = h.view(ctx, func() error {
		cursor, ok = h.ranges[rng]
		return nil
	})
	return cursor, ok && rng != "", err
}

// cursor returns the cursor of the newest entry ever written.
func (h *History) cursor(ctx context.Context) (n int64, err error) {
	err = h.view(ctx, func() error { n = h.high(); return nil })
	return n, err
}

// DreamCursor returns the cursor of the last entry that Dream has taken in.
func (h *History) DreamCursor(ctx context.Context) (n int64, err error) {
	err = h.view(ctx, func() error { n = h.dreamCursor(); return nil })
	return n, err
}

// SetDreamCursor moves the cursor of DreamCursor. It never goes back, nor
// beyond the newest entry.
func (h *History) SetDreamCursor(ctx context.Context, n int64) error {
	err := h.update(ctx, func() error {
		h.st.DreamCursor = max(h.dreamCursor(), min(n, h.high()))
		return nil
	})
	if err != nil {
		return fmt.Errorf("move the dream cursor: %w", err)
	}
	return nil
}

// dreamState reads what setDreamState kept into v and reports whether it was
// there and fit.
func (h *History) dreamState(ctx context.Context, v any) (ok bool, err error) {
	err = h.view(ctx, func() error {
		ok = len(h.st.Dream) > 0 && json.Unmarshal(h.st.Dream, v) == nil
		return nil
	})
	return ok, err
}

// setDreamState keeps a value for Dream; nil forgets it.
func (h *History) setDreamState(ctx context.Context, v any) error {
	var raw json.RawMessage
	if v != nil {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			return fmt.Errorf("dream state: %w", err)
		}
	}

	if err := h.update(ctx, func() error { h.st.Dream = raw; return nil }); err != nil {
		return fmt.Errorf("keep the dream state: %w", err)
	}
	return nil
}

// compact drops the oldest entries beyond maxEntries, but none that Dream has
// not read.
func (h *History) compact(ctx context.Context) error {
	if err := h.update(ctx, func() error { return h.dropOldest(ctx) }); err != nil {
		return fmt.Errorf("compact the history: %w", err)
	}
	return nil
}

func (h *History) dropOldest(ctx context.Context) error {
	drop, read := 0, h.dreamCursor()
	for drop < len(h.entries)-maxEntries && h.entries[drop].Cursor <= read {
		drop++
	}
	if drop == 0 {
		return nil
	}
	dropped := newKnown(h.entries[:drop])
	return h.rewrite(ctx, slices.Clone(h.entries[drop:]), func(e Entry) (Entry, bool) { return e, !dropped.has(e) })
}

// forget rewrites the history: each entry becomes what change returns, or goes
// when keep is false. Cursors stay. It returns how many entries changed or went.
func (h *History) forget(ctx context.Context, change func(Entry) (e Entry, keep bool)) (changed int, err error) {
	err = h.update(ctx, func() error {
		kept := make([]Entry, 0, len(h.entries))
		became := map[words]outcome{}
		for _, old := range h.entries {
			e, keep := change(old)
			e.Cursor = old.Cursor
			became[words{old.Time, old.Content}] = outcome{e, keep}
			if !keep || e.Content != old.Content || e.Scope != old.Scope || e.Session != old.Session || e.Sender != old.Sender || e.Tainted != old.Tainted {
				changed++
			}
			if keep {
				kept = append(kept, e)
			}
		}

		inCopy := func(e Entry) (Entry, bool) {
			if o, ok := became[words{e.Time, e.Content}]; ok {
				return o.entry, o.keep
			}
			now, keep := change(e) // of another program
			if !keep || now.Content != e.Content {
				changed++
			}
			return now, keep
		}
		if changed == 0 {
			return h.copies.edit(inCopy)
		}
		return h.rewrite(ctx, kept, inCopy)
	})
	if err != nil {
		return 0, fmt.Errorf("forget history: %w", err)
	}
	return changed, nil
}

// outcome says what becomes of an entry.
type outcome struct {
	entry Entry
	keep  bool
}

// high returns the newest cursor: the largest of the file, or the hint when entries
// were lost.
func (h *History) high() int64 {
	n := int64(0)
	if len(h.entries) > 0 {
		n = h.entries[len(h.entries)-1].Cursor
	}
	return max(n, usable(h.st.Cursor))
}

func (h *History) dreamCursor() int64 { return min(usable(h.st.DreamCursor), h.high()) }

// maxCursor is where other programs begin to lose digits.
const maxCursor = 1 << 53

// usable returns a cursor that can be believed, else 0.
func usable(n int64) int64 {
	if n < 0 || n > maxCursor {
		return 0
	}
	return n
}

// insert adds an entry to memory.
func (h *History) insert(e Entry) {
	i := len(h.entries)
	for i > 0 && h.entries[i-1].Cursor > e.Cursor {
		i--
	}
	h.entries = slices.Insert(h.entries, i, e)
	if e.Range != "" {
		h.ranges[e.Range] = e.Cursor
	}
}
