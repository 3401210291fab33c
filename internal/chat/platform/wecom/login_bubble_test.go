package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
)

// person is somebody in front of the terminal.
type person struct{ steps []string }

func (p *person) Tell(s chat.Step) {
	_, code, _ := strings.Cut(s.QR, "scode=")
	p.steps = append(p.steps, strings.TrimSpace(code+" "+s.Note))
}

func (*person) Ask(context.Context, chat.Question) (string, error) {
	return "", errors.New("nothing is asked")
}

// memoryTransport serves requests without a network.
type memoryTransport struct{ http.Handler }

func (m memoryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestLogin: the code is shown, refreshed when it expires, and becomes the
// settings of the bot.
func TestLogin(t *testing.T) {
	t.Parallel()
	fake := wecomtest.New()
	t.Cleanup(fake.Close)
	for _, c := range []struct {
		name    string
		states  []string
		section string
		force   bool
		steps   []string
		patch   map[string]any
		err     string
	}{
		{
			name: "scanned", states: []string{"wait", "broken", "scaned", "scaned", "success"}, section: `{}`,
			steps: []string{"scode " + scanNote, seenNote},
			patch: map[string]any{"enabled": true, "botId": wecomtest.BotID, "secret": wecomtest.Secret},
		},
		{
			name: "expired once", states: []string{"wait", "expired", "success"}, section: `{"enabled": true}`,
			steps: []string{"scode " + scanNote, "scode " + oldNote + " " + scanNote},
			patch: map[string]any{"enabled": true, "botId": wecomtest.BotID, "secret": wecomtest.Secret},
		},
		{
			name: "never scanned", states: []string{"wait"}, section: `{}`,
			steps: []string{"scode " + scanNote, "scode " + oldNote + " " + scanNote, "scode " + oldNote + " " + scanNote},
			err:   "expired before it was confirmed",
		},
		{name: "there already", section: `{"botId": "a", "secret": "s"}`, err: "--force"},
		{
			name: "replaced", states: []string{"success"}, section: `{"botId": "a", "secret": "s", "allowFrom": ["ann"], "owners": ["ann"]}`, force: true,
			steps: []string{"scode " + scanNote},
			patch: map[string]any{"enabled": true, "botId": wecomtest.BotID, "secret": wecomtest.Secret, "allowFrom": []string{}, "owners": []string{}},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake.Scan(c.states...)
			p := &person{}
			result, err := login(t.Context(), deps(fake.Handler()), json.RawMessage(c.section), p, c.force)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			for i := range p.steps {
				p.steps[i] = digits(p.steps[i])
			}
			if d := cmp.Diff(c.steps, p.steps); d != "" {
				t.Errorf("%s: steps (-want +got):\n%s", c.name, d)
			}
			if d := cmp.Diff(c.patch, result.Patch); d != "" {
				t.Errorf("%s: settings (-want +got):\n%s", c.name, d)
			}
		})
	}
}

// digits takes numbers out.
func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}

// TestLoginEnds: a person who leaves ends it at once, and a page that is not
// WeCom's says so.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	fake := wecomtest.New()
	t.Cleanup(fake.Close)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := login(ctx, deps(fake.Handler()), json.RawMessage(`{}`), &person{}, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("login: %v", err)
		}
		for body, want := range map[string]string{"<html>": "not as expected", "{}": "create the bot in the console"} {
			page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
			if _, err := login(t.Context(), deps(page), json.RawMessage(`{}`), &person{}, false); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", body, err)
			}
		}
	})
}

func deps(h http.Handler) chat.Deps {
	return chat.Deps{
		Name:   "wecom",
		Client: func(string) (*http.Client, error) { return &http.Client{Transport: memoryTransport{h}}, nil },
		Log:    slog.New(slog.DiscardHandler),
		Now:    time.Now,
	}
}
