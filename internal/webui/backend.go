package webui

import (
	"context"
	"net/http"
	"path/filepath"
	"time"
)

func (d *API) backendReads() map[string]Read {
	return map[string]Read{"commands": d.commands, "workspaces": d.workspaces}
}

// commands are the slash commands.
func (d *API) commands(context.Context, *http.Request) (any, error) {
	return map[string]any{"commands": append([]Command{}, d.Commands...)}, nil
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
