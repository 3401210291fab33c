package turn

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// WorkspaceScopeKey is the session metadata that holds a guard.Scope.
const WorkspaceScopeKey = "workspace_scope"

// Scopes keeps the scopes of conversations in their metadata. It implements
// guard.ScopeStore.
type Scopes struct{ Sessions *session.Store }

// Scope implements guard.ScopeStore.
func (s Scopes) Scope(ctx context.Context, key string) (*guard.Scope, error) {
	values, err := s.Sessions.Metadata(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return nil, nil
	}
	return ScopeOf(values), err
}

// SetScope implements guard.ScopeStore.
func (s Scopes) SetScope(ctx context.Context, key string, scope *guard.Scope) error {
	var value any
	if scope != nil {
		value = scope
	}
	return s.Sessions.Annotate(ctx, key, func(one *session.Session) error {
		if err := one.SetMeta(WorkspaceScopeKey, value); err != nil {
			return err
		}
		return errors.Join(one.SaveMeta(), one.Sync(ctx))
	})
}

// toldKey is the session metadata that remembers that the model was told of a
// folder, so that it can be told of its end.
const toldKey = "_workspace_scope_told"

// folder is where a turn works.
type folder struct {
	project tool.Project
	gone    string // the folder it should work in and cannot
}

// enterProject finds the folder that the turn works in. A guest never has one.
// When it is gone the turn works in the workspace, and is kept inside it if it
// was kept inside the folder. The person is told.
func (t *Turn) enterProject(ctx context.Context) {
	policy := t.engine.opts.Guard
	if policy == nil || t.msg.In.Scope != "" || t.msg.In.Stateless {
		return
	}

	s := t.workspaceScope(ctx)
	if t.msg.In.Folder != "" {
		s = t.startFolder(ctx, s)
	}

	if s == nil {
		return
	}

	t.folder.project = tool.Project{Dir: s.Path, Only: s.Mode == guard.AccessRestricted, Started: s.Mode == guard.AccessStarted}
	dir, why := policy.Folder(s.Path)
	if why == nil && dir == s.Path {
		return
	}

	t.engine.log.WarnContext(ctx, "the folder of a conversation cannot be used", "session", t.key, "folder", s.Path, "err", why)
	if t.folder.project.Started { // another process was started there, such as a terminal while this is the gateway
		t.folder.project = tool.Project{}
		return
	}

	t.folder.gone = s.Path
	if !t.folder.project.Only {
		t.folder.project = tool.Project{}
	} else {
		t.folder.project.Dir = t.engine.opts.Workspace
		if dir, err := policy.Folder(t.engine.opts.Workspace); err == nil {
			t.folder.project.Dir = dir
		}
	}

	t.msg.Sink.Emit(bus.Outbound{
		Kind: bus.Notice, Route: t.msg.In.Route,
		Text: phrase.In(t.msg.In.Language, "The folder %s of this chat cannot be used any more, so I work in the workspace. Choose another folder, or make it again.", s.Path),
	})
}

// startFolder makes the folder that the owner started the program in that of the
// conversation. was is the one it had.
func (t *Turn) startFolder(ctx context.Context, was *guard.Scope) *guard.Scope {
	now, err := t.engine.opts.Guard.Start(t.msg.In.Folder)
	if err != nil {
		t.msg.Sink.Emit(bus.Outbound{
			Kind: bus.Notice, Route: t.msg.In.Route,
			Text: phrase.In(t.msg.In.Language, "This conversation works in the workspace: %v.", err),
		})
		now = guard.Scope{}
	}

	if was == nil && now.Path == "" || was != nil && *was == now {
		return was
	}

	var value any
	if now.Path != "" {
		value = now
	}
	if err := t.sess.SetMeta(WorkspaceScopeKey, value); err != nil { // written with the message
		t.engine.log.WarnContext(ctx, "keep the folder of a conversation", "session", t.key, "err", err)
	}
	return validScope(now)
}

// workspaceScope reads what was set for the conversation, or for that of the
// chat that a job was made in.
func (t *Turn) workspaceScope(ctx context.Context) *guard.Scope {
	chat := t.engine.KeyOf(bus.Inbound{Route: t.msg.In.Route, Scope: t.msg.In.Scope})
	if e := t.msg.In.Event; e != EventCron && e != eventTrigger || chat == t.key {
		var s guard.Scope
		t.sess.Meta(WorkspaceScopeKey, &s)
		return validScope(s)
	}

	values, err := t.engine.opts.Sessions.Metadata(ctx, chat)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		t.engine.log.WarnContext(ctx, "read the folder of a chat", "session", chat, "err", err)
	}
	return ScopeOf(values)
}

// ScopeOf finds the folder in the metadata of a session; nil is the workspace.
func ScopeOf(meta map[string]json.RawMessage) *guard.Scope {
	var s guard.Scope
	_ = json.Unmarshal(meta[WorkspaceScopeKey], &s) // absent is none
	return validScope(s)
}

// validScope is a scope with one of the known modes, the narrow one if in doubt. It
// is nil if there is no folder.
func validScope(s guard.Scope) *guard.Scope {
	if s.Path == "" {
		return nil
	}
	if s.Mode != guard.AccessFull && s.Mode != guard.AccessStarted {
		s.Mode = guard.AccessRestricted
	}
	return &s
}

// lines tell the model where it works; "" in the workspace. The end of a folder
// is told once.
func (f folder) lines(sess *session.Session, workspace string) string {
	if f.gone == "" && f.project.Dir == "" {
		if told := false; sess == nil || !sess.Meta(toldKey, &told) {
			return ""
		}
		_ = sess.SetMeta(toldKey, nil) // written with the message
		return "Working folder: the workspace again, relative paths and commands start there\n"
	}
	_ = sess.SetMeta(toldKey, true) // written with the message
	return prompt.Folder(f.project, f.gone, workspace)
}

// note tells a subagent where it works.
func (f folder) note(workspace string) string {
	if f.project.Dir == "" {
		return ""
	}
	return "\n\n[" + strings.TrimSpace(prompt.Folder(f.project, "", workspace)) + "]"
}
