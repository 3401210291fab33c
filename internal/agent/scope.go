package agent

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/agent/prompt"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// place is where a message works: the owner's in the workspace, all others in
// folders of their own.
func (a *Agent) place(in bus.Inbound) prompt.Place {
	if in.Scope == "" || a.Guest == nil {
		return prompt.Place{Workspace: a.Workspace, Results: a.Results}
	}
	return a.Guest(in.Route, in.Scope)
}

// scopeOf is whose memory a message belongs to. A channel gives each person in
// each chat a scope, "<channel>:<chat>/<person>"; in chats that the owner
// declared as shared all people have one in common, "<channel>:<chat>".
func (a *Agent) scopeOf(scope string) string {
	for _, chat := range a.SharedMemory {
		if chat != "" && strings.HasPrefix(scope, chat+"/") {
			return chat
		}
	}
	return scope
}
