package feishu

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

// phone is a person who looks at the code.
type phone struct{ steps []chat.Step }

func (p *phone) Tell(s chat.Step) { p.steps = append(p.steps, s) }
func (p *phone) Ask(context.Context, chat.Question) (string, error) {
	panic("nothing is asked")
}

// An app is made by a code that somebody scans.
func TestLogin(t *testing.T) {
	t.Parallel()
	made := map[string]any{"client_id": "cli_new", "client_secret": "new-secret", "user_info": map[string]any{"open_id": "ou_me", "tenant_brand": "feishu"}}
	lark := map[string]any{"client_id": "cli_new", "client_secret": "new-secret", "user_info": map[string]any{"open_id": "ou_me", "tenant_brand": "lark"}}
	for name, c := range map[string]struct {
		set    map[string]any
		answer map[string]any
		patch  map[string]any
		wrong  string
	}{
		"first": {
			map[string]any{"appId": "", "allowFrom": []string{}},
			made,
			map[string]any{"enabled": true, "appId": "cli_new", "appSecret": "new-secret", "domain": "feishu", "identityKey": "feishu:cli_new", "allowFrom": []string{"ou_me"}},
			"",
		},
		"lark": {
			map[string]any{"appId": ""},
			lark,
			map[string]any{"enabled": true, "appId": "cli_new", "appSecret": "new-secret", "domain": "lark", "identityKey": "lark:cli_new", "allowFrom": []string{"*", "ou_me"}},
			"",
		},
		"another app": {
			map[string]any{"appId": "cli_old", "allowFrom": []string{"ou_old"}, "owners": []string{"ou_old"}},
			made,
			map[string]any{"enabled": true, "appId": "cli_new", "appSecret": "new-secret", "domain": "feishu", "identityKey": "feishu:cli_new", "allowFrom": []string{"ou_me"}, "owners": []string{"ou_me"}},
			"",
		},
		"refused":  {map[string]any{"appId": ""}, map[string]any{"error": "access_denied"}, nil, "refused on the phone"},
		"broken":   {map[string]any{"appId": ""}, map[string]any{"error": "server_error", "error_description": "oh\n"}, nil, "server_error oh"},
		"too late": {map[string]any{"appId": ""}, map[string]any{"error": "expired_token"}, nil, "no code was scanned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.fake.Register(1, c.answer)
			p := &phone{}
			got, err := login(t.Context(), r.deps, section(t, r.fake, c.set), p, false)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("login: %v, want %q", err, c.wrong)
				}
				if name == "too late" && len(p.steps) != loginCodes {
					t.Errorf("%d codes were shown", len(p.steps))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.patch, got.Patch); d != "" {
				t.Errorf("patch (-want +got):\n%s", d)
			}
			if len(p.steps) != 1 || !strings.HasPrefix(p.steps[0].QR, "https://") || p.steps[0].Expires.IsZero() || r.fake.Polls() != 2 {
				t.Errorf("shown %+v, %d polls", p.steps, r.fake.Polls())
			}
		})
	}
}

// An app that works stays unless another one is wanted, and a person who leaves
// ends it.
func TestLoginKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := &phone{}
	got, err := login(t.Context(), r.deps, section(t, r.fake, nil), p, false)
	if err != nil || len(p.steps) != 0 || got.Patch != nil || !strings.Contains(got.Identity, feishutest.BotName) {
		t.Errorf("login: %+v, %v, shown %+v", got, err, p.steps)
	}
	r.fake.Register(1000, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := login(ctx, r.deps, section(t, r.fake, nil), p, true); err == nil {
		t.Error("a login goes on after it was cancelled")
	}
	if _, err := login(t.Context(), r.deps, json.RawMessage(`{"domain":"x"}`), p, false); err == nil {
		t.Error("a wrong section is not noticed")
	}
}
