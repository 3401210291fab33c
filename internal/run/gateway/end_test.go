package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// hurried is a configuration with one second for turns to end.
var hurried = strings.Replace(partyConfig, `"port": 0`, `"port": 0, "shutdownTimeoutS": 1`, 1)

// A restart ends the watchdog too, although nobody ended the context.
func TestRestartWithWatchdog(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	g, err := gateway.New(t.Context(), h.options())
	h.must(err)
	ctx := t.Context()
	done, up := make(chan error, 1), make(chan struct{})
	go func() {
		done <- g.Run(ctx, func() {
			g.Watchdog(ctx, daemon.Notifier{}, daemon.OpenCrashes(filepath.Join(h.dir, "starts.json")))
			close(up)
		})
	}()
	<-up
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", "/restart"))
	select {
	case err := <-done:
		if !errors.Is(err, gateway.ErrRestart) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(10 * time.Minute):
		t.Fatal("it does not restart")
	}
}

// Whoever ends the gateway while it reloads does not wait for another agent.
// The reload waits for a turn, for as long as the configuration says: where that
// was not enough to end the gateway meanwhile, there is more of it.
func TestEndDuringReload(t *testing.T) {
	t.Parallel()
	for seconds := 1; ; seconds *= 2 {
		n, err := endDuringReload(t, seconds)
		if (n != 1 || err == nil) && seconds < 10 {
			continue
		}
		if err == nil {
			t.Error("the reload claims to have worked")
		}
		if n != 1 {
			t.Errorf("the model was asked %d times, want no turn begun while ending", n)
		}
		return
	}
}

// endDuringReload returns how often the model was asked and what became of the
// reload.
func endDuringReload(t *testing.T, seconds int) (int32, error) {
	t.Helper()
	begun, never := make(chan struct{}), make(chan struct{})
	var asked atomic.Int32
	model := llmtest.NewScript(t)
	model.Otherwise = func(llm.Request) llmtest.Step {
		if asked.Add(1) == 1 {
			close(begun)
		}
		return llmtest.Block(never)
	}
	h := newHost(t, model)
	config := strings.Replace(hurried, `"shutdownTimeoutS": 1`, fmt.Sprintf(`"shutdownTimeoutS": %d`, seconds), 1)
	h.configure(config)
	h.start()
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", "one"))
	<-begun
	h.configure(strings.Replace(config, `"model": "m"`, `"model": "m", "maxToolIterations": 7`, 1))
	reloaded := make(chan error, 1)
	go func() { reloaded <- h.g.Reload(t.Context()) }()
	for h.g.Status().Ready && len(reloaded) == 0 {
		<-time.After(time.Millisecond)
	}
	h.must(h.end())
	return asked.Load(), <-reloaded
}

// A tool that does not listen to its context cannot hold up the end.
func TestEndDespiteStuckTool(t *testing.T) {
	t.Parallel()
	begun, free := make(chan struct{}), make(chan struct{})
	deaf := tool.Func(tool.Tool{Name: "stuck", Description: "x"}, func(context.Context, tool.Call, struct{}) (tool.Result, error) {
		close(begun)
		<-free
		return tool.Text("late"), nil
	})
	h := newHost(t, llmtest.NewScript(t, llmtest.Call("stuck", struct{}{})))
	h.tools = []tool.Tool{deaf}
	h.configure(hurried)
	h.start()
	<-h.party.joined
	h.must(h.party.write(t, "ann", "1", "one"))
	<-begun
	start := time.Now()
	err := h.end()
	if err == nil || !strings.Contains(err.Error(), "did not stop in time") {
		t.Errorf("ended with %v", err)
	}
	if d := time.Since(start); d > 5*time.Minute {
		t.Errorf("the end took %s", d)
	}
	close(free)
}

// When neither the new configuration nor the old one can be put to use any
// more, the gateway goes on trying. Messages wait.
func TestReloadWithoutWayBack(t *testing.T) {
	t.Parallel()
	h, finish, reloaded := reloading(t)
	ws := h.g.Workspace()
	h.must(os.Rename(ws, ws+".away"))
	h.must(os.WriteFile(ws, nil, 0o600))
	close(finish)
	if err := <-reloaded; err == nil {
		t.Error("reloaded without a workspace")
	}
	h.must(h.party.write(t, "ann", "2", "two"))
	if err := h.g.Reload(t.Context()); err == nil {
		t.Error("reloaded without a workspace")
	}
	h.must(os.Remove(ws))
	h.must(os.Rename(ws+".away", ws))
	h.party.hear(t, "later")
	h.must(h.end())
}

// After many crashes the platforms are off for a while, but not the pages: they show
// what is wrong. Once they are on, a changed configuration leaves them on.
func TestChannelsAfterCrashes(t *testing.T) {
	t.Parallel()
	h := newHost(t, echo(t))
	h.quiet = true
	h.start()
	_, s := h.page()
	s.say(`{"type":"message","chat_id":"yard","content":"say #one","turn_id":"1"}`)
	s.until("turn_end")
	h.must(h.g.Reload(t.Context()))
	if n := h.party.builds(); n != 0 {
		t.Errorf("%d platforms were built", n)
	}
	gateway.LetChannelsIn(t.Context(), h.g)
	<-h.party.joined
	h.must(h.g.Reload(t.Context()))
	h.must(h.party.write(t, "ann", "2", "say #two"))
	h.party.hear(t, "echo #two")
	h.must(h.end())
}
