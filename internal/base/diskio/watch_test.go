package diskio_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// Whoever watches hears once that watching has begun, so that a change just
// before is not missed, and then about changes.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan struct{}, 100)
	done := make(chan error, 1)
	go func() { done <- diskio.Watch(ctx, []string{dir}, func() { heard <- struct{}{} }) }()
	<-heard
	if err := os.WriteFile(filepath.Join(dir, "jobs.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-heard
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := diskio.Watch(t.Context(), []string{filepath.Join(dir, "missing")}, func() { t.Error("nothing is watched") }); err == nil {
		t.Error("a folder that is not there was watched")
	}
}
