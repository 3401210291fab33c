// Package memory hides what is remembered across conversations and how it
// survives: the history of short entries that summaries of old turns become
// (History), and the work of making those summaries when a conversation grows
// too long, falls silent or is started again (Consolidator).
//
// The history is kept outside of the workspace, where no tool reaches it; the
// workspace holds a copy of the owner's own entries that people and the model
// can search. Model and tools are handed in; nothing here knows a vendor.
//
// All types are safe for concurrent use, and several processes may have the
// same history open.
package memory

import (
	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Place returns the part of a store where the memory of a workspace is kept. A copied
// workspace has an id of its own and so a memory of its own.
func Place(s store.Store, workspaceID string) store.Store {
	return store.Under(s, string(datadir.Memory), workspaceID)
}

// ScopeFile returns the file of long-term facts of a scope, relative to the
// workspace and with slashes; the owner's for "".
func ScopeFile(scope string) string {
	if scope == "" {
		return "memory/MEMORY.md"
	}
	return "memory/scopes/" + text.SafeName(scope) + "/MEMORY.md"
}
