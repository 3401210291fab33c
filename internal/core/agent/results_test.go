package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Long results that no conversation names any more are removed when they are old
// or many; one that a prompt names stays, also after a restart.
func TestResultsArePruned(t *testing.T) {
	t.Parallel()
	long := textTool("long", tool.Tool{ReadOnly: true}, func(_ context.Context, _ tool.Call, s string) (tool.Result, error) {
		return tool.Text(s + strings.Repeat(" word", 10_000)), nil
	})
	m := llmtest.NewScript(t)
	h := newHouse(t, m, long)
	dir := t.TempDir()
	h.opts.Tools.Results, h.opts.Turns.Limits.ToolResultChars = dir, 1000
	h.start()
	ask := func(chat, word string) {
		t.Helper()
		m.Add(llmtest.Call("long", map[string]string{"text": word}), llmtest.Reply("ok"))
		h.ask(in(chat, "go"))
	}
	old := time.Now().Add(-30 * 24 * time.Hour)
	bucket := func(chat string) string { return filepath.Join(dir, text.SafeName("test:"+chat)) }
	results := func(chat string) (names []string) {
		names, _ = filepath.Glob(filepath.Join(bucket(chat), "*.txt"))
		return names
	}
	put := func(chat, name string, at time.Time) {
		t.Helper()
		file := filepath.Join(bucket(chat), name)
		if err := errors.Join(os.MkdirAll(bucket(chat), 0o700), os.WriteFile(file, []byte("x"), 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}

	ask("1", "first")
	if len(results("1")) != 1 {
		t.Fatalf("results: %q", results("1"))
	}
	named := results("1")[0]
	if err := os.Chtimes(named, old, old); err != nil {
		t.Fatal(err)
	}
	put("1", "forgotten.txt", old)
	put("gone", "forgotten.txt", old) // of a conversation that does not exist
	h.stop()
	h.start()
	ask("2", "second")
	if got := results("1"); len(got) != 1 || got[0] != named || len(results("gone")) != 0 {
		t.Errorf("after a month: %q, %q; want only the one that is named", got, results("gone"))
	}

	for i := range 80 {
		put("2", fmt.Sprintf("unnamed%d.txt", i), time.Now().Add(time.Hour))
	}
	ask("2", "third")
	if n := len(results("2")); n < 10 || n > 66 {
		t.Errorf("%d results of one conversation are kept", n)
	}
	body := h.log("test:2")[2].Content.String()
	if kept := results("2"); fileIn(body) == "" || !strings.Contains(strings.Join(kept, " "), filepath.Base(fileIn(body))) {
		t.Errorf("the result that is named as %q is gone", fileIn(body))
	}

	h.ask(in("1", "/new"))
	ask("2", "fourth")
	if got := results("1"); len(got) != 0 {
		t.Errorf("after /new: %q", got)
	}
}

// fileIn is the path in a message that stands for a long result.
func fileIn(message string) string {
	_, rest, _ := strings.Cut(message, "Full output: ")
	path, _, _ := strings.Cut(rest, " (")
	return path
}
