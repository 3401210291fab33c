package settings

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// models are which models answer, where they are, and the sign-ins there.
type models struct {
	*editor

	logins  *logins
	current func(ctx context.Context) (*app.App, error) // the agent in use
	app     app.Options                                 // how one is built
}

// Routes implements web.Subject.
func (md *models) Routes() web.Routes {
	return web.Routes{
		Reads: map[string]web.Read{
			"setup":                    md.readSetup,
			"settings":                 md.readSettings,
			"settings/provider-models": md.readModels,
		},
		Actions: map[string]web.Action{
			"settings.model_configuration.create":  web.Changing(md.preset(presetCreate), web.TopicSettings),
			"settings.model_configuration.update":  web.Changing(md.preset(presetUpdate), web.TopicSettings),
			"settings.model_configuration.delete":  web.Changing(md.preset(presetDelete), web.TopicSettings),
			"settings.model_configuration.migrate": refusing(web.Refuse(http.StatusNotImplemented, "there is nothing to migrate: model presets of older files are used as they are")),
			"settings.model_call_order.update":     web.Changing(md.setCallOrder, web.TopicSettings),
			"settings.provider.update":             web.Changing(md.updateProvider, web.TopicSettings),
			"settings.provider.create":             web.Changing(md.createProvider, web.TopicSettings),
			"setup.try":                            web.Changing(md.try),
			"settings.provider.oauth_login":        web.Changing(md.signIn, web.TopicSettings),
			"settings.provider.oauth_complete":     web.Changing(md.completeSignIn, web.TopicSettings),
			"settings.provider.oauth_logout":       web.Changing(md.signOut, web.TopicSettings),
		},
	}
}

type presetVerb int

const (
	presetCreate presetVerb = iota
	presetUpdate
	presetDelete
)

// preset changes one of the named model settings.
func (md *models) preset(verb presetVerb) web.Change {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		var in named
		if err := web.Decode(payload, &in); err != nil {
			return nil, err
		}

		switch {
		case verb == presetDelete && len(in.Settings) > 0:
			return nil, web.Refuse(http.StatusBadRequest, "to delete takes a name only")
		case verb == presetDelete:
			in.Settings = json.RawMessage("null")
		default:
			if err := isObject(in.Settings, "settings"); err != nil {
				return nil, err
			}
		}

		if verb == presetCreate && (!plainName(in.Name) || in.Name == "default") {
			return nil, badName(in.Name)
		}
		return md.change(ctx, edit{make: func(now *config.Loaded) (any, error) {
			_, there := now.Config.ModelPresets[in.Name]
			if there && verb == presetCreate {
				return nil, web.Refuse(http.StatusConflict, "there is a model configuration %q already", in.Name)
			}
			if !there && verb != presetCreate {
				return nil, web.Refuse(http.StatusNotFound, "there is no model configuration %q", in.Name)
			}
			return under(in.Settings, "modelPresets", in.Name), nil
		}})
	}
}

func badName(name string) error {
	return web.Refuse(http.StatusBadRequest, "%q cannot be a name: letters, digits, - and _ and dots, at most 40, and not default", name)
}

// setCallOrder says which models are tried when the first does not answer.
func (md *models) setCallOrder(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct {
		Preset    string          `json:"preset"` // "" is the order of all that have none
		Fallbacks json.RawMessage `json:"fallbacks"`
	}
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if list := strings.TrimSpace(string(in.Fallbacks)); list == "" || list[0] != '[' {
		return nil, web.Refuse(http.StatusBadRequest, "fallbacks must be a list of names of model configurations, or of objects with a model")
	}
	return md.change(ctx, edit{make: func(now *config.Loaded) (any, error) {
		if in.Preset == "" {
			return under(in.Fallbacks, "agents", "defaults", "fallbackModels"), nil
		}
		if _, ok := now.Config.ModelPresets[in.Preset]; !ok {
			return nil, web.Refuse(http.StatusNotFound, "there is no model configuration %q", in.Preset)
		}
		return under(in.Fallbacks, "modelPresets", in.Preset, "fallbacks"), nil
	}})
}

// updateProvider changes one that is known or configured.
func (md *models) updateProvider(ctx context.Context, payload json.RawMessage) (any, error) {
	var in named
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := isObject(in.Settings, "settings"); err != nil {
		return nil, err
	}
	return md.change(ctx, edit{make: func(now *config.Loaded) (any, error) {
		if !knownProvider(now, in.Name) {
			return nil, web.Refuse(http.StatusNotFound, "there is no provider %q; settings.provider.create adds an endpoint of your own", in.Name)
		}
		return under(in.Settings, "providers", in.Name), nil
	}})
}

// createProvider adds an endpoint of the user's own.
func (md *models) createProvider(ctx context.Context, payload json.RawMessage) (any, error) {
	var in named
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	if err := isObject(in.Settings, "settings"); err != nil {
		return nil, err
	}
	if !plainName(in.Name) {
		return nil, badName(in.Name)
	}
	return md.change(ctx, edit{
		make: func(now *config.Loaded) (any, error) {
			if knownProvider(now, in.Name) {
				return nil, web.Refuse(http.StatusConflict, "there is a provider %q already; settings.provider.update changes it", in.Name)
			}
			return under(in.Settings, "providers", in.Name), nil
		},
		check: func(next *config.Loaded) error {
			if p := next.Config.Providers[providerKey(in.Name)]; p.APIBase == "" {
				return web.Refuse(http.StatusUnprocessableEntity, "providers.%s.apiBase: an endpoint of your own needs its address", in.Name)
			}
			return nil
		},
	})
}

// providerKey returns a provider's name as the configuration keeps it.
func providerKey(name string) string { return strings.ReplaceAll(name, "-", "_") }

func knownProvider(l *config.Loaded, name string) bool {
	key := providerKey(name)
	_, row := catalog.Lookup(key)
	_, own := l.Config.Providers[key]
	return row || own
}

// Bounds of a list of models.
const (
	modelsShown = 2000
	modelsWait  = 15 * time.Second
)

// modelState is a model that a provider offers.
type modelState struct {
	ID     string          `json:"id"`
	Window int             `json:"context_window,omitempty"`
	Tools  catalog.Ability `json:"tools,omitempty"`
	Vision catalog.Ability `json:"vision,omitempty"`
}

// readModels asks a provider for its models.
func (md *models) readModels(ctx context.Context, r *http.Request) (any, error) {
	name := r.URL.Query().Get("provider")
	if name == "" {
		return nil, web.Refuse(http.StatusBadRequest, "say which provider: ?provider=NAME")
	}

	l := md.Config()
	if !knownProvider(l, name) {
		return nil, web.Refuse(http.StatusNotFound, "there is no provider %q", name)
	}

	offers, choice, err := md.offers(ctx, l, name)
	if err != nil && choice.Name == "" {
		return nil, web.Refuse(http.StatusConflict, "%s", md.Secrets.Redact(err.Error()))
	}
	if err != nil {
		return nil, web.Refuse(http.StatusBadGateway, "%s", md.Secrets.Redact(err.Error()))
	}
	return map[string]any{"provider": choice.Name, "models": priced(l, md, choice, offers), "truncated": len(offers) > modelsShown}, nil
}
