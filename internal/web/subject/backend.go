package subject

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/web"
)

func (d *API) backendReads() map[string]web.Read {
	return map[string]web.Read{"commands": d.commands, "workspaces": d.workspaces}
}

// commands are the slash commands, described in the language that is asked for.
func (d *API) commands(_ context.Context, r *http.Request) (any, error) {
	language := phrase.Language(r.URL.Query().Get("language"))
	list := append([]Command{}, d.Commands...)
	for i := range list {
		list[i].About = phrase.In(language, list[i].About)
	}
	return map[string]any{"commands": list}, nil
}

// workspaces are the folders a conversation may work in.
func (d *API) workspaces(ctx context.Context, _ *http.Request) (any, error) {
	h, err := d.Backend(ctx)
	if err != nil {
		return nil, err
	}
	type workspace struct {
		Path    string `json:"path"`
		Name    string `json:"name"`
		Default bool   `json:"default"`
	}
	return map[string]any{
		"workspaces": []workspace{{Path: h.Workspace, Name: filepath.Base(h.Workspace), Default: true}}, "default": h.Workspace,
	}, nil
}

func (d *API) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}
