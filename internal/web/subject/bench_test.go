package subject_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// metered is a store that counts what is read of logs.
type metered struct {
	store.Store
	read *atomic.Int64
}

func (m metered) Log(ctx context.Context, name string) (store.Log, error) {
	l, err := m.Store.Log(ctx, name)
	return meteredLog{l, m.read}, err
}

type meteredLog struct {
	store.Log
	read *atomic.Int64
}

func (l meteredLog) ReadAt(p []byte, off int64) (int, error) {
	n, err := l.Log.ReadAt(p, off)
	l.read.Add(int64(n))
	return n, err
}

// archive is an API about conversations with so many messages each.
func archive(tb testing.TB, chats, messages int) (d *web.Desk, read *atomic.Int64) {
	tb.Helper()
	data := tb.TempDir()
	read = &atomic.Int64{}
	st, err := session.Open(session.Options{DataDir: data, Store: metered{disk.Open(data, nil), read}, Workspace: tb.TempDir(), Fsync: session.FsyncNever, Now: noon})
	must(tb, err)
	tb.Cleanup(func() { must(tb, st.Close()) })
	words := strings.Repeat("words of a conversation ", 20)
	for chat := range chats {
		s, err := st.Acquire(tb.Context(), fmt.Sprintf("websocket:c%d", chat))
		must(tb, err)
		for i := 0; i < messages; i += 2 {
			must(tb, s.BeginTurn(fmt.Sprintf("t%d", i), user(fmt.Sprint(i, words))))
			must(tb, s.EndTurn(answer(fmt.Sprint(i+1, words))))
		}
		must(tb, s.Release())
	}
	program := &subject.Program{Sessions: st, Agent: worker{}, Secrets: &httpsafe.Registry{}}
	log := slog.New(slog.DiscardHandler)
	now := func(context.Context) (*subject.Program, error) { return program, nil }
	d, err = web.NewDesk(
		log,
		subject.Conversations{Now: now, Unread: subject.NewUnread(disk.Open(data, nil), log), Log: log},
		subject.Thread{Now: now, Seq: func(string) (int64, bool) { return 0, false }, Attachment: attachment, Log: log},
	)
	must(tb, err)
	return d, read
}

func fetch(tb testing.TB, d *web.Desk, path string) {
	tb.Helper()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/api/"+path, http.NoBody))
	if w.Code != http.StatusOK {
		tb.Fatalf("%s = %d %s", path, w.Code, w.Body)
	}
}

// A page costs what is on it, not what the conversation holds.
func TestThreadCost(t *testing.T) {
	t.Parallel()
	costs := map[string][]int64{}
	for _, n := range []int{1000, 10000} {
		d, read := archive(t, 1, n)
		for _, query := range []string{"", "?before=500", "?after=500", "?around=500"} {
			read.Store(0)
			fetch(t, d, "sessions/websocket:c0/webui-thread"+query)
			costs[query] = append(costs[query], read.Load())
		}
	}
	for query, c := range costs {
		if c[1] > 3*c[0]+512<<10 || query == "" && c[1] > 2*c[0] {
			t.Errorf("page %q: %d bytes read of 1,000 messages, %d of 10,000", query, c[0], c[1])
		}
	}
}

func BenchmarkThread(b *testing.B) {
	for _, n := range []int{10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d, _ := archive(b, 1, n)
			for b.Loop() {
				fetch(b, d, "sessions/websocket:c0/webui-thread")
			}
		})
	}
}

func BenchmarkSessions(b *testing.B) {
	d, _ := archive(b, 1000, 4)
	for b.Loop() {
		fetch(b, d, "sessions")
	}
}
