package chat_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// A proxy that cannot be one is an error of the settings, which no further
// attempt repairs.
func TestClientNamesTheSetting(t *testing.T) {
	t.Parallel()
	_, err := chat.Client("gopher://p")
	if !chat.IsFatal(err) || !strings.HasPrefix(err.Error(), "proxy ") {
		t.Errorf("error = %v, want a fatal one that begins with the setting", err)
	}
	if _, err := chat.Client("http://127.0.0.1:1"); err != nil {
		t.Errorf("a usual proxy: %v", err)
	}
}
