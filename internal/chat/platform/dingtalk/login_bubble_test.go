package dingtalk

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
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
)

// phone is a person who looks at the code.
type phone struct{ notes []string }

func (p *phone) Tell(s chat.Step) {
	if strings.HasPrefix(s.QR, "https://") && s.URL == s.QR && !s.Expires.IsZero() {
		p.notes = append(p.notes, s.Note)
	}
}

func (*phone) Ask(context.Context, chat.Question) (string, error) {
	return "", errors.New("nothing is asked")
}

// memoryTransport serves requests without a network.
type memoryTransport struct{ http.Handler }

func (m memoryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w.Result(), nil
}

func bubbleDeps(h http.Handler) chat.Deps {
	return chat.Deps{
		Name:   "dingtalk",
		Client: func(string) (*http.Client, error) { return &http.Client{Transport: memoryTransport{h}}, nil },
		Log:    slog.New(slog.DiscardHandler),
		Now:    time.Now,
	}
}

// TestLogin: an app is made by a code, which is shown again when it expires.
func TestLogin(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	made := map[string]any{"enabled": true, "clientId": dingtalktest.ClientID, "clientSecret": dingtalktest.ClientSecret}
	for _, c := range []struct {
		name    string
		states  []string
		section string
		force   bool
		notes   []string
		patch   map[string]any
		err     string
	}{
		{"scanned", []string{"wait", "broken", "wait", "success"}, `{}`, false, []string{scanNote}, made, ""},
		{"expired once", []string{"wait", "expired", "success"}, `{"allowFrom": ["ann"]}`, false, []string{scanNote, oldNote + scanNote}, made, ""},
		{"never scanned", []string{"wait"}, `{}`, false, []string{scanNote, oldNote + scanNote, oldNote + scanNote}, nil, "expired before"},
		{"refused", []string{"wait", "refused"}, `{}`, false, []string{scanNote}, nil, "refused on the phone: the user refused"},
		{"works already", nil, `{"clientId": "` + dingtalktest.ClientID + `", "clientSecret": "` + dingtalktest.ClientSecret + `"}`, false, nil, nil, ""},
		{
			"another organisation",
			[]string{"success"},
			`{"clientId": "old", "clientSecret": "s", "allowFrom": ["ann"], "owners": ["ann"]}`, true,
			[]string{scanNote},
			map[string]any{"enabled": true, "clientId": dingtalktest.ClientID, "clientSecret": dingtalktest.ClientSecret, "allowFrom": []string{}, "owners": []string{}},
			"",
		},
		{"wrong section", nil, `{"apiBaseUrl": "x"}`, false, nil, nil, "apiBaseUrl"},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake.Scan(c.states...)
			p := &phone{}
			got, err := login(t.Context(), bubbleDeps(fake.Handler()), json.RawMessage(c.section), p, c.force)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			if d := cmp.Diff(c.notes, p.notes); d != "" {
				t.Errorf("%s: shown (-want +got):\n%s", c.name, d)
			}
			if d := cmp.Diff(c.patch, got.Patch); d != "" {
				t.Errorf("%s: settings (-want +got):\n%s", c.name, d)
			}
		})
	}
}

// TestLoginEnds: a person who leaves ends it at once, and a DingTalk that does
// not know us says what to do instead.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	fake := loopback(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := login(ctx, bubbleDeps(fake.Handler()), json.RawMessage(`{}`), &phone{}, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("login: %v", err)
		}
		fake.Forget()
		if _, err := login(t.Context(), bubbleDeps(fake.Handler()), json.RawMessage(`{}`), &phone{}, false); err == nil || !strings.Contains(err.Error(), "loginSource") {
			t.Errorf("unknown: %v", err)
		}
		page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
		if _, err := login(t.Context(), bubbleDeps(page), json.RawMessage(`{}`), &phone{}, false); err == nil || !strings.Contains(err.Error(), "names no code") {
			t.Errorf("another page: %v", err)
		}
	})
}
