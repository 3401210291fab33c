package agent

import (
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/skill"
)

// Place is where the files of a turn are.
type Place struct {
	Workspace string // relative names start there
	Results   string // long results of tools are kept there
	Share     string // what a guest and the owner exchange; "" is nothing
}

// place is where a message works: the owner's in the workspace, all others in
// folders of their own.
func (a *Agent) place(in bus.Inbound) Place {
	if in.Scope == "" || a.Guest == nil {
		return Place{Workspace: a.Workspace, Results: a.Results}
	}
	return a.Guest(in.Route, in.Scope)
}

// skillsFor are the skills that a turn may use. Those of the workspace are the
// owner's files.
func (a *Agent) skillsFor(scope string) *skill.Library {
	if scope == "" || a.Guest == nil {
		return a.Skills
	}
	return a.GuestSkills
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
