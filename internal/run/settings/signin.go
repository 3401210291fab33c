package settings

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/provider"
	"github.com/nanobot-go/nanobot/internal/web"
)

// checkSignIn refuses providers that have no sign-in.
func checkSignIn(name string) error {
	switch {
	case signin.Known(name):
		return nil
	case llmHasKeys(name):
		return web.Refuse(http.StatusConflict, "%s has keys instead of a sign-in; give one with settings.provider.update", name)
	}
	return web.Refuse(http.StatusNotFound, "there is no sign-in for %q; there is one for %s", name, strings.Join(signin.Names(), ", "))
}

func llmHasKeys(name string) bool {
	row, ok := catalog.Lookup(providerKey(name))
	return ok && row.Auth == ""
}

// signIn starts a sign-in at a provider.
func (md *models) signIn(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Provider string `json:"provider"`
		Device   bool   `json:"device"` // a code to type on any machine
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := checkSignIn(in.Provider); err != nil {
		return nil, err
	}

	a, err := md.account(in.Provider)
	if err != nil {
		return nil, err
	}
	return md.logins.begin(ctx, "provider:"+a.Name(), func(ctx context.Context, l *login) error {
		if note := a.Caution(); note != "" {
			l.publish(loginStep{Note: note})
		}

		_, err := a.Login(ctx, signin.Dialog{
			Device: in.Device, Pasted: func() <-chan string { return l.pasted },
			Notify: func(s signin.Step) {
				l.publish(loginStep{URL: s.URL, Code: s.Code, Paste: s.Paste, Note: s.Note})
			},
		})
		if err == nil {
			md.notifyLogin(ctx, phrase.Later("A person signed in at %s in the web interface.", a.Display()))
		}
		return err
	})
}

func (md *models) account(name string) (*signin.Account, error) {
	return provider.Account(app.ProviderOptions(md.Config(), md.app), name)
}

func (md *models) completeSignIn(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Provider string `json:"provider"`
		Pasted   string `json:"pasted"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := checkSignIn(in.Provider); err != nil {
		return nil, err
	}
	return md.logins.proceed(ctx, "provider:"+signin.ConfigName(in.Provider), in.Pasted)
}

// signOut forgets a sign-in, and gives up one that is under way.
func (md *models) signOut(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Provider string `json:"provider"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := checkSignIn(in.Provider); err != nil {
		return nil, err
	}

	a, err := md.account(in.Provider)
	if err != nil {
		return nil, err
	}
	if err := md.logins.stop(ctx, "provider:"+a.Name()); err != nil {
		return nil, err
	}

	removed, err := a.Logout(ctx)
	if err == nil && len(removed) > 0 {
		md.notifyLogin(ctx, phrase.Later("A person signed out of %s in the web interface.", a.Display()))
	}
	return map[string]any{"provider": a.Name(), "signed_out": len(removed) > 0}, err
}

func (ed *editor) notifyLogin(ctx context.Context, s phrase.Sentence) {
	ed.Log.InfoContext(ctx, "web interface", "what", s.String())
	ed.Notify(ctx, s)
}
