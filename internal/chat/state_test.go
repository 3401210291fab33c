package chat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// A damaged state begins again, and is kept for a person to look at.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	type facts struct {
		Offset int    `json:"offset"`
		Key    string `json:"key"`
	}
	for name, body := range map[string]string{
		"not JSON":    `{"offset": 7, "key":`,
		"zeroes":      strings.Repeat("\x00", 60),
		"another one": `{"key":"half","offset":"seven"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "s.json")
			if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
			s := chat.OpenState(disk.Open(dir, nil), "s.json", nil)
			got := facts{Offset: 1}
			if err := s.Load(&got); err != nil || got != (facts{Offset: 1}) {
				t.Errorf("loaded %+v, %v", got, err)
			}
			kept, err := filepath.Glob(file + ".damaged-*")
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept %v, %v", kept, err)
			}
			if data, err := os.ReadFile(kept[0]); err != nil || string(data) != body {
				t.Errorf("kept %q, %v", data, err)
			}
			if err := s.Save(facts{Offset: 2}); err != nil {
				t.Fatal(err)
			}
			if err := s.Load(&got); err != nil || got.Offset != 2 {
				t.Errorf("after a save: %+v, %v", got, err)
			}
		})
	}
}
