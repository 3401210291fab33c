package session

import (
	"fmt"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// BenchmarkTurn is a whole turn with one tool call in a session that already
// holds messages; nothing in it may grow with their number.
func BenchmarkTurn(b *testing.B) {
	for _, fsync := range []Fsync{FsyncNever, FsyncTurn} {
		for _, n := range []int{10, 10_000} {
			b.Run(fmt.Sprintf("fsync=%s/messages=%d", fsync, n), func(b *testing.B) {
				st := openStore(b, storetest.Disk, b.TempDir(), func(o *Options) { o.Fsync = fsync })
				quick := openStore(b, storetest.Disk, b.TempDir())
				if fsync == FsyncNever {
					quick = st
				}
				fill(b, quick, "k", n)
				st.dir = quick.dir
				b.ReportAllocs()
				b.ResetTimer()
				for b.Loop() {
					s := acquire(b, st, "k")
					must(b, s.BeginTurn("t", user("what is the time?")))
					must(b, s.Append(calls("a")))
					must(b, s.Append(result("a", "noon")))
					must(b, s.EndTurn(answer("It is noon.")))
					if len(s.Messages()) > 40 {
						must(b, s.SetReplay(s.Len()-20))
					}
					must(b, s.Release())
				}
			})
		}
	}
}

// BenchmarkAcquireCold is the first look of a process at a session.
func BenchmarkAcquireCold(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			fill(b, openStore(b, storetest.Disk, dir), "k", n)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				must(b, acquire(b, openStore(b, storetest.Disk, dir), "k").Release())
			}
		})
	}
}

// BenchmarkReadRecord reads a line of a log with the quick reader and with
// encoding/json alone (decision 153).
func BenchmarkReadRecord(b *testing.B) {
	r := answer("It is noon, and the train to Graz leaves in 25 minutes from platform 7.")
	r.TurnID = "01JA7M3V8Q2X"
	line, err := r.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}

	b.Run("quick", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var got Record
			if !got.quick(line) {
				b.Fatalf("not read: %s", line)
			}
		}
	})

	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var got Record
			if err := got.general(line); err != nil {
				b.Fatal(err)
			}
		}
	})
}
