package journal

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// log is the log. It belongs to the caller that writes (Journal.busy); size,
// base, broken and since change under Journal.mu, so that Status can read them.
type log struct {
	store.Log
	size   int64
	base   int64     // size after the last rewrite
	broken error     // the log may differ from what is in memory; it is written again before anything else
	tried  time.Time // when that was tried last
	since  time.Time // when the write that goes on began; zero if none does
}

// commit is one write to the file, shared by all who bring lines while the
// write before it goes on.
type commit struct {
	buf   bytes.Buffer
	sync  bool // a caller needs it on the disk, not only in the file
	soon  bool // the same, but no caller waits for it
	steps []step
	lead  chan struct{} // capacity 1: the right to write it
	done  chan struct{}
	err   error // set before done is closed
}

// step holds what one line changes in memory. Both run under Journal.mu.
type step struct {
	written  func()      // the line is in the file, if it can be
	onResult func(error) // it is on the disk, or the commit failed
}

// join adds a line to the next commit. The caller holds the lock and calls
// finish without it.
func (j *Journal) join(line []byte, steps ...step) *commit {
	if j.next == nil {
		j.next = &commit{lead: make(chan struct{}, 1), done: make(chan struct{})}
		if !j.busy {
			j.busy = true
			j.next.lead <- struct{}{}
		}
	}

	j.next.buf.Write(line)
	j.next.steps = append(j.next.steps, steps...)
	return j.next
}

// flush waits until a commit is written, or writes it.
func (j *Journal) flush(c *commit) error {
	select {
	case <-c.done:
		return c.err
	case <-c.lead:
	}

	j.mu.Lock()
	j.next = nil // later lines go into the next one
	j.file.since = j.opts.Now()
	j.mu.Unlock()
	c.err = j.perform(c)

	if c.err == nil && j.file.size > 2*j.file.base+j.opts.CompactAt {
		if err := j.rewrite(); err != nil {
			j.opts.Log.Warn("the message journal cannot be made smaller", "err", err)
		}
	}

	close(c.done)
	j.mu.Lock()
	defer j.mu.Unlock()

	j.file.since = time.Time{}
	if j.next != nil {
		j.next.lead <- struct{}{}
	} else {
		j.busy = false
	}
	return c.err
}

// perform writes a commit and applies it. Steps see what was written before
// the disk is waited for.
func (j *Journal) perform(c *commit) error {
	err := j.mend()
	if err == nil && c.buf.Len() > 0 {
		err = j.file.Append(context.Background(), j.file.size, c.buf.Bytes(), false)
	}

	j.mu.Lock()
	if err == nil {
		j.file.size += int64(c.buf.Len())
	}

	for _, s := range c.steps {
		if s.written != nil {
			s.written()
		}
	}

	j.mu.Unlock()
	if err == nil && c.sync {
		err = j.file.Sync(context.Background())
	}
	if err == nil {
		j.syncLater(c)
	}
	if err != nil {
		err = fmt.Errorf("write the message journal: %w", err)
	}

	j.mu.Lock()
	defer j.mu.Unlock()

	if err != nil && j.file.broken == nil {
		j.file.broken, j.file.tried = err, j.opts.Now()
		j.opts.Log.Error("the message journal cannot be written; no messages are accepted", "err", err)
	}

	for _, s := range c.steps {
		if s.onResult != nil {
			s.onResult(err)
		}
	}
	return err
}

// syncDelay is how long a line that no caller waits for may wait for the disk.
// The next one that a caller waits for takes it along.
const syncDelay = 20 * time.Millisecond

// syncLater sees to it that a written commit gets to the disk in time.
func (j *Journal) syncLater(c *commit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case c.sync:
		j.unsynced = false
	case c.soon && !j.unsynced:
		j.unsynced = true
		j.later(j.syncNow)
	}
}

func (j *Journal) syncNow() {
	j.mu.Lock()
	if j.closed || !j.unsynced {
		j.mu.Unlock()
		return
	}

	j.unsynced = false
	c := j.join(nil)
	c.sync = true
	j.mu.Unlock()
	_ = j.flush(c) // was noted by perform
}

// mend writes the file again after a failure, because what is in it is not
// known any more, while memory is. It does not try too often.
func (j *Journal) mend() error {
	if j.file.broken == nil {
		return nil
	}

	now := j.opts.Now()
	if since := now.Sub(j.file.tried); since >= 0 && since < retryAfter {
		return j.file.broken
	}

	j.file.tried = now
	if err := j.rewrite(); err != nil {
		return err
	}

	j.mu.Lock()
	j.file.broken = nil
	j.mu.Unlock()
	j.opts.Log.Info("the message journal can be written again")
	return nil
}

// heal tries a disk that failed while no writer does.
func (j *Journal) heal() {
	j.mu.Lock()
	if j.file.broken == nil || j.busy || j.closed {
		j.mu.Unlock()
		return
	}
	c := j.join(nil)
	j.mu.Unlock()
	_ = j.flush(c) // Status tells
}

// rewrite replaces the file by one with only what is left to do. Ids of what
// leaves go to the list of seen ids first.
func (j *Journal) rewrite() error {
	j.mu.Lock()
	data, err := j.snapshot()
	flush := j.seen.flush(j.opts.Now())
	j.mu.Unlock()
	if err != nil {
		return err
	}

	ctx := context.Background()
	if err := j.seen.store(ctx, flush); err != nil {
		return err
	}

	j.mu.Lock()
	j.seen.stored(flush) // whatever becomes of the rest, they need not be written again
	j.mu.Unlock()
	err = j.file.Replace(ctx, -1, data)
	if err != nil {
		// It may be the new one all the same, which a power loss takes back.
		info, lost := j.file.Info(ctx)
		if lost == nil && info.Size == j.file.size {
			return err
		}
	}

	j.mu.Lock()
	defer j.mu.Unlock()

	j.file.size, j.file.base = int64(len(data)), int64(len(data))
	if err != nil && j.file.broken == nil {
		j.file.broken = err
	}
	return err
}
