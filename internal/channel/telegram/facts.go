package telegram

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
)

// staleOffset is how long an offset counts. After a week without updates
// Telegram may begin anywhere with new numbers, and an old offset that is
// larger would throw them away. Without an offset Telegram knows by itself
// what was acknowledged.
const staleOffset = 5 * 24 * time.Hour

// heldMost bounds what is acknowledged and not handed over. Telegram keeps the
// rest.
const heldMost = 500

// facts are what survives a restart.
type facts struct {
	state  *channel.State
	bot    int64 // the number in the token
	mu     sync.Mutex
	loaded bool
	v      struct {
		Bot    int64            `json:"bot"`              // whose facts these are
		Offset int64            `json:"offset,omitempty"` // of the first update that was not handled
		At     time.Time        `json:"at"`               // when Offset was last known to be right
		Moved  map[string]int64 `json:"moved,omitempty"`  // first number of a chat -> the number it has now
		Held   []update         `json:"held,omitempty"`   // acknowledged to the webhook's caller, not handed over yet
	}
}

// load reads the facts when they are needed first. Those of another bot say
// nothing about this one. The lock is held.
func (f *facts) load() error {
	if f.loaded {
		return nil
	}
	if err := f.state.Load(&f.v); err != nil {
		return err
	}
	f.loaded = true
	if f.v.Bot != f.bot {
		f.v.Bot, f.v.Offset, f.v.Moved, f.v.Held = f.bot, 0, nil, nil
	}
	return nil
}

// open reads the facts at the beginning of a run.
func (f *facts) open(now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return err
	}
	if now.Sub(f.v.At) > staleOffset {
		f.v.Offset = 0
	}
	return nil
}

// save writes the facts. What cannot be read is not overwritten.
func (f *facts) save() error {
	if err := f.load(); err != nil {
		return err
	}
	if err := f.state.Save(f.v); err != nil {
		return fmt.Errorf("save the state of the channel: %w", err)
	}
	return nil
}

func (f *facts) offset() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.v.Offset
}

func (f *facts) setOffset(n int64, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.v.Offset, f.v.At = n, now
	return f.save()
}

// hold keeps an update that is acknowledged before it is handed over. A held
// one is not held twice.
func (f *facts) hold(u update) (fresh bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.v.Held, func(h update) bool { return h.ID == u.ID }) {
		return false, nil
	}
	if len(f.v.Held) >= heldMost {
		return false, errors.New("too many files wait to be fetched")
	}
	before := f.v.Held
	f.v.Held = append(slices.Clone(before), u)
	if err := f.save(); err != nil {
		f.v.Held = before
		return false, err
	}
	return true, nil
}

// release forgets held updates that were handed over.
func (f *facts) release(us []update) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.v.Held = slices.DeleteFunc(f.v.Held, func(h update) bool {
		return slices.ContainsFunc(us, func(u update) bool { return u.ID == h.ID })
	})
	return f.save()
}

// recover hands over what a former run held, albums in one piece.
func (f *facts) recover(in *intake) {
	f.mu.Lock()
	held := slices.Clone(f.v.Held)
	f.mu.Unlock()
	for len(held) > 0 {
		first := held[0]
		part := func(u update) bool {
			return u.ID == first.ID || first.album() != "" && u.album() == first.album() && u.chatID() == first.chatID()
		}
		var job []update
		for _, u := range held {
			if part(u) {
				job = append(job, u)
			}
		}
		held = slices.DeleteFunc(held, part)
		in.add(job, func() { in.report("forget a held update", f.release(job)) })
	}
}

// move remembers that a group has another number now.
func (f *facts) move(from string, to int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return err
	}
	if f.v.Moved == nil {
		f.v.Moved = map[string]int64{}
	}
	if from == strconv.FormatInt(to, 10) || f.v.Moved[from] == to {
		return nil
	}
	for first, now := range f.v.Moved {
		if strconv.FormatInt(now, 10) == from {
			from = first
		}
	}
	f.v.Moved[from] = to
	return f.save()
}

// current is the number a chat has now.
func (f *facts) current(first string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.load() // Run tells of it
	if to, ok := f.v.Moved[first]; ok {
		return strconv.FormatInt(to, 10)
	}
	return first
}

// first is the number a chat had first.
func (f *facts) first(now int64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for from, to := range f.v.Moved {
		if to == now {
			return from
		}
	}
	return strconv.FormatInt(now, 10)
}
