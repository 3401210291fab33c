package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
)

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func diff(t *testing.T, what string, got, want []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestOrderAndParts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{MaxChars: 64, MaxMedia: 10}}
		r := newRig(t, map[string]*platform{"a": p})
		long := strings.Repeat("x", 60) + "\n\n" + strings.Repeat("y", 60)
		out := final("1", "c", long)
		out.Media = []bus.Media{{Name: "small", Size: 5}, {Name: "big", Size: 50}}
		r.publish(out, final("2", "c", "two"), final("3", "d", "other"))
		var got []string
		for _, e := range p.saw("send") {
			if e.Chat == "c" {
				got = append(got, e.Text)
			}
		}
		diff(t, "chat c", got, []string{strings.Repeat("x", 60), strings.Repeat("y", 60), "[attachment: big - too large]", "<small>", "two"})
	})
}

// A platform that hangs or waits holds up nobody else, and a chat that is
// limited no other chat.
func TestIsolation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &platform{hang: make(chan struct{})}
		b := &platform{}
		b.fail = func(_ string, out bus.Outbound) error {
			if out.Route.ChatID == "slow" && time.Since(b.start) < time.Minute {
				return chat.RateLimited(time.Minute, errors.New("slow down"))
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": a, "b": b})
		r.publish(final("1", "c", "hangs"), bus.Outbound{ID: "2", Kind: bus.Final, Route: route("b", "slow"), Text: "later"},
			bus.Outbound{ID: "3", Kind: bus.Final, Route: route("b", "slow"), Text: "after it"}, bus.Outbound{ID: "4", Kind: bus.Final, Route: route("b", "quick"), Text: "now"})
		diff(t, "at once", b.texts("send"), []string{"now"})
		time.Sleep(90 * time.Second)
		diff(t, "later", b.texts("send"), []string{"now", "later", "after it"})
		if got := b.saw("send")[1].At; got != time.Minute {
			t.Errorf("the limited message went out after %v, want exactly the minute asked for", got)
		}
		close(a.hang)
		synctest.Wait()
		diff(t, "hanging", a.texts("send"), []string{"hangs"})
	})
}

func TestRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{}
		p.fail = func(string, bus.Outbound) error {
			if time.Since(p.start) < 20*time.Minute {
				return errors.New("server error")
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(final("1", "c", "one"), final("2", "c", "two"))
		time.Sleep(time.Hour)
		diff(t, "sent", p.texts("send"), []string{"one", "two"})
		var pauses []time.Duration
		refused := p.saw("refused")
		for i := range min(5, len(refused)-1) {
			pauses = append(pauses, refused[i+1].At-refused[i].At)
		}
		if d := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}, pauses); d != "" {
			t.Errorf("pauses (-want +got):\n%s", d)
		}
		if st := r.m.Status()[0]; st.Retries != len(refused) {
			t.Errorf("%d retries counted of %d", st.Retries, len(refused))
		}
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// What cannot be sent before the end comes again after it, and parts that were
// sent do not.
func TestRestartGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{MaxChars: 64}}
		var broken atomic.Bool
		broken.Store(true)
		p.fail = func(_ string, out bus.Outbound) error {
			if broken.Load() && strings.HasPrefix(out.Text, "y") {
				return errors.New("gone")
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(final("1", "c", strings.Repeat("x", 60)+"\n\n"+strings.Repeat("y", 60)), final("2", "c", "two"))
		r.end()
		broken.Store(false)
		r.begin()
		diff(t, "sent", p.texts("send"), []string{strings.Repeat("x", 60), strings.Repeat("y", 60), "two"})
		r.end()
		r.begin()
		if got := len(p.saw("send")); got != 3 {
			t.Errorf("%d messages after another restart, want the same 3", got)
		}
	})
}

func TestPermanentFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{MaxMedia: 100}}
		p.fail = func(_ string, out bus.Outbound) error {
			if out.Text == "bad" || len(out.Media) > 0 && out.Media[0].Name == "virus" {
				return chat.Permanent(errors.New("refused for ever"))
			}
			if out.Text == "panic" {
				panic("oh no")
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		files := final("2", "c", "files")
		files.Media = []bus.Media{{Name: "virus", Size: 1}, {Name: "ok", Size: 1}}
		r.publish(final("1", "c", "bad"), files, final("3", "c", "panic"), final("4", "c", "good"))
		diff(t, "sent", p.texts("send"), []string{
			"My answer could not be shown here. Ask me to write it differently.",
			"files", "[attachment: virus - send failed]", "<ok>",
			"My answer could not be shown here. Ask me to write it differently.", "good",
		})
		st := r.m.Status()[0]
		if st.Failed != 3 || len(st.Failures) != 3 || st.Failures[0].Error != "refused for ever" || st.Sent != 2 {
			t.Errorf("status %+v, want 3 failures and 2 sent", st)
		}
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages would come again", n)
		}
	})
}

func TestFiltersAndJoining(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{Rate: chat.Rate{Chat: chat.Limit{Count: 1, Per: time.Second}}}}
		r := newRig(t, map[string]*platform{"a": p})
		say := func(k bus.Kind, text string) bus.Outbound {
			return bus.Outbound{Kind: k, Route: route("a", "c"), Text: text}
		}
		r.publish(say(bus.Progress, "first"))
		r.publish(say(bus.Progress, "second"), say(bus.Progress, "third"), say(bus.ToolHint, "hint"),
			say(bus.Reasoning, "thought"), bus.Outbound{Kind: bus.ToolEvent, Route: route("a", "c"), Tool: &bus.Tool{Name: "x"}})
		time.Sleep(10 * time.Second)
		diff(t, "sent", p.texts("send"), []string{"first", "second\nthird"})
	})
}

func TestRates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{Rate: chat.Rate{Total: chat.Limit{Count: 2, Per: time.Second}, Chat: chat.Limit{Count: 1, Per: time.Second}}}}
		r := newRig(t, map[string]*platform{"a": p})
		for i := range 6 {
			r.publish(final(fmt.Sprint(i), fmt.Sprint(i%3), "x"))
		}
		time.Sleep(time.Minute)
		events := p.saw("send")
		if len(events) != 6 {
			t.Fatalf("%d messages sent, want 6", len(events))
		}
		if last := events[5].At; last < 2*time.Second || last > 4*time.Second {
			t.Errorf("six messages at two a second took %v", last)
		}
	})
}

func TestAskAndDuplicates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{}
		r := newRig(t, map[string]*platform{"a": p})
		ask := func(id string, in time.Duration) bus.Outbound {
			return bus.Outbound{ID: id, Kind: bus.Ask, Route: route("a", "c"), Text: "Run it?", Question: &bus.Question{ID: id, Text: "Run it?", Options: []string{"yes", "no"}, Expires: time.Now().Add(in)}}
		}
		same := final("1", "c", "the same")
		same.Route.MessageID = "77"
		again := same
		again.ID, again.Text = "2", "the  same\n"
		other := same
		other.ID, other.Route.MessageID = "3", "78"
		offer := bus.Outbound{ID: "4", Kind: bus.Message, Route: route("a", "c"), Text: "Tea?", Question: &bus.Question{ID: "4", Options: []string{"yes"}}}
		listed := bus.Outbound{ID: "5", Kind: bus.Message, Route: route("a", "c"), Text: "Tea?\n1. yes", Question: &bus.Question{ID: "5", Text: "Tea?", Options: []string{"yes"}}}
		r.publish(ask("q1", -time.Second), ask("q2", time.Hour), same, again, other, offer, listed)
		diff(t, "sent", p.texts("send"), []string{
			"Run it?\n\nAnswer with one of: yes, no", "the same", "the same", "Tea?\n\nAnswer with one of: yes", "Tea?\n1. yes",
		})
	})
}

func TestSupervisor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b, c := &platform{}, &platform{}, &platform{}
		var starts []time.Duration
		a.run = func(ctx context.Context) error {
			starts = append(starts, time.Since(a.start))
			if len(starts) < 4 {
				return errors.New("no route to host")
			}
			a.deps.Ready("bot-a", nil)
			<-ctx.Done()
			return nil
		}
		b.run = func(context.Context) error { return chat.Fatal(errors.New("the token is wrong")) }
		c.run = func(context.Context) error { panic("boom") }
		r := newRig(t, map[string]*platform{"a": a, "b": b, "c": c})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(starts) != 4 || starts[1] < 4*time.Second || starts[1] > 6*time.Second || starts[3]-starts[2] < 16*time.Second {
			t.Errorf("starts at %v, want pauses of about 5, 10 and 20 s", starts)
		}
		st := r.m.Status()
		if st[0].State != deliver.Running || st[0].Identity != "bot-a" || st[0].Error != "" {
			t.Errorf("a: %+v, want running", st[0])
		}
		if st[1].State != deliver.Failed || st[1].Error != "the token is wrong" || st[1].Restarts != 0 {
			t.Errorf("b: %+v, want failed for good", st[1])
		}
		if st[2].State != deliver.Failed || st[2].Error != "panic: boom" || st[2].Restarts == 0 {
			t.Errorf("c: %+v, want failed and tried again", st[2])
		}
	})
}

func TestNotReadyWaitsForReady(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{}
		var ready atomic.Bool
		p.run = func(ctx context.Context) error {
			time.Sleep(7 * time.Second)
			ready.Store(true)
			p.deps.Ready("bot", nil)
			<-ctx.Done()
			return nil
		}
		p.fail = func(string, bus.Outbound) error {
			if !ready.Load() {
				return fmt.Errorf("no socket: %w", chat.ErrNotReady)
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(final("1", "c", "hello"))
		time.Sleep(time.Minute)
		if e := p.saw("send"); len(e) != 1 || e[0].At != 7*time.Second {
			t.Errorf("sent %v, want it when the platform is ready", e)
		}
	})
}

func TestApply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := &platform{}, &platform{}
		var mu sync.Mutex
		runs := map[string]int{}
		for name, p := range map[string]*platform{"a": a, "b": b} {
			p.run = func(ctx context.Context) error {
				mu.Lock()
				runs[name]++
				mu.Unlock()
				p.deps.Ready(name, nil)
				<-ctx.Done()
				return nil
			}
		}
		r := newRig(t, map[string]*platform{"a": a, "b": b}, func(o *deliver.Options) {
			o.Sections["ghost"] = json.RawMessage(`{"enabled":true}`)
			o.Sections["off"] = json.RawMessage(`{"enabled":false}`)
		})
		errs := r.m.Apply(t.Context(), map[string]json.RawMessage{
			"a": json.RawMessage(`{"enabled":true, "allowFrom":["7"], "streaming":true}`), "b": json.RawMessage(`{"enabled":true,"maxMediaBytes":"much"}`),
		})
		synctest.Wait()
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), "maxMediaBytes") {
			t.Errorf("errors %v, want one about maxMediaBytes", errs)
		}
		if errs := r.m.Apply(t.Context(), map[string]json.RawMessage{"a": r.opts.Sections["a"], "b": json.RawMessage(`{"enabled":true}`)}); errs != nil {
			t.Errorf("errors %v, want none", errs)
		}
		synctest.Wait()
		if d := cmp.Diff(map[string]int{"a": 1, "b": 2}, runs); d != "" {
			t.Errorf("runs: only what changed is started again (-want +got):\n%s", d)
		}
		r.publish(final("1", "c", "to a"), bus.Outbound{ID: "2", Kind: bus.Final, Route: route("b", "c"), Text: "to b"})
		diff(t, "a", a.texts("send"), []string{"to a"})
		diff(t, "b", b.texts("send"), []string{"to b"})
	})
}

func TestBadSectionsStopNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{}
		r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) {
			o.Sections["ghost"] = json.RawMessage(`{"enabled":true}`)
			o.Sections["off"] = json.RawMessage(`{"enabled":false}`)
			o.Drivers["bad"] = chat.Driver{New: func(chat.Deps, json.RawMessage) (chat.Channel, error) {
				return nil, chat.Fatal(errors.New(`unknown key "tokn", did you mean "token"?`))
			}}
			o.Sections["bad"] = json.RawMessage(`{"enabled":true}`)
		})
		r.publish(final("1", "c", "hi"))
		diff(t, "sent", p.texts("send"), []string{"hi"})
		got := map[string]string{}
		for _, s := range r.m.Status() {
			got[s.Name] = string(s.State) + " " + s.Error
		}
		want := map[string]string{
			"a": "running ", "off": "stopped ", "ghost": `failed unknown channel "ghost"; known channels: a, bad`,
			"bad": `failed unknown key "tokn", did you mean "token"?`,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("status (-want +got):\n%s", d)
		}
	})
}

// The end comes soon, whatever hangs, and what is being sent gets out.
func TestShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		quick, stuck := &platform{hang: make(chan struct{})}, &platform{}
		block := make(chan struct{})
		stuck.run = func(context.Context) error { <-block; return nil }
		r := newRig(t, map[string]*platform{"a": quick, "b": stuck})
		r.publish(final("1", "c", "on its way"), final("2", "c", "left"))
		start := time.Now()
		time.AfterFunc(time.Second, func() { close(quick.hang) })
		r.end()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
		diff(t, "sent", quick.texts("send"), []string{"on its way"})
		if n := r.undelivered(); n != 1 {
			t.Errorf("%d messages are left, want 1", n)
		}
		close(block)
	})
}

func TestWholePlatform(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &platform{caps: chat.Caps{Whole: true, MaxChars: 10}}
		var broken atomic.Bool
		p.fail = func(string, bus.Outbound) error {
			if broken.Load() {
				return errors.New("no")
			}
			return nil
		}
		r := newRig(t, map[string]*platform{"a": p})
		r.publish(delta("c", "s", "Hel"), final("1", "c", "Hello, this is longer than ten"))
		broken.Store(true)
		r.publish(final("2", "c", "two"), final("3", "c", "three"))
		broken.Store(false)
		time.Sleep(time.Minute)
		r.publish(final("4", "c", "four"))
		diff(t, "sent", p.texts("send"), []string{"Hel", "Hello, this is longer than ten", "two", "three", "four"})
		r.end()
		if n := r.undelivered(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// A platform may have group policies of its own, and an unknown one of a
// platform without is still an error.
func TestOwnGroupPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		section := json.RawMessage(`{"enabled":true,"allowFrom":["7"],"groupPolicy":0.3}`)
		var own struct {
			chat.Common
			GroupPolicy any `json:"groupPolicy"`
		}
		if err := chat.Decode(section, &own); err != nil || own.GroupPolicy != 0.3 {
			t.Errorf("a policy of its own: %v, %v", own.GroupPolicy, err)
		}
		var usual struct{ chat.Common }
		if err := chat.Decode(section, &usual); err == nil || !chat.IsFatal(err) || errors.Is(err, chat.ErrUnknownKey) {
			t.Errorf("the usual policy: %v", err)
		}
		p := &platform{}
		r := newRig(t, map[string]*platform{"a": p}, func(o *deliver.Options) { o.Sections["a"] = section })
		if s := r.m.Status()[0]; s.State != deliver.Running {
			t.Errorf("the channel is %s: %v", s.State, s)
		}
	})
}
