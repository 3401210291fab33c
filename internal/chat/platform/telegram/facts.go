package telegram

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// staleOffset is how long an offset counts. After a week without updates
// Telegram may begin anywhere with new numbers, and an old offset that is
// larger would throw them away. Without an offset Telegram knows by itself
// what was acknowledged.
const staleOffset = 5 * 24 * time.Hour

// facts are what survives a restart.
type facts struct {
	state  *chat.State
	bot    int64 // the number in the token
	mu     sync.Mutex
	loaded bool
	v      struct {
		Bot    int64            `json:"bot"`              // whose facts these are
		Offset int64            `json:"offset,omitempty"` // of the first update that was not handled
		At     time.Time        `json:"at"`               // when Offset was last known to be right
		Moved  map[string]int64 `json:"moved,omitempty"`  // first number of a chat -> the number it has now
		Held   []update         `json:"held,omitempty"`   // acknowledged by an older version, not handed over yet
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

// adopt moves what an older version held to where events are held now.
func (f *facts) adopt(ctx context.Context, in *kit.Intake[job]) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if len(f.v.Held) == 0 {
		return nil
	}

	for _, u := range f.v.Held {
		j := job{Bot: f.bot, Updates: []update{u}}
		if err := in.Hold(ctx, j.chat(), j.key(), j); err != nil {
			return err
		}
	}

	f.v.Held = nil
	return f.save()
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

// current returns the number a chat has now.
func (f *facts) current(first string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.load() // Run tells of it
	if to, ok := f.v.Moved[first]; ok {
		return strconv.FormatInt(to, 10)
	}
	return first
}

// first returns the number a chat had first.
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
