package llm

import "strings"

// guestPrefix begins the Source of requests that somebody else than the owner
// caused.
const guestPrefix = "guest:"

// GuestSource is the Source of requests of a guest or group chat.
func GuestSource(name string) string { return guestPrefix + name }

// IsGuest reports whether somebody else than the owner caused a request.
func IsGuest(source string) bool { return strings.HasPrefix(source, guestPrefix) }
