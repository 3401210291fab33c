package webui

import (
	"context"
	"net/http"
	"path/filepath"
	"time"
)

func (d *Desk) houseReads() map[string]Read {
	return map[string]Read{"commands": d.commands, "workspaces": d.workspaces}
}

// commands are the slash commands.
func (d *Desk) commands(context.Context, *http.Request) (any, error) {
	return map[string]any{"commands": append([]Command{}, d.Commands...)}, nil
}

// workspaces are the folders a conversation may work in.
func (d *Desk) workspaces(ctx context.Context, _ *http.Request) (any, error) {
	h, err := d.House(ctx)
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

func (d *Desk) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}
