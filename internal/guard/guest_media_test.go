package guard

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// What is sent in a chat of guests lies in the folder of that chat; what the
// owner sends stays where it is.
func TestGuestMedia(t *testing.T) {
	t.Parallel()
	data, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sent := filepath.Join(data, "media", "telegram", "ABC_photo.jpg")
	if err := os.MkdirAll(filepath.Dir(sent), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sent, []byte("picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	give := func(in *bus.Inbound) { GuestMedia(t.Context(), data, in, time.Now(), slog.New(slog.DiscardHandler)) }
	route := bus.Route{Channel: "telegram", ChatID: "-7"}
	in := bus.Inbound{Route: route, Media: []bus.Media{{Path: sent, Name: "photo.jpg"}}}
	give(&in)
	if in.Media[0].Path != sent {
		t.Errorf("the owner's file was moved to %s", in.Media[0].Path)
	}
	for range 2 { // the platform may deliver it again
		in := bus.Inbound{Route: route, Scope: "telegram:-7/1", Media: []bus.Media{{Path: sent, Name: "photo.jpg"}, {Path: filepath.Join(data, "gone")}}}
		given := in.Media
		give(&in)
		want := filepath.Join(guestFolders(data, "telegram:-7").media, "ABC_photo.jpg")
		if b, err := os.ReadFile(in.Media[0].Path); err != nil || string(b) != "picture" || in.Media[0].Path != want || in.Media[0].Name != "photo.jpg" {
			t.Errorf("%+v: %q, %v, want %s", in.Media[0], b, err, want)
		}
		if given[0].Path != sent {
			t.Error("the caller's message was changed")
		}
		if in.Media[1].Path != filepath.Join(data, "gone") {
			t.Errorf("a file that is gone became %s", in.Media[1].Path)
		}
	}
	// After a while it goes.
	old := time.Now().Add(-40 * 24 * time.Hour)
	kept := filepath.Join(guestFolders(data, "telegram:-7").media, "ABC_photo.jpg")
	if err := os.Chtimes(kept, old, old); err != nil {
		t.Fatal(err)
	}
	guestFolders(data, "telegram:-7").sweepMedia(t.Context(), time.Now())
	if _, err := os.Stat(kept); err == nil {
		t.Error("an old file was kept")
	}
}
