package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

// Two chats that are opened in the same minute, before either has said anything, are
// two conversations.
func TestNewSessionIsReserved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	past, err := session.Open(session.Options{Store: disk.Open(dir, nil), DataDir: dir, Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close()
	now := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	open := func() (string, func() error) {
		return newSession(t.Context(), past, disk.Open(dir, nil), "/home/ann/proj", now) // each is a process of its own
	}

	first, release := open()
	second, releaseSecond := open()
	defer func() { err = errors.Join(err, releaseSecond()) }()
	if first != "cli:proj-0301-0930" || second != "cli:proj-0301-0930-2" {
		t.Errorf("the chats are %s and %s", first, second)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, releaseAgain := open()
	if again != first {
		t.Errorf("a name that nobody used is taken: %s", again)
	}
	if err := releaseAgain(); err != nil {
		t.Error(err)
	}
}
