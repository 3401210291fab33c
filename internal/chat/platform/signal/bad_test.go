package signal

import (
	"strconv"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
)

// What cannot be read costs a line of the log per cause and nothing else.
func TestBadInput(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	for range 3 {
		for _, s := range []string{
			"data:{\"envelope\":\n\n", "data:[1,2]\n\n", "data:null\n\n", "data:7\n\n", ":\n", "\n\n", "event:unknown\nfoo:bar\n\n",
			`data:{"envelope":{"sourceNumber":5,"dataMessage":{"message":"x"}}}` + "\n\n",
			`data:{"envelope":{"sourceNumber":"` + ann + `","storyMessage":{"x":[]},"callMessage":{}}}` + "\n\n",
			`data:{"envelope":{"sourceNumber":"` + ann + `","dataMessage":null}}` + "\n\n",
			"data:\xff\xfe\n\n",
			"data:" + strings.Repeat("a", maxEvent+1) + "\n\n",
		} {
			r.fake.PostRaw(s)
		}
	}
	huge := strings.Repeat("word ", 200_000)
	at := now()
	r.fake.Post(from(ann, "", "Ann", at, object{"message": huge}))
	r.fake.Post(from(ann, "", "Ann", at, object{"message": huge})) // the same again
	r.fake.Post(from(ann, "", "Ann", at+1, object{"message": "after"}))
	got := r.receive(2)
	if got[0].Text != strings.TrimSpace(huge) || got[1].Text != "after" {
		t.Errorf("got %d messages, the last is %.50q", len(got), got[len(got)-1].Text)
	}
	if n := strings.Count(r.Log.String(), "level=WARN"); n != 2 { // malformed, too long
		t.Errorf("%d warnings:\n%s", n, r.Log)
	}
}

// The channel comes back when the daemon does, and says meanwhile what is wrong.
func TestReconnect(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	defer end()
	r.Await("the connection", func() bool { return len(r.States()) == 1 })
	r.fake.Down(true)
	r.Await("the loss", func() bool { return len(r.States()) >= 3 })
	if s := r.States()[2]; !strings.Contains(s, "signal-cli does not answer at http://127.0.0.1:") || !strings.Contains(s, "signal-cli -a "+signaltest.Number+" daemon --http 127.0.0.1:") {
		t.Errorf("states %q", r.States())
	}
	r.fake.Post(from(ann, "", "Ann", now(), object{"message": "meanwhile"}))
	r.fake.Down(false)
	if got := r.receive(1); got[0].Text != "meanwhile" {
		t.Errorf("got %+v", got)
	}
	if s := r.States(); s[len(s)-1] != signaltest.Number {
		t.Errorf("states %q", s)
	}
}

// An account that signal-cli does not have needs another configuration.
func TestUnknownAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"phoneNumber": "+4915155555555"})
	err := r.Run(t.Context(), r.Submit)
	if !chat.IsFatal(err) || !strings.Contains(err.Error(), "signal-cli has no account +4915155555555") {
		t.Errorf("Run: %v", err)
	}
}

// Two accounts run side by side, each with a daemon of its own.
func TestTwoAccounts(t *testing.T) {
	t.Parallel()
	first, second := newRig(t, nil), newRig(t, nil)
	second.bot.deps.Name = "signal.work"
	defer first.begin()()
	defer second.begin()()
	at := now()
	first.fake.Post(from(ann, "", "Ann", at, object{"message": "home"}))
	second.fake.Post(from(ann, "", "Ann", at, object{"message": "work"}))
	if in := first.receive(1)[0]; in.Route.Channel != "signal" || in.Text != "home" {
		t.Errorf("got %+v", in)
	}
	if in := second.receive(1)[0]; in.Route.Channel != "signal.work" || in.Text != "work" || !strings.HasPrefix(in.ID, "signal.work:") {
		t.Errorf("got %+v", in)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	d := chat.Deps{Client: client4(t)}
	for want, prepare := range map[string]func() object{
		"true true":  func() object { return nil },
		"true false": func() object { return object{"phoneNumber": "+4915155555555"} },
		"false":      func() object { return object{"daemonPort": 1} },
	} {
		got, err := Driver().Probe(t.Context(), d, section(t, r.fake.Host(), r.fake.Port(), prepare()))
		var oks []string
		for _, c := range got.Checks {
			oks = append(oks, strconv.FormatBool(c.OK))
		}
		if err != nil || strings.Join(oks, " ") != want {
			t.Errorf("%+v, %v, want %s", got, err, want)
		}
	}
}
