package memory_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/core/memory"
)

// Forgetting leaves nothing in the files, their versions and the history.
func TestForget(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	ws := filepath.Join(dir, "ws")
	if err := os.MkdirAll(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := memory.Open(memory.HistoryOptions{Store: storetest.Disk(t, filepath.Join(dir, "memory")), Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	asked := ""
	m.Index = func(_ context.Context, text string) (int, error) { asked = text; return 3, nil }
	if err := m.Repo.WriteWork("USER.md", []byte("- phone 555-0100\n- cat\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.History.Append(ctx, memory.Entry{Content: "Phone  555-0100 is new\nhas a cat"}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Find(ctx, " x "); !errors.Is(err, memory.ErrTooShort) {
		t.Errorf("one character: %v", err)
	}
	found, err := m.Find(ctx, "PHONE 555-0100")
	if err != nil || len(found.Lines) != 1 || len(found.Entries) != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	done, err := m.Forget(ctx, found)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 line from USER.md", "1 line from 1 summary, and from their copy in the workspace", "3 lines from the search index"} {
		if !slices.Contains(done.Removed, want) {
			t.Errorf("no %q in %q", want, done.Removed)
		}
	}
	if len(done.Left) > 0 || asked != "phone 555-0100" {
		t.Errorf("left %q, asked the index for %q", done.Left, asked)
	}
	log, err := m.Repo.Log(ctx, 0)
	if err != nil || len(log) == 0 {
		t.Fatalf("%d changes, %v", len(log), err)
	}
	for _, c := range log {
		if _, change, err := m.Repo.Show(ctx, c.ID); err != nil || strings.Contains(change.Diff, "555-0100") {
			t.Errorf("%s still holds it: %v", c.Subject, err)
		}
	}
	view, err := m.Overview(ctx, "", true)
	if err != nil || view.Files[0].Text != "- cat\n" || view.History.Entries != 1 || len(view.Files[0].Facts) != 1 {
		t.Errorf("left %+v, %v", view, err)
	}
}
