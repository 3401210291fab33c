package agent

import "strings"

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
