package bus_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// People in one chat share a room; nobody gets into the room of another chat,
// nor of somebody whose name they only claim.
func TestRoom(t *testing.T) {
	t.Parallel()
	group := bus.Route{Channel: "telegram", ChatID: "-7"}
	mail := bus.Route{Channel: "email", ChatID: "a/b@example.com"}
	for _, tt := range []struct {
		route       bus.Route
		scope, want string
	}{
		{group, "", ""},
		{group, "telegram:-7/1", "telegram:-7"},
		{group, "telegram:-7/2", "telegram:-7"},
		{group, "telegram:-7", "telegram:-7"}, // agents.defaults.sharedMemory
		{group, "telegram:-70/1", "telegram:-70/1"},
		{group, "telegram:-8/1", "telegram:-8/1"},
		{mail, "email:a/b@example.com/a/b@example.com", "email:a/b@example.com"},
		{mail, "email:a/b@example.com/unverified", "email:a/b@example.com/unverified"},
		{bus.Route{}, "telegram:-7/1", "telegram:-7/1"},
	} {
		if got := bus.Room(tt.route, tt.scope); got != tt.want {
			t.Errorf("Room(%v, %q) = %q, want %q", tt.route, tt.scope, got, tt.want)
		}
	}
}
