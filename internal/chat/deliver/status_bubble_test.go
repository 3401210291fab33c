package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// logLines keeps what is logged: level, message and the reason.
type logLines struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.all = append(l.all, line)
	return nil
}

// That a platform is gone stands in the log once, however long it lasts, and
// so does that it is back.
func TestLostAndBackInTheLog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{}
		p.run = func(ctx context.Context) error {
			p.deps.Ready("@bot", nil)
			for _, why := range []string{"another program uses the token", "it still does", "no route"} {
				time.Sleep(time.Minute)
				p.deps.Ready("@bot", errors.New(why))
			}
			time.Sleep(time.Minute)
			p.deps.Ready("@bot", nil)
			p.deps.Ready("@bot", nil)
			<-ctx.Done()
			return nil
		}
		log := &logLines{}
		r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) { o.Log = slog.New(log) })
		time.Sleep(3*time.Minute + time.Second)
		if s := r.m.Status()[0]; s.State != deliver.Failed || s.Error != "no route" {
			t.Errorf("status %+v, want the last reason", s)
		}
		time.Sleep(time.Hour)
		log.mu.Lock()
		defer log.mu.Unlock()
		var got []string
		for _, l := range log.all {
			if strings.Contains(l, "a channel ") {
				got = append(got, l)
			}
		}
		want := []string{
			"INFO a channel is connected as=@bot",
			"WARN a channel has lost its platform and tries to get back err=another program uses the token",
			"INFO a channel is connected as=@bot",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

// What a platform knows by itself is data in its Caps: which chats are groups,
// and who is connected.
func TestCapsThatAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{
			Rate:    chat.Rate{Group: chat.Limit{Count: 1, Per: time.Minute}},
			Group:   func(to bus.Route) bool { return to.ChatID == "crowd" },
			Clients: func() int { return 3 },
		}}
		r := newRig(t, map[string]*platform{"a": p})
		if got := r.m.Status()[0].Clients; got != 3 {
			t.Errorf("%d clients, want 3", got)
		}
		r.publish(final("1", "crowd", "one"), final("2", "crowd", "two"), final("3", "ann", "three"), final("4", "ann", "four"))
		time.Sleep(time.Second)
		if got := len(p.saw("send")); got != 3 {
			t.Errorf("%d messages after a second, want 3: only the group is slowed down", got)
		}
		time.Sleep(time.Minute)
		if got := len(p.saw("send")); got != 4 {
			t.Errorf("%d messages after a minute, want 4", got)
		}
	})
}

// noErase is a platform that lacks one of the two methods of a Streamer.
type noErase struct{ chat.Channel }

func (noErase) Edit(context.Context, bus.Route, string, string, bool) error { return nil }

// A platform that promises edits and cannot stream is told so.
func TestHalfAStreamer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, log := streaming(), &logLines{}
		newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
			o.Log = slog.New(log)
			o.Drivers["a"] = chat.Driver{New: func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) { p.deps = d; return noErase{p}, nil }}
		})
		log.mu.Lock()
		defer log.mu.Unlock()
		if all := strings.Join(log.all, "\n"); !strings.Contains(all, "not both methods, Edit and Erase") {
			t.Errorf("no warning in the log:\n%s", all)
		}
	})
}

// Until the platform has let us in once, the pauses stay short: somebody may be
// waiting for the first connection.
func TestFirstConnectionIsTriedSoon(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		up       bool
		longest  time.Duration
		shortest time.Duration // of the last pause
	}{
		"never up":    {false, 40 * time.Second, 20 * time.Second},
		"up for once": {true, 400 * time.Second, 200 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var starts []time.Time
				p := &platform{}
				p.run = func(context.Context) error {
					starts = append(starts, time.Now())
					if c.up && len(starts) == 1 {
						p.deps.Ready("@bot", nil)
					}
					return errors.New("no route")
				}
				r := newRig(t, map[string]*platform{"a": p}, func(*deliver.Options) {})
				time.Sleep(time.Hour)
				s := r.m.Status()[0]
				n := len(starts)
				if last := starts[n-1].Sub(starts[n-2]); last > c.longest || last < c.shortest || s.State != deliver.Failed {
					t.Errorf("after %d tries %s pass, %s", n, last, s.State)
				}
			})
		})
	}
}
