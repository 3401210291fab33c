package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// A disk that is well again is reported as such, also when nobody writes:
// whoever waits for that before sending anything would wait for ever.
func TestStatusHeals(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.room = 0
	if err := r.submit("1"); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Submit = %v", err)
	}
	r.now = r.now.Add(time.Minute)
	if err := r.Status().Err; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Status of a full disk = %v", err)
	}
	r.room = -1
	r.now = r.now.Add(time.Minute)
	if err := r.Status().Err; err != nil {
		t.Errorf("Status with room again = %v", err)
	}
}

// A disk that does not answer is reported, although no call has failed.
func TestStatusOfHangingDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	reached, free := make(chan struct{}), make(chan struct{})
	r.sync = func(sync func() error) error { close(reached); <-free; return sync() }
	done := make(chan error)
	go func() { done <- r.submit("1") }()
	<-reached
	if err := r.Status().Err; err != nil {
		t.Errorf("Status of a disk that takes a moment = %v", err)
	}
	r.now = r.now.Add(time.Hour)
	if err := r.Status().Err; err == nil || !strings.Contains(err.Error(), "1h0m0s") {
		t.Errorf("Status of a disk that hangs = %v", err)
	}
	r.sync = nil
	close(free)
	must(t, <-done)
	if err := r.Status().Err; err != nil {
		t.Errorf("Status afterwards = %v", err)
	}
}

// While the journal cannot be written anew, ids are not written to the list
// of seen ones again and again.
func TestSeenStaysSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for i := range 100 {
		id := strconv.Itoa(i)
		must(t, r.submit(id))
		must(t, r.Complete(t.Context(), id))
	}
	must(t, os.MkdirAll(filepath.Join(r.dir, "journal.jsonl.tmp", "x"), 0o700)) // the new file cannot be made
	size := func() int64 {
		info, err := os.Stat(filepath.Join(r.dir, "seen.jsonl"))
		must(t, err)
		return info.Size()
	}
	if err := r.rewrite(); err == nil {
		t.Fatal("rewritten")
	}
	first := size()
	for range 10 {
		if err := r.rewrite(); err == nil {
			t.Fatal("rewritten")
		}
	}
	if now := size(); now > first {
		t.Errorf("the list grew from %d to %d bytes", first, now)
	}
}

// A line of the list that a full disk or a crash left torn takes no other with it.
func TestSeenTorn(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		r := newRig(t, Options{})
		must(t, r.submit("1"))
		must(t, r.Complete(t.Context(), "1", bus.Outbound{ID: "o", Kind: bus.Final, Route: bus.Route{Channel: "c"}}))
		must(t, r.Delivered(t.Context(), "o"))
		if crash {
			must(t, os.WriteFile(filepath.Join(r.dir, "seen.jsonl"), []byte(`{"at":1,"se`), 0o600))
		} else {
			r.room = 20
			if err := r.rewrite(); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("rewrite = %v", err)
			}
			r.room = -1
		}
		must(t, r.rewrite())
		r.crash()
		r.open(Options{})
		must(t, r.submit("1"))
		r.wants() // it was handled
	}
}
