package signal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
)

const programMode = "NANOBOT_TEST_SIGNAL_CLI"

func leave(code int, why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(code) //nolint:forbidigo // the other program ends without the rest of the tests
}

// TestSignalCLI is signal-cli, when it is started as one.
func TestSignalCLI(t *testing.T) {
	if os.Getenv(programMode) == "" {
		return // this is the test itself
	}
	args := os.Args[slices.Index(os.Args, "--")+1:]
	if len(args) < 2 || args[0] != "--config" {
		leave(2, fmt.Sprintf("unexpected arguments %q", args))
	}
	dir, number, args := args[1], "", args[2:]
	if args[0] == "-a" {
		number, args = args[1], args[2:]
	}
	if len(args) != 6 || args[0] != "daemon" || args[1] != "--http" || !slices.Equal(args[3:], []string{"--receive-mode", "on-connection", "--no-receive-stdout"}) {
		leave(2, fmt.Sprintf("unexpected arguments %q", args))
	}
	if number != "" && number != signaltest.Number {
		leave(1, "User "+number+" is not registered.")
	}
	asked := make(chan os.Signal, 1)
	ossignal.Notify(asked, syscall.SIGTERM)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", args[2])
	if err != nil {
		leave(3, err.Error())
	}
	fake := signaltest.Serve(l, signaltest.Number)
	if number == "" {
		fake.Link(signaltest.Number, 1)
	}
	fake.Post(from(ann, annUUID, "Ann", 1700000000001, object{"message": "hello child"}))
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-asked:
			if err := os.WriteFile(filepath.Join(dir, "ended"), nil, 0o600); err != nil {
				leave(3, err.Error())
			}
			leave(0, "ended politely")
		case <-tick.C:
		}
		if slices.ContainsFunc(fake.Messages(), func(m signaltest.Message) bool { return m.Text == "die" }) {
			leave(4, "out of memory")
		}
	}
}

// installed puts a signal-cli on the PATH and returns a folder for it.
func installed(t *testing.T) (dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the program of this test is a shell script")
	}
	dir = t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' -test.run='^TestSignalCLI$' -- \"$@\"\n", programMode, os.Args[0])
	if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}

// newManaged is a rig whose channel starts signal-cli.
func newManaged(t *testing.T, changes object) (r *rig, dir string) {
	t.Helper()
	dir = installed(t)
	r = &rig{Rig: chattest.NewRig(t), t: t}
	r.deps = r.Deps("signal")
	r.deps.Client = client4(t)
	all := object{"managed": true, "configDir": dir}
	maps.Copy(all, changes)
	r.open("192.0.2.1", 1, all)
	return r, dir
}

// The channel starts signal-cli, talks to it and ends it politely.
func TestManaged(t *testing.T) {
	r, dir := newManaged(t, nil)
	to := bus.Outbound{Kind: bus.Final, Route: bus.Route{Channel: "signal", ChatID: ann}, Text: "hi"}
	if _, err := r.Send(t.Context(), to); !errors.Is(err, chat.ErrNotReady) {
		t.Errorf("before the start: %v", err)
	}
	stop := r.Start(r.Run)
	if in := r.receive(1)[0]; in.Text != "hello child" || in.Route.ChatID != ann {
		t.Errorf("received %+v", in)
	}
	if got := r.States(); !slices.Equal(got, []string{signaltest.Number}) {
		t.Errorf("the states are %q", got)
	}
	if _, err := r.Send(t.Context(), to); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
		t.Errorf("it was not asked to end: %v", err)
	}
	if _, err := r.Send(t.Context(), to); !errors.Is(err, chat.ErrNotReady) {
		t.Errorf("after the end: %v", err)
	}
	if strings.Contains(r.Log.String(), "hello child") {
		t.Errorf("the log shows a message:\n%s", r.Log)
	}
}

// The end of signal-cli ends the channel with its last words, so that the
// supervisor starts both again.
func TestManagedDies(t *testing.T) {
	r, _ := newManaged(t, nil)
	result := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { result <- r.Run(ctx, r.Submit) }()
	r.receive(1)
	_, _ = r.Send(t.Context(), bus.Outbound{Kind: bus.Final, Route: bus.Route{Channel: "signal", ChatID: ann}, Text: "die"})
	if err := <-result; err == nil || !strings.Contains(err.Error(), "signal-cli ended: exit status 4: out of memory") || chat.IsFatal(err) {
		t.Errorf("Run: %v", err)
	}
}

// What trying again does not change is fatal and says what to do.
func TestManagedCannot(t *testing.T) {
	r, _ := newManaged(t, object{"phoneNumber": "+4915100000009"})
	if err := r.Run(t.Context(), r.Submit); !chat.IsFatal(err) || !strings.Contains(err.Error(), "signal-cli has no account +4915100000009") {
		t.Errorf("an account that is not there: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := r.Run(t.Context(), r.Submit); !chat.IsFatal(err) || !errors.Is(err, kit.ErrNoProgram) {
		t.Errorf("a program that is not there: %v", err)
	}
	report, err := probe(t.Context(), r.deps, section(t, "x", 1, object{"managed": true}))
	if err != nil || len(report.Checks) != 1 || report.Checks[0].OK {
		t.Errorf("the probe says %+v, %v", report, err)
	}
}

// dialog notes what a person is shown.
type dialog struct{ steps []chat.Step }

func (d *dialog) Tell(s chat.Step) { d.steps = append(d.steps, s) }

func (d *dialog) Ask(context.Context, chat.Question) (string, error) {
	return "", errors.New("nothing is asked")
}

// A login shows codes until one is scanned, and writes the number down. It works
// with a program of ours and with a daemon that serves many accounts.
func TestLogin(t *testing.T) {
	dir := installed(t)
	fake := signaltest.New()
	t.Cleanup(fake.Close)
	fake.Link(signaltest.Number, 1)
	for name, section := range map[string]object{
		"managed": {"managed": true, "configDir": dir},
		"daemon":  {"daemonHost": fake.Host(), "daemonPort": fake.Port()},
	} {
		t.Run(name, func(t *testing.T) {
			deps := chattest.NewRig(t).Deps("signal")
			deps.Client = client4(t)
			raw, err := json.Marshal(section)
			if err != nil {
				t.Fatal(err)
			}
			var d dialog
			got, err := Driver().Login(t.Context(), deps, raw, &d, false)
			if err != nil || got.Identity != signaltest.Number || got.Patch["phoneNumber"] != signaltest.Number {
				t.Errorf("the login found %+v, %v", got, err)
			}
			if len(d.steps) != 2 || !strings.HasPrefix(d.steps[0].QR, "sgnl://linkdevice?") || d.steps[0].QR == d.steps[1].QR || d.steps[1].Note == "" {
				t.Errorf("the steps are %+v", d.steps)
			}
		})
	}
}

// A daemon with one account needs no login if it has the number of the section,
// and cannot link another one.
func TestLoginOneAccount(t *testing.T) {
	t.Parallel()
	fake := signaltest.New()
	t.Cleanup(fake.Close)
	deps := chattest.NewRig(t).Deps("signal")
	deps.Client = client4(t)
	raw := section(t, fake.Host(), fake.Port(), nil)
	if got, err := Driver().Login(t.Context(), deps, raw, &dialog{}, false); err != nil || got.Identity != signaltest.Number {
		t.Errorf("the login found %+v, %v", got, err)
	}
	for _, other := range []struct {
		changes object
		force   bool
	}{{object{"phoneNumber": "+4915100000009"}, false}, {object{"phoneNumber": ""}, false}, {nil, true}} {
		_, err := Driver().Login(t.Context(), deps, section(t, fake.Host(), fake.Port(), other.changes), &dialog{}, other.force)
		if err == nil || !strings.Contains(err.Error(), "start it without -a") {
			t.Errorf("%v: %v", other, err)
		}
	}
	fake.Down(true)
	if _, err := Driver().Login(t.Context(), deps, raw, &dialog{}, false); err == nil || !strings.Contains(err.Error(), "signal-cli does not answer at http://127.0.0.1:") {
		t.Errorf("without a daemon: %v", err)
	}
}
