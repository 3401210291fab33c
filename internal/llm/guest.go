package llm

import "strings"

// guestPrefix begins the Source of requests that were caused by others than
// the owner.
const guestPrefix = "guest:"

// GuestSource returns the Source of requests of a guest or group chat.
func GuestSource(name string) string { return guestPrefix + name }

// IsGuest reports whether a request was caused by others than the owner.
func IsGuest(source string) bool { return strings.HasPrefix(source, guestPrefix) }
