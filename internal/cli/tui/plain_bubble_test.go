package tui

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

func TestPlainChatInterrupts(t *testing.T) {
	for _, c := range []struct {
		name    string
		stop    bool
		signals int
	}{
		{"cancels the turn", false, 1},
		{"stop first, then cut off", true, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d desk
				signals := make(chan os.Signal)
				r, w := io.Pipe()
				o := d.options()
				o.Console.In, o.Interrupts = r, signals
				o.Console.InTTY, o.Console.OutTTY, o.Getenv = true, true, dumb
				o.Ask = scripted(hang)
				stops := 0
				if c.stop {
					o.Stop = func(context.Context, string) { stops++ }
				}
				done := make(chan error, 1)
				go func() { done <- Chat(t.Context(), o) }()
				_, _ = io.WriteString(w, "work\n")
				for range c.signals {
					synctest.Wait()
					if strings.Contains(d.out.String(), "stopped") {
						t.Error("ended too early")
					}
					signals <- os.Interrupt
				}
				synctest.Wait()
				if got, want := d.out.String(), "You: ! stopped\nYou: "; !strings.HasSuffix(got, want) {
					t.Errorf("out = %q, want suffix %q", got, want)
				}
				if c.stop && stops != 1 {
					t.Errorf("Stop called %d times, want once", stops)
				}
				signals <- os.Interrupt // at the prompt it leaves
				if err := <-done; err != nil {
					t.Errorf("Chat = %v, want nil", err)
				}
				w.Close()
			})
		})
	}
}

func TestPlainChatLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		r, w := io.Pipe()
		late := make(chan bus.Outbound)
		o := d.options()
		o.Console.In, o.Late = r, late
		o.Console.InTTY, o.Console.OutTTY, o.Getenv = true, true, dumb
		done := make(chan error, 1)
		go func() { done <- Chat(t.Context(), o) }()
		late <- bus.Outbound{Kind: bus.Final, Text: "the job is done"}
		close(late)
		synctest.Wait()
		if got, want := d.out.String(), "You: \nthe job is done\nYou: "; got != want {
			t.Errorf("out = %q, want %q", got, want)
		}
		w.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A one-shot turn shows that it works, and leaves nothing of it behind.
func TestOneShotSpinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		v := newVT(40, 10)
		o := d.options()
		o.Console.Out, o.Console.OutTTY, o.Console.Size = v, true, v.size
		o.Ask = scripted(func(ctx context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
			pause(ctx, 3*time.Second)
			yield(bus.Outbound{Kind: bus.Delta, Text: "half a"}, nil)
			pause(ctx, 3*time.Second)
			yield(bus.Outbound{Kind: bus.Final, Streamed: true, Text: "half a"}, nil)
		})
		done := make(chan error, 1)
		go func() {
			_, err := OneShot(t.Context(), o)
			done <- err
		}()
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if got := v.text(t); !strings.Contains(got, "thinking 2s") {
			t.Errorf("no spinner:\n%s", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := v.text(t); !strings.Contains(got, "half a\n") || !strings.Contains(got, "writing") {
			t.Errorf("no preview:\n%s", got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got, want := v.text(t), "half a\n▮\n"; got != want {
			t.Errorf("screen = %q, want %q", got, want)
		}
	})
}

func TestOneShotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		v := newVT(40, 10)
		o := d.options()
		o.Console.Out, o.Console.OutTTY, o.Console.Size = v, true, v.size
		o.Ask = scripted(hang)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := OneShot(ctx, o); err == nil {
			t.Error("OneShot = nil, want the error of the context")
		}
		if got := v.text(t); got != "▮\n" {
			t.Errorf("screen = %q, want it empty", got)
		}
	})
}
