package kit_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

func TestOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	once := kit.NewOnce(slog.New(slog.NewTextHandler(&log, nil)))
	once.Warn(t.Context(), "shape", "first", errors.New("a"))
	once.Warn(t.Context(), "shape", "second", errors.New("b"))
	once.Warn(t.Context(), "size", "third", errors.New("c"))
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "first") || !strings.Contains(got, "third") {
		t.Errorf("the log is %q, want one line of each cause", got)
	}
}
