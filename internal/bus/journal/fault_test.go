package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// rig is a journal on a disk that can be made to fail, with a clock of its own.
type rig struct {
	*Journal
	t     *testing.T
	dir   string
	now   time.Time
	room  int                           // bytes that still fit; negative means all
	fsync error                         // what syncing says
	sync  func(sync func() error) error // around a sync; nil: as it is
	later []func()
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), room: -1}
	o.Now = func() time.Time { return r.now }
	r.open(o)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func (r *rig) open(o Options) {
	r.t.Helper()
	o.Now = func() time.Time { return r.now }
	j, err := Open(badDisk{disk.Open(r.dir, nil), r}, o)
	if err != nil {
		r.t.Fatal(err)
	}
	j.later = func(f func()) { r.later = append(r.later, f) }
	r.Journal = j
}

// badDisk is a store whose logs fail as the rig says.
type badDisk struct {
	store.Store
	r *rig
}

func (d badDisk) Log(ctx context.Context, name string) (store.Log, error) {
	l, err := d.Store.Log(ctx, name)
	return &badLog{l, d.r, d.Where(name)}, err
}

type badLog struct {
	store.Log
	r    *rig
	path string
}

func (l *badLog) Append(ctx context.Context, at int64, lines []byte, sync bool) error {
	if room := l.r.room; room >= 0 && len(lines) > room { // a full disk takes what fits
		f, err := os.OpenFile(l.path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_, err = f.Write(lines[:room])
			err = errors.Join(err, f.Close())
		}
		return errors.Join(err, syscall.ENOSPC)
	}
	err := l.Log.Append(ctx, at, lines, false)
	if err == nil && sync {
		err = l.Sync(ctx)
	}
	return err
}

func (l *badLog) Sync(ctx context.Context) error {
	sync := func() error { return errors.Join(l.r.fsync, l.Log.Sync(ctx)) }
	if l.r.sync != nil {
		return l.r.sync(sync)
	}
	return sync()
}

func (l *badLog) Replace(ctx context.Context, at int64, lines []byte) error {
	if room := l.r.room; room >= 0 && len(lines) > room {
		return syscall.ENOSPC
	}
	if l.r.fsync != nil {
		return l.r.fsync
	}
	return l.Log.Replace(ctx, at, lines)
}

// crash lets go of the files as the death of the process does.
func (r *rig) crash() {
	r.t.Helper()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	if err := r.release(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) submit(id string) error {
	return r.Submit(r.t.Context(), bus.Inbound{ID: id, Route: bus.Route{Channel: "c", ChatID: "1"}, Text: id})
}

func (r *rig) wants(ids ...string) {
	r.t.Helper()
	var got []string
	for range len(r.queue) {
		in, err := r.Receive(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		got = append(got, in.ID)
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		r.t.Errorf("received %q, want %q", got, ids)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A full disk refuses messages with the reason, at every point of a line,
// keeps what was accepted, delivers answers all the same, and is over when
// there is room again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		for room := 0; room < 130; room += 13 {
			r := newRig(t, Options{})
			must(t, r.submit("1"))
			must(t, r.submit("2"))
			r.wants("1", "2")
			r.room = room
			if err := r.submit("3"); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("room %d: Submit = %v, want no space", room, err)
			}
			if err := r.Complete(t.Context(), "1", bus.Outbound{ID: "o", Kind: bus.Final, Route: bus.Route{Channel: "c"}}); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Complete = %v, want no space", err)
			}
			for d, err := range r.Outgoing(t.Context(), "c") {
				if err != nil || d.ID != "o" {
					t.Errorf("goes out: %q, %v", d.ID, err)
				}
				break
			}
			if r.Status().Err == nil {
				t.Error("Status knows nothing of it")
			}
			r.room = -1
			if crash { // the answer was out, but nobody could write that down
				r.crash()
				r.open(Options{})
				r.wants("1", "2")
				continue
			}
			if err := r.submit("3"); err == nil {
				t.Error("the disk was tried again at once")
			}
			r.now = r.now.Add(time.Second)
			must(t, r.submit("3"))
			if err := r.Status().Err; err != nil {
				t.Errorf("Status after recovery: %v", err)
			}
			must(t, r.submit("4"))
			r.crash()
			r.open(Options{})
			r.wants("2", "3", "4")
			if n := r.Status().Outbound["c"]; n != 1 {
				t.Errorf("%d answers left, want 1", n)
			}
		}
	}
}

// A disk that cannot sync may or may not have the line. The message is refused,
// and accepted once when it is brought again.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.fsync = syscall.EIO
	if err := r.submit("1"); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Submit = %v", err)
	}
	r.wants()
	r.fsync = nil
	r.now = r.now.Add(time.Second)
	must(t, r.submit("1"))
	r.wants("1")
	r.crash()
	r.open(Options{})
	must(t, r.submit("1"))
	r.wants("1")
}

// A file cut at any byte, and one with a broken line, still gives all that is whole.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	must(t, r.submit("1"))
	must(t, r.submit("2"))
	must(t, r.Complete(t.Context(), "1", bus.Outbound{ID: "o1", Kind: bus.Final, Route: bus.Route{Channel: "c"}}))
	must(t, r.Sent(t.Context(), "o1", 1))
	must(t, r.Delivered(t.Context(), "o1"))
	must(t, r.submit("3"))
	r.crash()
	path := filepath.Join(r.dir, "journal.jsonl")
	data, err := os.ReadFile(path)
	must(t, err)
	for n := range len(data) {
		must(t, os.WriteFile(path, data[:n], 0o600))
		r.open(Options{})
		whole := string(data[:strings.LastIndex("\n"+string(data[:n]), "\n")])
		want := strings.Count(whole, `{"in":`) - strings.Count(whole, `{"done":`)
		outs := strings.Count(whole, `{"done":`) - strings.Count(whole, `{"delivered":`)
		if s := r.Status(); s.Inbound != want || s.Outbound["c"] != outs {
			t.Fatalf("cut at %d: %+v, want %d in and %d out", n, s, want, outs)
		}
		r.crash()
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines[2] = "\x00\x00{]\n" // message 2
	must(t, os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600))
	r.open(Options{})
	r.wants("3")
	if bad, err := os.ReadFile(path + ".bad"); err != nil || !strings.Contains(string(bad), "{]") {
		t.Errorf("the broken line is not kept: %q, %v", bad, err)
	}
}

// Lines that another program wrote are understood as well.
func TestForeignLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(`{ "journal": 1, "note": "x" }

{ "at": 5, "in": "a", "msg": {"id": "a", "text": "A", "new": [1]} }
{"in":"b","at":6,"msg":{"id":"b","text":"B"}}
{"done": "b", "ids": ["o"], "outs": [{"id": "o", "kind": "final", "route": {"channel": "c"}}]}
{"part": 2, "sent": "o"}
{"something": "else"}
`), 0o600))
	j, err := Open(disk.Open(dir, nil), Options{})
	must(t, err)
	defer j.Close()
	if in, err := j.Receive(t.Context()); err != nil || in.ID != "a" || in.Text != "A" || len(j.queue) != 0 {
		t.Errorf("received %+v, %v", in, err)
	}
	if o := j.outs["o"]; o == nil || o.parts != 2 {
		t.Errorf("out = %+v", o)
	}
	newer := t.TempDir()
	must(t, os.WriteFile(filepath.Join(newer, "journal.jsonl"), []byte("{\"journal\":2}\n"), 0o600))
	if _, err := Open(disk.Open(newer, nil), Options{}); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("a newer file: %v", err)
	}
}

func TestOneOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	_, err := Open(disk.Open(r.dir, nil), Options{})
	if e, ok := errors.AsType[*diskio.LockedError](err); !ok || e.PID != os.Getpid() {
		t.Errorf("second opening: %v", err)
	}
}

// The file stays small, however many messages go through, and duplicates are
// known for a week, whatever was rewritten meanwhile.
func TestStaysSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{CompactAt: 4000, MaxSeen: 50})
	r.sync = func(func() error) error { return nil }
	for i := range 500 {
		id := strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()
		must(t, r.submit(id))
		must(t, r.Complete(t.Context(), id, bus.Outbound{ID: "o" + id, Kind: bus.Final, Route: bus.Route{Channel: "c"}}))
		must(t, r.Delivered(t.Context(), "o"+id))
		must(t, r.submit(id))
		if n := len(r.inbound); n != 0 {
			t.Fatalf("message %d was taken twice", i)
		}
		r.now = r.now.Add(time.Minute)
	}
	for name, limit := range map[string]int64{"journal.jsonl": 6000, "seen.jsonl": 4000} {
		fi, err := os.Stat(filepath.Join(r.dir, name))
		must(t, err)
		if fi.Size() > limit || fi.Size() == 0 {
			t.Errorf("%s has %d bytes, want at most %d", name, fi.Size(), limit)
		}
	}
	must(t, r.submit("kept"))
	must(t, r.Complete(t.Context(), "kept"))
	must(t, r.rewrite())
	r.crash()
	r.now = r.now.Add(seenFor - time.Hour)
	r.open(Options{MaxSeen: 50})
	must(t, r.submit("kept"))
	r.wants()
	r.crash()
	r.now = r.now.Add(2 * time.Hour)
	r.open(Options{MaxSeen: 50})
	must(t, r.submit("kept"))
	r.wants("kept")
}

// A channel that is full blocks its own messages only, and not /stop.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{MaxInbound: 2, MaxOutbound: 2})
	full := func(what string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := r.Submit(ctx, bus.Inbound{ID: "more", Route: bus.Route{Channel: "c"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Submit = %v, want it to block", what, err)
		}
	}
	must(t, r.submit("1"))
	must(t, r.submit("2"))
	full("inbound")
	must(t, r.submit("1")) // known already
	must(t, r.Submit(t.Context(), bus.Inbound{ID: "s", Route: bus.Route{Channel: "c"}, Text: "/stop"}))
	must(t, r.Submit(t.Context(), bus.Inbound{ID: "d", Route: bus.Route{Channel: "d"}}))
	r.wants("1", "2", "s", "d")
	blocked := make(chan error)
	go func() { blocked <- r.submit("3") }()
	for _, id := range []string{"s", "1"} {
		must(t, r.Complete(t.Context(), id, bus.Outbound{ID: "o" + id, Kind: bus.Final, Route: bus.Route{Channel: "c"}}))
	}
	must(t, r.Delivered(t.Context(), "os"))
	must(t, <-blocked)
	must(t, r.Complete(t.Context(), "2", bus.Outbound{ID: "o2", Kind: bus.Final, Route: bus.Route{Channel: "c"}}))
	must(t, r.Complete(t.Context(), "3", bus.Outbound{ID: "o3", Kind: bus.Final, Route: bus.Route{Channel: "c"}}))
	full("outbound")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := r.Publish(ctx, bus.Outbound{ID: "o4", Kind: bus.Message, Route: bus.Route{Channel: "c"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Publish = %v, want it to block", err)
	}
	must(t, r.Publish(t.Context(), bus.Outbound{Kind: bus.Progress, Route: bus.Route{Channel: "c"}}))
	heavy := newRig(t, Options{MaxInboundBytes: 1000})
	in := bus.Inbound{Route: bus.Route{Channel: "c"}, Text: strings.Repeat("x", 900)}
	in.ID = "alone" // larger than what is allowed, and nothing else is there
	in.Text += in.Text
	must(t, heavy.Submit(t.Context(), in))
	in.ID = "second"
	if err := heavy.Submit(ctx, in); err == nil {
		t.Error("the bytes of waiting messages have no limit")
	}
	in.ID, in.Text = "s", "/stop"
	must(t, heavy.Submit(t.Context(), in))
	if err := r.Submit(t.Context(), bus.Inbound{ID: "big", Text: strings.Repeat("x", maxMessage)}); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
}

// What is only shown is dropped when nobody keeps up; then the final says that
// its text was not shown.
func TestDroppedDeltas(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{MaxVolatile: 3})
	route := bus.Route{Channel: "c", ChatID: "1"}
	say := func(kind bus.Kind, stream, text string) {
		must(t, r.Publish(t.Context(), bus.Outbound{Kind: kind, Route: route, StreamID: stream, Text: text}))
	}
	must(t, r.Publish(t.Context(), bus.Outbound{ID: "first", Kind: bus.Final, Route: route, Streamed: true}))
	var got []string
	for d, err := range r.Outgoing(t.Context(), "c") {
		must(t, err)
		if d.ID == "first" {
			say(bus.Delta, "s", "a")
			say(bus.Delta, "s", "b")
			say(bus.ToolHint, "", "hint")
			say(bus.Delta, "s", "c")
			say(bus.ToolHint, "", "dropped")
			say(bus.Delta, "s", "d") // joins c
			say(bus.Delta, "t", "dropped")
			say(bus.DeltaEnd, "t", "")
			must(t, r.Publish(t.Context(), bus.Outbound{ID: "last", Kind: bus.Final, Route: route, Streamed: true}))
		}
		got = append(got, string(d.Kind)+" "+d.Text)
		if d.ID == "last" {
			if d.Streamed {
				t.Error("the final says that its text was shown")
			}
			break
		}
	}
	if want := "final , delta ab, tool_hint hint, delta cd, delta_end , final "; strings.Join(got, ", ") != want {
		t.Errorf("read %q, want %q", strings.Join(got, ", "), want)
	}
	if n := r.Status().Dropped; n != 2 {
		t.Errorf("%d dropped, want 2", n)
	}
}

// A final reply does not wait for the disk, but gets there: with the next line
// somebody waits for, or by itself.
func TestCompleteSyncs(t *testing.T) {
	t.Parallel()
	final := bus.Outbound{Kind: bus.Final, Route: bus.Route{Channel: "c", ChatID: "1"}, Text: "yes"}
	file := final
	file.Media = []bus.Media{{Path: "x"}}
	for name, c := range map[string]struct {
		outs []bus.Outbound
		wait bool
	}{
		"a reply":              {[]bus.Outbound{final}, false},
		"a reply with a file":  {[]bus.Outbound{final, file}, true},
		"nothing":              {nil, true},
		"a message, a reply":   {[]bus.Outbound{{Kind: bus.Message, Route: final.Route, Text: "m"}, final}, true},
		"a reply and a notice": {[]bus.Outbound{{Kind: bus.Notice, Route: final.Route, Text: "n"}, final}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			synced := 0
			r.sync = func(sync func() error) error { synced++; return sync() }
			must(t, r.submit("a"))
			synced = 0
			must(t, r.Complete(t.Context(), "a", c.outs...))
			if got := synced > 0; got != c.wait || got == (len(r.later) > 0) {
				t.Errorf("Complete waited for the disk: %v, want %v; %d attempts later", got, c.wait, len(r.later))
			}
			for _, f := range r.later {
				f()
			}
			if synced != 1 {
				t.Errorf("synced %d times, want once", synced)
			}
		})
	}
}
