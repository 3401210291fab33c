package prompt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/guard"
)

func TestTierOf(t *testing.T) {
	t.Parallel()
	for window, want := range map[int]string{0: "full", 1: "tiny", 2048: "tiny", 4096: "tiny", 4097: "small", 8192: "small", 8193: "medium", 16384: "medium", 16385: "full", 200_000: "full"} {
		tier := TierOf(window)
		if tier.Name != want {
			t.Errorf("TierOf(%d) = %s, want %s", window, tier.Name, want)
		}
		if want != "full" && tier.Answer+tier.Input > window+1 {
			t.Errorf("window %d: answer %d and input %d are more", window, tier.Answer, tier.Input)
		}
	}
}

// The list of skills has long descriptions only where the window allows, and the
// prompt is the same byte for byte from turn to turn.
func TestTierSkills(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	dir := filepath.Join(ws, "skills", "a")
	long := strings.TrimSpace(strings.Repeat("word ", 150)) + " the end"
	file := []byte("---\nname: a\ndescription: " + long + "\n---\nx")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "SKILL.md"), file, 0o600)); err != nil {
		t.Fatal(err)
	}
	b := New(Options{Workspace: ws, Skills: skill.Open(skill.Options{Workspace: ws}), Now: time.Now, Location: time.UTC})
	for window, want := range map[int]bool{0: true, 65_536: true, 16_384: false, 4096: false} {
		tier := TierOf(window)
		first := b.System("cli", "", guard.Place{Workspace: ws}, tier)
		if got := strings.Contains(first, "the end"); got != want {
			t.Errorf("window %d: long description %v, want %v", window, got, want)
		}
		if n := strings.Count(first, "**a**"); tier.Skills && n != 1 {
			t.Errorf("window %d: the skill is listed %d times", window, n)
		}
		if again := b.System("cli", "", guard.Place{Workspace: ws}, tier); again != first {
			t.Errorf("window %d: the second prompt differs", window)
		}
		if got := strings.Contains(b.Subagent("", guard.Place{Workspace: ws}, tier), "the end"); got != want {
			t.Errorf("window %d: subagent's long description %v, want %v", window, got, want)
		}
	}
}

// A user's own settings are never made larger, and smaller ones stay.
func TestTierLimits(t *testing.T) {
	t.Parallel()
	l, answer := TierOf(4096).Limits(runner.Limits{ToolResultChars: 16000, ContextBlock: 0}, 8192)
	if answer != 1024 || l.ContextBlock != 2816 || l.ToolResultChars != 2000 {
		t.Errorf("limits = %+v, answer %d", l, answer)
	}
	l, answer = TierOf(4096).Limits(runner.Limits{ToolResultChars: 100, ContextBlock: 300}, 50)
	if answer != 50 || l.ContextBlock != 300 || l.ToolResultChars != 100 {
		t.Errorf("limits = %+v, answer %d", l, answer)
	}
	l, answer = TierOf(0).Limits(runner.Limits{ToolResultChars: 16000}, 8192)
	if answer != 8192 || l.ContextBlock != 0 || l.ToolResultChars != 16000 {
		t.Errorf("limits = %+v, answer %d", l, answer)
	}
}

func TestShortened(t *testing.T) {
	t.Parallel()
	long := "## AGENTS.md\n\n" + strings.Repeat("Zeile mit Wörtern.\n", 100)
	got := shortened(long, 300)
	if n := len([]rune(got)); n > 300 || !strings.HasSuffix(got, "read the file for the rest]") || !strings.HasPrefix(long, strings.TrimSuffix(got, "\n[cut to fit the model; read the file for the rest]")) {
		t.Errorf("shortened to %d: %q", n, got)
	}
	if got := shortened("short", 300); got != "short" {
		t.Errorf("got %q", got)
	}
	if got := shortened(long, 0); got != long {
		t.Error("no bound, but cut")
	}
}
