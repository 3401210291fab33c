package qq

import (
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
)

// A lost connection is resumed: nothing is missed, and nothing begins again.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*qqtest.Server){
		"cut":       (*qqtest.Server).Cut,
		"reconnect": (*qqtest.Server).Reconnect,
		"timeout":   func(s *qqtest.Server) { s.CloseWith(closeTimeout) },
		"too fast":  func(s *qqtest.Server) { s.CloseWith(closeTooFast) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, nil)
			defer r.begin()()
			fake.Write(qqtest.Direct, "ann", "ann", "one", nil)
			r.receive(1)
			lose(fake)
			fake.Write(qqtest.Direct, "ann", "ann", "two", nil)
			r.Await("the connection", func() bool { return fake.Resumed() > 0 })
			if got := r.receive(2); got[1].Text != "two" {
				t.Errorf("got %q", got[1].Text)
			}
			if n := fake.Identified(); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A session that is over begins again.
func TestNewSession(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*qqtest.Server){
		"invalid session": func(s *qqtest.Server) { s.Forget(); s.Cut() },
		"bad session":     func(s *qqtest.Server) { s.CloseWith(closeBadSession) },
		"bad token":       func(s *qqtest.Server) { s.Expire(); s.CloseWith(closeBadToken) },
		"internal error":  func(s *qqtest.Server) { s.CloseWith(4903) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, nil)
			defer r.begin()()
			lose(fake)
			r.Await("another session", func() bool { return fake.Identified() == 2 && fake.Connected() == 1 })
			fake.Write(qqtest.Direct, "ann", "ann", "hi", nil)
			r.receive(1)
		})
	}
}

// What was written while the program was away comes with the session of the run
// before.
func TestResumeAfterRestart(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	fake.Write(qqtest.Direct, "ann", "ann", "one", nil)
	r.receive(1)
	end()
	fake.Write(qqtest.Direct, "ann", "ann", "two", nil)
	r.reopen(nil)
	end = r.begin()
	if got := r.receive(2); len(got) != 2 || got[1].Text != "two" || fake.Identified() != 1 {
		t.Errorf("got %d messages in %d sessions", len(got), fake.Identified())
	}
	if s := r.States(); s[len(s)-1] != qqtest.BotName {
		t.Errorf("states %q", s)
	}
	end()
}

// Reasons that only a person can end stop the channel, and say what to do.
func TestFatal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secret string
		code   int
		allow  int
		want   string
	}{
		"wrong secret":  {secret: "wrong", want: "channels.qq.appId"},
		"not published": {code: closeSandboxOnly, want: "sandbox"},
		"banned":        {code: closeBanned, want: "banned"},
		"bad shard":     {code: closeBadShard, want: "refuses how the bot logs in"},
		"no intents":    {allow: 1, want: "refuses how the bot logs in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			changes := map[string]any{}
			if c.secret != "" {
				changes["secret"] = c.secret
			}
			if c.allow != 0 {
				fake.Allow(c.allow)
			}
			r := newRig(t, fake, changes)
			stop := make(chan error, 1)
			go func() { stop <- r.Run(t.Context(), r.Submit) }()
			if c.code != 0 {
				r.Await("the connection", func() bool { return len(r.States()) > 0 })
				fake.CloseWith(c.code)
			}
			if err := <-stop; !chat.IsFatal(err) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), qqtest.Secret) {
				t.Errorf("Run: %v", err)
			}
		})
	}
}

// A bot that may not have guilds and buttons works without them.
func TestFewerIntents(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Allow(intentsBase)
	r := newRig(t, fake, nil)
	stop := r.Start(r.Run)
	r.Await("the connection", func() bool { return fake.Connected() == 1 })
	fake.Write(qqtest.Direct, "ann", "ann", "hi", nil)
	r.receive(1)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Two heartbeats without an answer end a connection that is only half open.
func TestZombie(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Beat(time.Second)
	r := newRig(t, fake, nil)
	defer r.begin()()
	fake.Hang()
	fake.Write(qqtest.Direct, "ann", "ann", "hi", nil)
	r.receive(1)
	if s := strings.Join(r.States(), "\n"); !strings.Contains(s, errZombie.Error()) {
		t.Errorf("states %q", s)
	}
}

// Nothing is tried while QQ allows no login.
func TestNoLoginsLeft(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	fake.Logins(0)
	r := newRig(t, fake, nil)
	g := newGateway(r.bot, nil)
	_, err := g.dial(t.Context())
	if err == nil || !strings.Contains(err.Error(), "too often") {
		t.Errorf("dial: %v", err)
	}
	g.session = "s"
	if target, err := g.dial(t.Context()); err != nil || target.URL == "" {
		t.Errorf("a session can still be resumed: %v", err)
	}
}

// A token is fetched once for all, and again before it is over or when QQ
// refuses it.
func TestTokens(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	r := newRig(t, fake, nil)
	now := time.Now()
	r.calls = newClient(r.o, r.calls.rest.Client, func() time.Time { return now })
	ask := func() {
		t.Helper()
		if err := r.calls.get(t.Context(), "/users/@me", nil); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	ask()
	if n := fake.Tokens(); n != 1 {
		t.Errorf("%d tokens", n)
	}
	now = now.Add(7200*time.Second - 49*time.Second)
	ask()
	if n := fake.Tokens(); n != 2 {
		t.Errorf("%d tokens, want another in the last minute", n)
	}
	fake.Expire()
	ask()
	if n := fake.Tokens(); n != 3 {
		t.Errorf("%d tokens, want another after a refusal", n)
	}
}
