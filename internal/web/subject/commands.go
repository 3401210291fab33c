package subject

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Command is a slash command.
type Command struct {
	Name  string `json:"name"`
	Args  string `json:"args,omitempty"`
	About string `json:"description"`
}

// Commands are the slash commands.
type Commands []Command

// Routes implements web.Subject.
func (c Commands) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"commands": c.list}}
}

// list describes the commands in the language that is asked for.
func (c Commands) list(_ context.Context, r *http.Request) (any, error) {
	language := phrase.Language(r.URL.Query().Get("language"))
	list := append([]Command{}, c...)
	for i := range list {
		list[i].About = phrase.In(language, list[i].About)
	}
	return map[string]any{"commands": list}, nil
}

// Workspaces are the folders that a conversation may work in.
type Workspaces struct{ Now Source }

// Routes implements web.Subject.
func (w Workspaces) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"workspaces": w.list}}
}

func (w Workspaces) list(ctx context.Context, _ *http.Request) (any, error) {
	now, err := w.Now(ctx)
	if err != nil {
		return nil, err
	}

	type workspace struct {
		Path    string `json:"path"`
		Name    string `json:"name"`
		Default bool   `json:"default"`
	}
	return map[string]any{
		"workspaces": []workspace{{Path: now.Workspace, Name: filepath.Base(now.Workspace), Default: true}}, "default": now.Workspace,
	}, nil
}
