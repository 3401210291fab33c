package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/core/record"
)

func TestReplayCommand(t *testing.T) {
	t.Parallel()
	notes := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(notes, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(t.TempDir(), "empty.jsonl")
	w, err := record.Create(good, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no file named", nil, "usage: replay FILE"},
		{"no such file", []string{filepath.Join(t.TempDir(), "x")}, "open the recording"},
		{"not a recording", []string{notes}, "not a nanobot recording"},
		{"no turn", []string{good}, "contains no turn"},
	} {
		cmd := build(t, newProgram(Stdio{}, "", ""), "replay")
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(tt.args)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error = %v, want %q", tt.name, err, tt.want)
		}
	}
}
