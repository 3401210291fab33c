package channel_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/channel"
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
		r := newRig(t, map[string]*platform{"a": p}, func(o *channel.Options) { o.Log = slog.New(log) })
		time.Sleep(3*time.Minute + time.Second)
		if s := r.m.Status()[0]; s.State != channel.Starting || s.Error != "no route" {
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
