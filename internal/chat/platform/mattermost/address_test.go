package mattermost

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	r, direct := ready(t)
	for target, want := range map[string]string{
		"~town-square":          town(),
		"#Town-Square":          town(),
		town():                  town(),
		"@ann":                  direct.ChatID,
		"@Ann ":                 direct.ChatID,
		mattermosttest.AnnID():  direct.ChatID,
		"~nowhere":              "",
		"@nobody":               "",
		"nonsense":              "",
		"~":                     "",
		"../../users/me":        "",
		mattermosttest.ID("no"): "",
	} {
		got, err := r.Address(t.Context(), target)
		switch {
		case want == "" && !chat.IsPermanent(err):
			t.Errorf("%q: %v, %v, want an error for good", target, got, err)
		case want != "" && (err != nil || got != bus.Route{Channel: "mattermost", ChatID: want}):
			t.Errorf("%q: %v, %v, want %s", target, got, err, want)
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	section := func(token string) json.RawMessage {
		return json.RawMessage(`{"serverUrl": "` + r.fake.URL() + `", "token": "` + token + `"}`)
	}
	report, err := Driver().Probe(t.Context(), r.deps, section(mattermosttest.Token))
	if err != nil || !strings.HasPrefix(report.Identity, "@nb_bot on 127.0.0.1") || len(report.Checks) != 3 {
		t.Errorf("the report is %+v, %v", report, err)
	}
	if _, err := Driver().Probe(t.Context(), r.deps, section("wrong")); !chat.IsFatal(err) {
		t.Errorf("a wrong token: %v", err)
	}
	if n := r.fake.Connected(); n != 0 {
		t.Errorf("the probe made %d connections", n)
	}
}

// house runs sections with a durable queue and an agent that repeats.
func house(t *testing.T, sections map[string]json.RawMessage) *deliver.Manager {
	t.Helper()
	dir := t.TempDir()
	q, err := journal.Open(disk.Open(filepath.Join(dir, "bus"), nil), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := deliver.NewManager(deliver.Options{
		Queue: q, Drivers: map[string]chat.Driver{"mattermost": Driver()}, Store: disk.Open(dir, nil), DataDir: dir, MaxRetries: 3, Sections: sections,
		Client: func(string) (*http.Client, error) {
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			return &http.Client{Transport: transport}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		for {
			in, err := q.Receive(ctx)
			if err != nil {
				return
			}
			out := bus.Outbound{ID: "final:" + in.ID, Kind: bus.Final, Route: in.Route, Text: "re: " + in.Text}
			if err := q.Complete(ctx, in.ID, out); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Two accounts run side by side; the same account twice does not.
func TestAccounts(t *testing.T) {
	t.Parallel()
	one, two := mattermosttest.New(), mattermosttest.New()
	t.Cleanup(one.Close)
	t.Cleanup(two.Close)
	section := func(s *mattermosttest.Server) json.RawMessage {
		return json.RawMessage(`{"enabled": true, "allowFrom": ["*"], "serverUrl": "` + s.URL() + `", "token": "` + mattermosttest.Token + `"}`)
	}
	m := house(t, map[string]json.RawMessage{"mattermost": section(one), "mattermost.work": section(two), "mattermost.copy": section(two)})
	r := newRig(t, nil) // to wait with
	r.Await("both accounts", func() bool { return one.Connected() == 1 && two.Connected() == 1 })
	refused := func() bool {
		n := 0
		for _, s := range m.Status() {
			if s.State == deliver.Failed {
				n++
			}
		}
		return n == 1
	}
	r.Await("the refusal of the copy", refused)
	for _, s := range []*mattermosttest.Server{one, two} {
		ann := mattermosttest.AnnID()
		s.Say(mattermosttest.Post{UserID: ann, ChannelID: s.Direct(ann), Message: "hi"})
		r.Await("an answer", func() bool { return len(s.Posts("")) == 1 })
		if got := s.Posts("")[0].Message; got != "re: hi" {
			t.Errorf("the answer is %q", got)
		}
	}
}

// The server's limits hold for what is sent.
func TestServerLimits(t *testing.T) {
	t.Parallel()
	fake := mattermosttest.New()
	t.Cleanup(fake.Close)
	fake.Limits(200, 1000)
	house(t, map[string]json.RawMessage{"mattermost": json.RawMessage(`{"enabled": true, "allowFrom": ["*"], "serverUrl": "` + fake.URL() + `", "token": "` + mattermosttest.Token + `"}`)})
	r := newRig(t, nil) // to wait with
	ann := mattermosttest.AnnID()
	r.Await("a connection", func() bool { return fake.Connected() == 1 })
	fake.Say(mattermosttest.Post{UserID: ann, ChannelID: fake.Direct(ann), Message: strings.Repeat("word ", 100)})
	r.Await("all parts", func() bool {
		n := 0
		for _, p := range fake.Posts("") {
			n += strings.Count(p.Message, "word")
		}
		return n == 100
	})
	if n := len(fake.Posts("")); n < 3 {
		t.Errorf("500 characters went out in %d posts of at most 200", n)
	}
}
