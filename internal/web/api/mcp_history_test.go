package api

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/llm"
)

func TestSearchOwner(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret.md")
	for path, body := range map[string]string{
		secret:                                   "canary blue",
		filepath.Join(ws, "memory", "MEMORY.md"): "# Facts\n\nThe cat is called Blue.\n\nThe dog has no name.\n",
		filepath.Join(ws, "memory", "note.txt"):  "blue cat",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(ws, "memory", "link.md")); err != nil {
		t.Logf("no links here: %v", err)
	}
	data := t.TempDir()
	store, err := session.Open(session.Options{DataDir: data, Store: disk.Open(data, nil), Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, key := range []string{"cli:one", "cli:two"} {
		s, err := store.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(
			session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text("my CAT is blue, " + key)}},
			session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(strings.Repeat("ä ", 500) + "a blue cat" + strings.Repeat(" z", 500))}},
			session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text("a blue cat in a command")}, Command: true},
		); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
	}
	index, err := search.Open(search.Options{Path: filepath.Join(t.TempDir(), "x.db"), Store: disk.Open(filepath.Dir(store.Dir()), nil), Sessions: filepath.Base(store.Dir()), Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	find := SearchOwner(index)
	hits, err := find(t.Context(), "Blue CAT", 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(hits) != 5 || hits[0].Source != "memory/MEMORY.md" || hits[0].Text != "The cat is called Blue." {
		t.Errorf("hits %+v", hits)
	}
	for _, h := range hits {
		if len(h.Text) > 400 || strings.Contains(h.Text, "command") || !strings.Contains(strings.ToLower(h.Text), "blue") {
			t.Errorf("hit %+v", h)
		}
	}
	for query, want := range map[string]int{"canary": 0, "dog blue": 0, "dog": 1} {
		if hits, err := find(t.Context(), query, 10); err != nil || len(hits) != want {
			t.Errorf("%q: %d hits, %v, want %d", query, len(hits), err, want)
		}
	}
	if hits, err := find(t.Context(), "blue cat", 2); err != nil || len(hits) != 2 {
		t.Errorf("limit: %d hits, %v", len(hits), err)
	}
	if _, err := find(t.Context(), " ", 1); err == nil {
		t.Error("an empty query was searched")
	}
}
