package kit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// picture is an event that may be a part of an album.
type picture struct {
	Names []string
	Album string
}

func (p picture) Joins() time.Duration {
	if p.Album == "" {
		return 0
	}
	return 500 * time.Millisecond
}

func (p picture) Join(next picture) (picture, bool) {
	return picture{append(slices.Clone(p.Names), next.Names...), p.Album}, next.Album == p.Album
}

// taker is a driver that takes words, one run after the other over one store.
type taker struct {
	t     *testing.T
	store store.Store
	log   strings.Builder

	mu     sync.Mutex
	got    []string
	refuse func(event string) error // nil takes all
}

func (k *taker) deps() chat.Deps {
	return chat.Deps{
		Name:  "words",
		State: chat.OpenState(k.store, "channels/words.json", nil),
		Log:   slog.New(slog.NewTextHandler(&k.log, nil)),
	}
}

// start begins a run. stop ends it.
func (k *taker) start() (in *kit.Intake[string], stop func()) {
	k.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.t.Context()))
	in, err := kit.NewIntake(ctx, k.deps(), func(_ context.Context, event string) error {
		k.mu.Lock()
		refuse := k.refuse
		k.mu.Unlock()
		if refuse != nil {
			if err := refuse(event); err != nil {
				return err
			}
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.got = append(k.got, event)
		return nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return in, func() { cancel(); in.Wait() }
}

func (k *taker) hold(in *kit.Intake[string], chatID, key string) {
	k.t.Helper()
	if err := in.Hold(k.t.Context(), chatID, key, key); err != nil {
		k.t.Fatal(err)
	}
}

func (k *taker) expect(want ...string) {
	k.t.Helper()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.got, want) {
		k.t.Errorf("handled %q, want %q; log:\n%s", k.got, want, &k.log)
	}
}

func (k *taker) set(refuse func(string) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse = refuse
}

func taken(t *testing.T, test func(t *testing.T, k *taker)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(t, &taker{t: t, store: storetest.Memory()(t, "data")})
	})
}

// A chat that cannot go on keeps its order and holds up nobody else.
func TestIntakeOrder(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		release := make(chan struct{})
		k.set(func(event string) error {
			if event == "a1" {
				<-release
			}
			return nil
		})
		in, stop := k.start()
		defer stop()
		done := 0
		in.Add("a", "a1", func() { done++ })
		k.hold(in, "a", "a2")
		in.Add("b", "b1", func() {})
		k.hold(in, "b", "b2")
		k.expect("b1", "b2")
		if done != 0 {
			t.Error("an event counts as handled before it was")
		}
		close(release)
		k.expect("b1", "b2", "a1", "a2")
		if done != 1 {
			t.Errorf("done was called %d times", done)
		}
	})
}

// An event is repeated until it is durable: after 1 s, 2 s, 4 s and so on to 30.
func TestIntakeRepeats(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		began := time.Now()
		var tries []time.Duration
		k.set(func(string) error {
			if tries = append(tries, time.Since(began)/time.Second); len(tries) < 8 {
				return errors.New("the disk is full")
			}
			return nil
		})
		in, stop := k.start()
		defer stop()
		k.hold(in, "a", "one")
		k.hold(in, "a", "two")
		time.Sleep(3 * time.Minute)
		k.expect("one", "two")
		if want := []time.Duration{0, 1, 3, 7, 15, 31, 61, 91, 91}; !slices.Equal(tries, want) {
			t.Errorf("tried at %v, want %v", tries, want)
		}
		if n := strings.Count(k.log.String(), "the disk is full"); n != 1 {
			t.Errorf("%d lines in the log about one cause", n)
		}
	})
}

// An event that breaks the program is given up, and only it.
func TestIntakePanic(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		k.set(func(event string) error {
			if event == "bad" {
				panic("out of order")
			}
			return nil
		})
		in, stop := k.start()
		k.hold(in, "a", "bad")
		k.hold(in, "a", "good")
		k.expect("good")
		if !strings.Contains(k.log.String(), "key=bad") {
			t.Errorf("the log does not name the event:\n%s", &k.log)
		}
		stop()
		k.set(nil)
		_, stop = k.start()
		defer stop()
		k.expect("good")
	})
}

// What was held when the process ended comes first after the next start, in
// its order, once.
func TestIntakeRecovers(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		k.set(func(event string) error {
			if event != "b1" {
				return chat.ErrStopping
			}
			return nil
		})
		in, stop := k.start()
		for _, key := range []string{"a1", "b1", "a2", "a3"} {
			k.hold(in, key[:1], key)
		}
		k.expect("b1")
		stop()
		if err := in.Hold(t.Context(), "a", "a4", "a4"); !errors.Is(err, chat.ErrStopping) {
			t.Errorf("after the end: %v", err)
		}

		k.set(nil)
		in, stop = k.start()
		k.hold(in, "a", "a2") // the platform repeats what it got no answer for
		k.hold(in, "b", "b1")
		k.hold(in, "a", "a4")
		k.expect("b1", "a1", "a2", "a3", "a4")
		k.hold(in, "a", "a4")
		k.expect("b1", "a1", "a2", "a3", "a4")
		stop()
		_, stop = k.start()
		defer stop()
		k.expect("b1", "a1", "a2", "a3", "a4")
	})
}

// Events that wait are bounded: for all chats together, and for one so that it
// leaves room to others.
func TestIntakeBounds(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		k.set(func(string) error { return errors.New("not yet") })
		in, stop := k.start()
		defer stop()
		fill := func(chatID string, size int) (n int) {
			for n < 3000 && in.Hold(t.Context(), chatID, chatID+strconv.Itoa(n), strings.Repeat("x", size)) == nil {
				n++
			}
			return n
		}
		if n := fill("a", 1); n != 500 {
			t.Errorf("one chat may hold %d events, want 500", n)
		}
		if n := fill("b", 1<<20); n != 7 {
			t.Errorf("one chat may hold %d MiB, want 7", n)
		}
		fill("c", 1)
		fill("d", 1)
		if n := fill("e", 1); n != 493 {
			t.Errorf("the last chat may hold %d events, want 493", n)
		}
		if n := fill("f", 1); n != 0 {
			t.Errorf("%d events more than allowed", n)
		}
		k.set(nil)
		time.Sleep(time.Minute)
		if n := fill("f", 1); n < 500 {
			t.Errorf("after all was handled only %d events are taken", n)
		}
	})
}

// counted is a store whose log counts its writes, and fails on request.
type counted struct {
	store.Store
	mu                  sync.Mutex
	appends, replaces   int
	bytes               int
	failAppend, failAll error
}

type countedLog struct {
	store.Log
	c *counted
}

func (c *counted) Log(ctx context.Context, name string) (store.Log, error) {
	l, err := c.Store.Log(ctx, name)
	return &countedLog{l, c}, err
}

func (l *countedLog) Append(ctx context.Context, at int64, lines []byte, sync bool) error {
	l.c.mu.Lock()
	l.c.appends++
	l.c.bytes += len(lines)
	fail := l.c.failAppend
	l.c.mu.Unlock()
	if err := l.Log.Append(ctx, at, lines, sync); err != nil {
		return err
	}
	return fail // as a disk that does not sync
}

func (l *countedLog) Replace(ctx context.Context, at int64, lines []byte) error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.replaces++
	l.c.bytes += len(lines)
	if l.c.failAll != nil {
		return l.c.failAll
	}
	return l.Log.Replace(ctx, at, lines)
}

// 500 held events are not 500 rewrites, and the log does not grow for ever.
func TestIntakeWrites(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		c := &counted{Store: k.store}
		k.store = c
		in, stop := k.start()
		defer stop()
		for i := range 500 {
			k.hold(in, "chat"+strconv.Itoa(i), "event "+strconv.Itoa(i)+strings.Repeat(".", 1000))
		}
		synctest.Wait()
		if c.replaces > 20 || c.bytes > 3<<20 {
			t.Errorf("500 held events made %d appends, %d rewrites and %d bytes", c.appends, c.replaces, c.bytes)
		}
		info, err := k.store.Stat(t.Context(), "channels/words.held.jsonl")
		if err != nil || info.Size > 128<<10 {
			t.Errorf("after all was handled the log has %d bytes, %v", info.Size, err)
		}
	})
}

// While the disk fails nothing is acknowledged and nothing is lost.
func TestIntakeDisk(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		c := &counted{Store: k.store}
		k.store = c
		k.set(func(string) error { return chat.ErrStopping })
		in, stop := k.start()
		k.hold(in, "a", "one")
		c.failAppend, c.failAll = errors.New("no space"), errors.New("no space")
		for range 2 {
			if err := in.Hold(t.Context(), "a", "two", "two"); err == nil || !strings.Contains(err.Error(), "no space") {
				t.Errorf("with a full disk: %v", err)
			}
		}
		c.failAppend, c.failAll = nil, nil
		k.hold(in, "a", "three")
		k.hold(in, "a", "two")
		stop()
		k.set(nil)
		_, stop = k.start()
		defer stop()
		k.expect("one", "three", "two")
	})
}

// Many who hold at once, also the same event, get their answer when it is on
// the disk, and each event is handled once.
func TestIntakeAtOnce(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		k.store = disk.Open(t.TempDir(), nil)
		in, stop := k.start()
		defer stop()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				key := strconv.Itoa(i % 50)
				if err := in.Hold(t.Context(), key, key, key); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		k.mu.Lock()
		defer k.mu.Unlock()
		if got := slices.Compact(slices.Sorted(slices.Values(k.got))); len(got) != 50 || len(k.got) != 50 {
			t.Errorf("%d events were handled %d times, want 50 once", len(got), len(k.got))
		}
	})
}

// A crash may leave half a line, and an older version a line that we cannot
// read: the rest counts.
func TestIntakeDamage(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		dir := t.TempDir()
		k.store = disk.Open(dir, nil)
		file := filepath.Join(dir, "channels", "words.held.jsonl")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		body := `{"chat":"a","key":"1","event":"one"}
{"chat":"a","key":"2","event":{"not":"a text"}}
no JSON
{"chat":"a","key":"3","event":"three"}
{"key":"1","done":true}
{"chat":"a","key":"4","ev`
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		in, stop := k.start()
		k.expect("three")
		k.hold(in, "a", "4")
		k.expect("three", "4")
		stop()
		_, stop = k.start()
		defer stop()
		k.expect("three", "4")
	})
}

// A run that did not end in time does not take away what the next one holds.
func TestIntakeTwoRuns(t *testing.T) {
	taken(t, func(_ *testing.T, k *taker) {
		hang := make(chan struct{})
		k.set(func(string) error {
			<-hang
			return nil
		})
		in, stopOld := k.start()
		k.hold(in, "a", "old")
		synctest.Wait()
		k.set(func(string) error { return chat.ErrStopping })
		in, stop := k.start()
		k.hold(in, "a", "new")
		close(hang)
		stopOld()
		k.hold(in, "a", "newer")
		stop()
		k.set(nil)
		_, stop = k.start()
		defer stop()
		k.expect("old", "new", "newer")
	})
}

// The pictures of an album are one event, also after a restart.
func TestIntakeJoins(t *testing.T) {
	taken(t, func(t *testing.T, k *taker) {
		refuse := true
		start := func() (*kit.Intake[picture], func()) {
			ctx, cancel := context.WithCancel(t.Context())
			in, err := kit.NewIntake(ctx, k.deps(), func(_ context.Context, p picture) error {
				if refuse {
					return chat.ErrStopping
				}
				k.mu.Lock()
				defer k.mu.Unlock()
				k.got = append(k.got, fmt.Sprint(p.Names))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return in, func() { cancel(); in.Wait() }
		}
		hold := func(in *kit.Intake[picture], name, album string) {
			if err := in.Hold(t.Context(), "a", name, picture{[]string{name}, album}); err != nil {
				t.Fatal(err)
			}
		}
		in, stop := start()
		hold(in, "1", "x")
		hold(in, "2", "x")
		time.Sleep(time.Second)
		stop()
		refuse = false
		in, stop = start()
		time.Sleep(400 * time.Millisecond)
		hold(in, "3", "x")
		time.Sleep(400 * time.Millisecond)
		k.expect()
		hold(in, "4", "y")
		k.expect("[1 2 3]")
		hold(in, "5", "")
		k.expect("[1 2 3]", "[4]", "[5]")
		hold(in, "6", "z")
		stop()
		_, stop = start()
		defer stop()
		time.Sleep(time.Second)
		k.expect("[1 2 3]", "[4]", "[5]", "[6]")
	})
}
