package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/agent/prompt"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// WorkspaceScopeKey is the session metadata that holds a WorkspaceScope.
const WorkspaceScopeKey = "workspace_scope"

// The access modes of a WorkspaceScope.
const (
	AccessFull       = "full"       // as the configuration says, only that relative names start elsewhere
	AccessRestricted = "restricted" // files and commands stay inside the folder
)

// WorkspaceScope is the folder that a conversation works in.
type WorkspaceScope struct {
	Path string `json:"project_path"` // absolute, without links
	Mode string `json:"access_mode"`
}

// toldKey is the session metadata that remembers that the model was told of a
// folder, so that it can be told of its end.
const toldKey = "_workspace_scope_told"

// enterProject finds the folder that the turn works in. A guest never has one.
// When it is gone the turn works in the workspace, and is kept inside it if it
// was kept inside the folder.
func (t *turn) enterProject(ctx context.Context) {
	if t.Folder == nil || t.it.in.Scope != "" || t.it.in.Stateless {
		return
	}
	s := t.workspaceScope(ctx)
	if s == nil {
		return
	}
	t.project = tool.Project{Dir: s.Path, Only: s.Mode != AccessFull}
	dir, why := t.Folder(s.Path)
	if why == nil && dir == s.Path {
		return
	}
	t.Log.WarnContext(ctx, "the folder of a conversation cannot be used", "session", t.key, "folder", s.Path, "err", why)
	t.gone = s.Path
	if !t.project.Only {
		t.project = tool.Project{}
		return
	}
	t.project.Dir = t.Workspace
	if dir, err := t.Folder(t.Workspace); err == nil {
		t.project.Dir = dir
	}
}

// workspaceScope reads what was set for the conversation, or for that of the
// chat that a job was made in.
func (t *turn) workspaceScope(ctx context.Context) *WorkspaceScope {
	chat := t.KeyOf(t.it.in.Route)
	if e := t.it.in.Event; e != eventCron && e != eventTrigger || chat == t.key {
		var s WorkspaceScope
		t.sess.Meta(WorkspaceScopeKey, &s)
		return s.valid()
	}
	values, err := t.Sessions.Metadata(ctx, chat)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		t.Log.WarnContext(ctx, "read the folder of a chat", "session", chat, "err", err)
	}
	return ScopeOf(values)
}

// ScopeOf finds the folder in the metadata of a session; nil is the workspace.
func ScopeOf(meta map[string]json.RawMessage) *WorkspaceScope {
	var s WorkspaceScope
	_ = json.Unmarshal(meta[WorkspaceScopeKey], &s) // absent is none
	return s.valid()
}

// valid is the scope with one of the known modes, the narrow one if in doubt.
func (s WorkspaceScope) valid() *WorkspaceScope {
	if s.Path == "" {
		return nil
	}
	if s.Mode != AccessFull {
		s.Mode = AccessRestricted
	}
	return &s
}

// tellGone lets the person know that the turn works elsewhere.
func (t *turn) tellGone() {
	if t.gone != "" {
		t.it.emit(bus.Outbound{
			Kind: bus.Notice, Route: t.it.in.Route,
			Text: fmt.Sprintf("The folder %s of this chat cannot be used any more, so I work in the workspace. Choose another folder, or make it again.", t.gone),
		})
	}
}

// projectLines tell the model where it works; "" in the workspace. The end of a
// folder is told once.
func (t *turn) projectLines() string {
	if t.gone == "" && t.project.Dir == "" {
		if told := false; t.sess == nil || !t.sess.Meta(toldKey, &told) {
			return ""
		}
		_ = t.sess.SetMeta(toldKey, nil) // written with the message
		return "Working folder: the workspace again, relative paths and commands start there\n"
	}
	_ = t.sess.SetMeta(toldKey, true) // written with the message
	return prompt.Folder(t.project, t.gone, t.Workspace)
}

// projectNote tells a subagent where it works.
func (t *turn) projectNote() string {
	if t.project.Dir == "" {
		return ""
	}
	return "\n\n[" + strings.TrimSpace(prompt.Folder(t.project, "", t.Workspace)) + "]"
}
