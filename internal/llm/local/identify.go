package local

import (
	"context"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// maxName bounds the name of a model, in bytes.
const maxName = 200

// identify finds out what listens at the address. The question of the guessed
// kind comes first; the list that all of them offer decides otherwise.
func (p probe) identify(ctx context.Context, guess Kind) *Server {
	own := map[Kind]func(context.Context) ([]Model, bool){
		Ollama: p.ollama, LMStudio: p.lmStudio, LlamaCPP: p.llamaCPP,
	}
	kind := guess
	models, ok := []Model(nil), false
	if ask := own[guess]; ask != nil {
		models, ok = ask(ctx)
	}

	if !ok {
		if kind, models, ok = p.shared(ctx); !ok {
			return nil
		}
		// Its own list says more than the shared one.
		if ask := own[kind]; ask != nil && kind != guess {
			if better, fine := ask(ctx); fine {
				models = better
			}
		}
	}

	models = slices.DeleteFunc(models, func(m Model) bool { return !text.Plain(m.ID, maxName) })
	return &Server{Kind: kind, Base: p.base + "/v1", Models: models}
}

// ollama lists models by Ollama's own API. The window is that of loaded
// models: for others Ollama decides only when it loads them.
func (p probe) ollama(ctx context.Context) ([]Model, bool) {
	var tags struct {
		Models *[]struct {
			Name       string   `json:"name"`
			Model      string   `json:"model"`
			Digest     *string  `json:"digest"`
			ModifiedAt *string  `json:"modified_at"`
			Abilities  []string `json:"capabilities"`
		} `json:"models"`
	}
	if !p.get(ctx, "/api/tags", &tags) || tags.Models == nil {
		return nil, false
	}

	var models []Model
	for _, m := range *tags.Models {
		if m.Digest == nil && m.ModifiedAt == nil { // the list of another kind of server
			return nil, false
		}

		id := m.Name
		if id == "" {
			id = m.Model
		}
		if id != "" && !onlyEmbeds(id, m.Abilities) {
			models = append(models, Model{ID: id})
		}
	}

	if len(*tags.Models) == 0 && !p.isOllama(ctx) {
		return nil, false
	}

	var loaded struct {
		Models []struct {
			Name    string `json:"name"`
			Context int    `json:"context_length"`
		} `json:"models"`
	}
	if len(models) > 0 && p.get(ctx, "/api/ps", &loaded) {
		for _, l := range loaded.Models {
			for i := range models {
				if models[i].ID == l.Name {
					models[i].Context = max(0, l.Context)
				}
			}
		}
	}

	return models, true
}

// isOllama tells an Ollama without models from another server with an empty list.
func (p probe) isOllama(ctx context.Context) bool {
	var v struct {
		Version string `json:"version"`
	}
	return p.get(ctx, "/api/version", &v) && v.Version != ""
}

// lmStudio lists models by LM Studio's own API, the current one or the one before.
func (p probe) lmStudio(ctx context.Context) ([]Model, bool) {
	var v1 struct {
		Models *[]struct {
			Key    string `json:"key"`
			Type   string `json:"type"`
			Max    int    `json:"max_context_length"`
			Loaded []struct {
				Config struct {
					Context int `json:"context_length"`
				} `json:"config"`
			} `json:"loaded_instances"`
		} `json:"models"`
	}
	if p.get(ctx, "/api/v1/models", &v1) && v1.Models != nil {
		var models []Model
		for _, m := range *v1.Models {
			if m.Key == "" { // the list of another kind of server
				return nil, false
			}
			if onlyEmbeds(m.Type, nil) {
				continue
			}

			window := m.Max
			if len(m.Loaded) > 0 && m.Loaded[0].Config.Context > 0 {
				window = m.Loaded[0].Config.Context
			}
			models = append(models, Model{ID: m.Key, Context: max(0, window)})
		}

		return models, true
	}

	var v0 struct {
		Data []struct {
			ID     string `json:"id"`
			Type   string `json:"type"`
			State  string `json:"state"`
			Max    int    `json:"max_context_length"`
			Loaded int    `json:"loaded_context_length"`
		} `json:"data"`
	}
	if !p.get(ctx, "/api/v0/models", &v0) {
		return nil, false
	}

	var models []Model
	for _, m := range v0.Data {
		if m.State == "" {
			return nil, false
		}
		if m.ID == "" || onlyEmbeds(m.Type, nil) {
			continue
		}

		window := m.Max
		if m.Loaded > 0 {
			window = m.Loaded
		}
		models = append(models, Model{ID: m.ID, Context: max(0, window)})
	}

	return models, len(v0.Data) > 0
}

// llamaCPP recognises llama.cpp's server by its properties; the list of models
// is the shared one.
func (p probe) llamaCPP(ctx context.Context) ([]Model, bool) {
	var props struct {
		Settings *struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if !p.get(ctx, "/props", &props) || props.Settings == nil {
		return nil, false
	}

	_, models, _ := p.shared(ctx)
	for i := range models {
		if props.Settings.Context > 0 {
			models[i].Context = props.Settings.Context
		}
	}
	return models, true
}

// shared reads /v1/models, which every kind answers, and tells the kind by who
// owns the models. A list whose owner is unknown is not a server we know.
func (p probe) shared(ctx context.Context) (Kind, []Model, bool) {
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
			Max     int    `json:"max_model_len"`
			Meta    struct {
				Context int `json:"n_ctx"`
				Trained int `json:"n_ctx_train"`
			} `json:"meta"`
		} `json:"data"`
	}
	if !p.get(ctx, "/v1/models", &list) || len(list.Data) == 0 {
		return "", nil, false
	}

	var kind Kind
	var models []Model
	for _, m := range list.Data {
		k, window := Kind(""), 0
		switch m.OwnedBy {
		case "vllm":
			k, window = VLLM, m.Max
		case "llamacpp":
			k, window = LlamaCPP, m.Meta.Context
			if window <= 0 {
				window = m.Meta.Trained
			}

		case "library":
			k = Ollama
		case "organization_owner":
			k = LMStudio
		}

		if k == "" || kind != "" && k != kind {
			return "", nil, false
		}

		kind = k
		if m.ID != "" && !onlyEmbeds(m.ID, nil) {
			models = append(models, Model{ID: m.ID, Context: max(0, window)})
		}
	}

	return kind, models, true
}

// onlyEmbeds tells models that cannot chat by their abilities, or else by name.
func onlyEmbeds(name string, abilities []string) bool {
	if len(abilities) > 0 {
		for _, a := range abilities {
			if a == "completion" || a == "chat" {
				return false
			}
		}
		return true
	}
	return strings.Contains(strings.ToLower(name), "embed")
}
