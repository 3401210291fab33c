package bus

import "strings"

// Unverified is the sender of a scope in which nothing proves who wrote.
const Unverified = "unverified"

// Room is whose files a message works on: "" is the owner, else a chat, which
// all people in it share as they share its conversation. Words whose sender is
// not proven have a room apart.
func Room(r Route, scope string) string {
	if scope == "" {
		return ""
	}
	chat := r.Channel + ":" + r.ChatID
	if sender, ok := strings.CutPrefix(scope, chat+"/"); ok && sender != Unverified {
		return chat
	}
	return scope
}
