package deliver_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

// deafChat is a platform that takes everything as it is, with one chat whose
// reader has stopped to read.
type deafChat struct {
	*platform
	free chan struct{}
}

func (d *deafChat) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if out.Route.ChatID == "deaf" && out.Kind.Durable() {
		select {
		case <-d.free:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return d.platform.Send(ctx, out)
}

// A reader that takes nothing holds up its own chat only.
func TestWholeChatHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{Whole: true}}
		d := &deafChat{p, make(chan struct{})}
		r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
			o.Drivers["a"] = chat.Driver{New: func(deps chat.Deps, _ json.RawMessage) (chat.Channel, error) { p.deps = deps; return d, nil }}
		})
		r.publish(final("1", "deaf", "one"), delta("deaf", "s", "two is co"), final("2", "deaf", "two"), final("3", "c", "three"))
		time.Sleep(time.Second)
		synctest.Wait()
		diff(t, "sent beside it", p.texts("send"), []string{"three"})
		close(d.free)
		time.Sleep(time.Minute)
		r.publish(final("4", "deaf", "four"))
		diff(t, "sent at last", p.texts("send"), []string{"three", "one", "two is co", "two", "four"})
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// listening is a platform that receives by HTTP.
type listening struct{ *platform }

func (listening) Routes() map[string]http.Handler {
	return map[string]http.Handler{"POST /hook": http.NotFoundHandler()}
}

// A new channel that wants the address of one that runs is the one that fails.
func TestAddressTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := map[string]*platform{"a": {}, "b": {}}
		var sections map[string]json.RawMessage
		r := newRig(t, all, func(o *deliver.Options) {
			for name, p := range all {
				o.Drivers[name] = chat.Driver{New: func(deps chat.Deps, _ json.RawMessage) (chat.Channel, error) {
					p.deps = deps
					return listening{p}, nil
				}}
			}
			sections = maps.Clone(o.Sections)
			delete(o.Sections, "a")
		})
		if errs := r.m.Apply(t.Context(), sections); len(errs) != 1 {
			t.Errorf("errors = %v, want one", errs)
		}
		r.publish(bus.Outbound{ID: "1", Kind: bus.Final, Route: route("b", "c"), Text: "still here"})
		diff(t, "sent", all["b"].texts("send"), []string{"still here"})
		for _, s := range r.m.Status() {
			if want := map[string]deliver.Condition{"a": deliver.Failed, "b": deliver.Running}[s.Name]; s.State != want {
				t.Errorf("%s is %s (%s), want %s", s.Name, s.State, s.Error, want)
			}
			if want := `the address "POST /hook" cannot be served: another channel uses it; give one of them a separate port`; s.Name == "a" && s.Error != want {
				t.Errorf("a failed because %q, want %q", s.Error, want)
			}
		}
	})
}

// The reply to another message, such as /status, leaves a text that is being
// shown alone.
func TestStreamBesideCommand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := streaming()
		r := newRig(t, map[string]*platform{"a": p})
		of := func(message string, o bus.Outbound) bus.Outbound { o.Route.MessageID = message; return o }
		r.publish(of("q", delta("c", "s", "The answer")))
		time.Sleep(time.Minute)
		r.publish(of("cmd", final("1", "c", "Status: fine.")))
		r.publish(of("q", delta("c", "s", " is long.")), of("q", end("c", "s", false)), of("q", final("2", "c", "The answer is long.")))
		time.Sleep(time.Minute)
		shown := map[string]string{}
		for _, e := range p.saw("send", "edit", "final edit") {
			shown[e.ID] = e.Text
		}
		if len(shown) != 2 || shown["m1"] != "The answer is long." || shown["m2"] != "Status: fine." {
			t.Errorf("the chat shows %q", shown)
		}
	})
}

// mute is a platform that does not listen when it is told to stop sending.
type mute struct {
	*platform
	free chan struct{}
}

func (m *mute) Send(context.Context, bus.Outbound) (string, error) {
	<-m.free
	return "", nil
}

// A platform that does not listen cannot hold up the end, nor a new configuration.
func TestEndDespiteStuckSend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{}
		m := &mute{p, make(chan struct{})}
		defer close(m.free)
		r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
			o.Drivers["a"] = chat.Driver{New: func(deps chat.Deps, _ json.RawMessage) (chat.Channel, error) { p.deps = deps; return m, nil }}
		})
		r.publish(final("1", "c", "one"))
		start := time.Now()
		r.end()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}
