//go:build unix

package kit_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// Opening a pipe would wait for its other end.
func TestAttachmentIsNoPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kit.OpenAttachment(t.Context(), chat.Deps{}, bus.Media{Path: path}, 100); !chat.IsPermanent(err) {
		t.Errorf("Open: %v", err)
	}
}
