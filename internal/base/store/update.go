package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
)

// Update changes a document: read, change, Put, and again if another process
// was faster. change may run several times, each time with what is there then;
// nil leaves the document as it is.
func Update(ctx context.Context, s Store, name string, change func(old []byte) ([]byte, error)) error {
	pause := time.Millisecond
	for {
		old, version, err := s.Doc(ctx, name)
		if err != nil {
			return err
		}

		data, err := change(old)
		if err != nil || data == nil {
			return err
		}
		if _, err = s.Put(ctx, name, data, version, true); !errors.Is(err, ErrChanged) {
			return err
		}
		if err := jitter(ctx, pause); err != nil {
			return fmt.Errorf("change %s: %w", s.Where(name), err)
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// Add appends lines wherever the log ends, also while others append.
func Add(ctx context.Context, l Log, lines []byte, sync bool) error {
	for {
		info, err := l.Info(ctx)
		if err != nil {
			return err
		}
		if err := l.Append(ctx, info.Size, lines, sync); !errors.Is(err, ErrMoved) {
			return err
		}
	}
}

// WaitLock is Lock that tries again until the timeout or the end of the context.
func WaitLock(ctx context.Context, s Store, name string, timeout time.Duration) (release func() error, err error) {
	pause, waited := 250*time.Microsecond, time.Duration(0)
	for {
		release, err := s.Lock(ctx, name)
		if _, held := errors.AsType[*LockedError](err); !held || waited >= timeout {
			return release, err
		}
		if cause := jitter(ctx, pause); cause != nil {
			return nil, errors.Join(cause, err)
		}

		waited += pause
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// Holder says which process holds a lock.
func Holder(ctx context.Context, s Store, name string) (pid int, held bool) {
	if i, err := s.Stat(ctx, name); err != nil || !i.Exists() {
		return 0, false
	}

	release, err := s.Lock(ctx, name)
	if by, locked := errors.AsType[*LockedError](err); locked {
		return by.PID, true
	}

	if err == nil {
		_ = release() // what a process that died left is gone now
	}
	return 0, false
}

// jitter lets about so much time pass, so that those who wait do not meet again.
func jitter(ctx context.Context, d time.Duration) error {
	_ = wait.For(ctx, d/2+rand.N(d)) //nolint:gosec // it only spreads those who wait; Cause says whether it was cut short
	return context.Cause(ctx)
}

// Indented returns the form of documents that people read.
func Indented(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}

// SaveDamaged saves a copy of an unreadable document beside it and returns its name.
func SaveDamaged(ctx context.Context, s Store, name string, data []byte, now time.Time) (aside string, err error) {
	aside = name + ".damaged-" + now.UTC().Format("20060102-150405")
	if _, err := s.Put(ctx, aside, data, Any, true); err != nil {
		return "", fmt.Errorf("%s is damaged and cannot be kept aside: %w", s.Where(name), err)
	}
	return aside, nil
}

// AppendLines adds whole lines to the end of a log that only people read.
func AppendLines(ctx context.Context, s Store, name string, lines []byte) error {
	l, err := s.Log(ctx, name)
	if err != nil {
		return err
	}
	info, err := l.Info(ctx)
	if err == nil {
		err = l.Append(ctx, info.Size, lines, true)
	}
	return errors.Join(err, l.Close())
}
