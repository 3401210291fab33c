package matrix

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
)

// Refused logins say what to do, and are not tried again.
func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"password":        {map[string]any{"password": "wrong"}, "check channels.matrix.userId and channels.matrix.password"},
		"token":           {map[string]any{"password": nil, "accessToken": "wrong"}, "set channels.matrix.password, or a new accessToken"},
		"another account": {map[string]any{"password": nil, "accessToken": "ann"}, "the token belongs to another account"},
		"no homeserver":   {map[string]any{"homeserver": "web"}, "check channels.matrix.homeserver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := home(t)
			if test.changes["accessToken"] == "ann" {
				test.changes["accessToken"] = fake.Token(ann, "PHONE")
			}
			if test.changes["homeserver"] == "web" {
				test.changes["homeserver"] = fake.URL() + "/web"
			}
			r := newRig(t, fake, test.changes)
			if err := r.Run(t.Context(), r.Submit); !chat.IsFatal(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Run: %v, want %q", err, test.want)
			}
		})
	}
}

// A revoked token is replaced by a new login of the same device; with a token
// of the configuration the channel stops.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	run := func() error { return r.Run(t.Context(), r.Submit) }
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	r.Await("the connection", func() bool { return len(r.States()) > 0 })
	device := r.device
	fake.Revoke(matrixtest.Bot)
	if err := <-ended; err == nil || chat.IsFatal(err) {
		t.Errorf("Run: %v", err)
	}
	r.begin()()
	if r.device != device || len(fake.Calls("/login")) != 2 {
		t.Errorf("device %s became %s with %d logins", device, r.device, len(fake.Calls("/login")))
	}

	other := newRig(t, fake, map[string]any{"e2eeEnabled": false, "password": nil, "accessToken": fake.Token(matrixtest.Bot, "OWN")})
	go func() { ended <- other.Run(t.Context(), other.Submit) }()
	other.Await("the connection", func() bool { return len(other.States()) > 0 })
	fake.Revoke(matrixtest.Bot)
	if err := <-ended; !chat.IsFatal(err) {
		t.Errorf("Run with a token: %v", err)
	}
}

// Malformed and unknown events disturb nothing, and are told of once.
func TestBadEvents(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	for range 3 {
		fake.Say(matrixtest.Event{Room: annRoom, Sender: ann}, object{"msgtype": 7, "body": []string{"x"}})
		fake.Say(matrixtest.Event{Room: annRoom, Sender: ann}, object{})
		fake.Say(matrixtest.Event{Room: annRoom, Sender: ann, Type: "org.example.unknown"}, object{"x": 1})
		fake.Say(matrixtest.Event{Room: annRoom, Sender: ann, Type: "m.reaction"}, object{"m.relates_to": object{"key": "👍"}})
		fake.Say(matrixtest.Event{Room: annRoom, Sender: ann, Type: "m.room.encrypted"}, object{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"})
		fake.Say(matrixtest.Event{Room: annRoom, Sender: ann}, object{"msgtype": "m.text", "body": "edit", "m.relates_to": object{"rel_type": "m.replace", "event_id": "$x"}})
	}
	fake.Say(matrixtest.Event{Room: annRoom, Sender: ann}, matrixtest.Text(strings.Repeat("long ", 1<<18)))
	r.say("end", matrixtest.Text("end"))
	got := r.receive(2)
	if len(got) != 2 || got[1].Text != "end" || len(got[0].Text) < 1<<20 {
		t.Errorf("got %d messages", len(got))
	}
	for _, what := range []string{"is malformed", "is encrypted and cannot be read"} {
		if n := strings.Count(r.Log.String(), what); n != 1 {
			t.Errorf("%q was told %d times:\n%s", what, n, r.Log)
		}
	}
}

// A file that grows beyond its declared size is cut off.
func TestLyingFile(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false, "maxMediaBytes": 100})
	end := r.begin()
	c := object{"msgtype": "m.file", "body": "x", "url": fake.Store("text/plain", make([]byte, 101)), "info": object{"size": 10}}
	r.say("1", c)
	if got := shown(r.receive(1)[0]); !strings.Contains(got, "x - too large") {
		t.Errorf("got %q", got)
	}

	end()
	none := newRig(t, fake, map[string]any{"e2eeEnabled": false, "maxMediaBytes": 0})
	defer none.begin()()
	r.say("2", c)
	if got := shown(none.receive(1)[0]); !strings.Contains(got, "files are not accepted") {
		t.Errorf("with maxMediaBytes 0: %q", got)
	}
	if n := len(fake.Calls("/download/")); n != 1 {
		t.Errorf("%d downloads, want one", n)
	}
}

// An encrypted file that was changed is not kept.
func TestChangedFile(t *testing.T) {
	t.Parallel()
	l, err := newLocker(strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 6)
	if n, err := l.Read(data); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	f := l.done("mxc://x/y")
	if string(data) == "secret" {
		t.Fatal("it is not encrypted")
	}
	changed := append([]byte{}, data...)
	changed[0] ^= 1
	if err := f.unlock(changed); err == nil {
		t.Error("a changed file is accepted")
	}
	if err := f.unlock(data); err != nil || string(data) != "secret" {
		t.Errorf("got %q, %v", data, err)
	}
	f.Key.Value = "short"
	if err := f.unlock(data); err == nil {
		t.Error("a malformed key is accepted")
	}
}

// Rate limits of sync are kept to, and other trouble is told.
func TestSyncTrouble(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	fake.Fail(matrixtest.Failure{Path: "/sync", Status: http.StatusTooManyRequests, Code: "M_LIMIT_EXCEEDED", Wait: time.Millisecond})
	fake.Fail(matrixtest.Failure{Path: "/sync", Status: http.StatusOK, Body: "{}"})
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { s := r.States(); return len(s) == 2 && s[1] == matrixtest.Bot })
	if s := r.States()[0]; !strings.Contains(s, "no next_batch") {
		t.Errorf("states %q", r.States())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, nil)
	report, err := probe(t.Context(), r.deps, section(t, fake, nil))
	if err != nil || report.Identity != matrixtest.Bot || len(report.Checks) != 3 || report.Checks[2].OK != linked {
		t.Errorf("%+v, %v", report, err)
	}
	if in, out := len(fake.Calls("/login")), len(fake.Calls("/logout")); in != 1 || out != 1 {
		t.Errorf("%d logins and %d logouts, want no device to be left", in, out)
	}
	if _, err := probe(t.Context(), r.deps, section(t, fake, map[string]any{"password": "wrong"})); !chat.IsFatal(err) || !strings.Contains(err.Error(), "check channels.matrix.userId and channels.matrix.password") {
		t.Errorf("a wrong password: %v", err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"hello":"world"}`)) }))
	t.Cleanup(other.Close)
	if _, err := probe(t.Context(), r.deps, section(t, fake, map[string]any{"homeserver": other.URL})); err == nil || !strings.Contains(err.Error(), "is not a Matrix homeserver") {
		t.Errorf("another server: %v", err)
	}
	if _, err := probe(t.Context(), r.deps, section(t, fake, map[string]any{"password": nil, "accessToken": "wrong"})); !chat.IsFatal(err) {
		t.Errorf("a wrong token: %v", err)
	}
}

// A connection that is open but says nothing is replaced.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	r.silence = 3 * time.Second // the first sync must not take that long
	defer r.begin()()
	fake.Hang(true)
	r.Await("the loss", func() bool {
		return slices.ContainsFunc(r.States(), func(s string) bool { return strings.Contains(s, ": ") })
	})
	fake.Hang(false)
	r.say("1", matrixtest.Text("back"))
	r.receive(1)
}

// Two accounts work side by side, each with a folder of its own; the same
// account twice does not.
func TestTwoAccounts(t *testing.T) {
	t.Parallel()
	fake := home(t)
	work, workRoom := "@work:"+matrixtest.Server, "!work:"+matrixtest.Server
	fake.Account(work, "work's")
	fake.Room(workRoom, nil, ann, work)
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(filepath.Join(dir, "bus"), nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Store: disk.Open(dir, nil), DataDir: dir, Drivers: map[string]chat.Driver{"matrix": Driver()},
		Sections: map[string]json.RawMessage{
			"matrix":       section(t, fake, nil),
			"matrix.work":  section(t, fake, map[string]any{"userId": work, "password": "work's"}),
			"matrix.twice": section(t, fake, map[string]any{"userId": work, "password": "work's"}),
		},
		Client: func(string) (*http.Client, error) {
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			return &http.Client{Transport: transport}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := chattest.NewRig(t)
	stop := r.Start(func(ctx context.Context, _ chat.Submit) error { return m.Run(ctx) })
	states := func() (out map[string]deliver.Condition) {
		out = map[string]deliver.Condition{}
		for _, s := range m.Status() {
			out[s.Name] = s.State
		}
		return out
	}
	r.Await("both", func() bool {
		s := states()
		return s["matrix"] == deliver.Running && (s["matrix.work"] == deliver.Running) != (s["matrix.twice"] == deliver.Running) &&
			(s["matrix.work"] == deliver.Failed) != (s["matrix.twice"] == deliver.Failed)
	})
	fake.Say(matrixtest.Event{Room: annRoom, Sender: ann}, matrixtest.Text("one"))
	fake.Say(matrixtest.Event{Room: workRoom, Sender: ann}, matrixtest.Text("two"))
	got := map[string]string{}
	for range 2 {
		in, err := q.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got[in.Route.ChatID] = in.Text
	}
	if got[annRoom] != "one" || got[workRoom] != "two" {
		t.Errorf("got %v", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "matrix-store", sessionFile)); err != nil {
		t.Error(err)
	}
}

// The device of Python nanobot is left alone: its keys cannot be read.
func TestPythonLogin(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, nil)
	dir, err := r.deps.Dir()
	if err != nil {
		t.Fatal(err)
	}
	old, err := json.Marshal(map[string]string{"access_token": fake.Token(matrixtest.Bot, "PYTHON"), "device_id": "PYTHON"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, sessionFile), old, 0o600); err != nil {
		t.Fatal(err)
	}
	r.begin()()
	if r.device == "PYTHON" || len(fake.Calls("/login")) != 1 {
		t.Errorf("the device is %s after %d logins", r.device, len(fake.Calls("/login")))
	}
	r.reopen(nil)
	r.begin()()
	if n := len(fake.Calls("/login")); n != 1 {
		t.Errorf("%d logins after a restart", n)
	}
}
