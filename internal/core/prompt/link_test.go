package prompt

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/guard"
)

const promptCanary = "canary-of-a-file-outside"

// linkYard is a workspace with files of the prompt, and canaries beside it and
// in a file of it that nobody meant as instructions.
func linkYard(t *testing.T) (ws, out string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	base := t.TempDir()
	ws, out = filepath.Join(base, "ws"), filepath.Join(base, "out")
	for name, body := range map[string]string{
		"ws/AGENTS.md": "own agents", "ws/SOUL.md": "own soul", "ws/memory/MEMORY.md": "own memory", "ws/downloads/page.md": promptCanary,
		"ws/skills/real/SKILL.md": "---\ndescription: own skill\nalways: true\n---\nown skill",
		"out/file":                promptCanary, "out/MEMORY.md": promptCanary, "out/x/SKILL.md": "---\ndescription: " + promptCanary + "\nalways: true\n---\n" + promptCanary,
	} {
		path := filepath.Join(base, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ws, out
}

func replaceByLink(t *testing.T, path, target string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// IDENTITY.md says who the agent is. It comes last of the files, as in the first
// versions of Python nanobot, for guests as well; words from outside do not count.
func TestPromptHasIdentity(t *testing.T) {
	t.Parallel()
	ws, _ := linkYard(t)
	if err := os.WriteFile(filepath.Join(ws, "IDENTITY.md"), []byte("I am Ada"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := false
	now := time.Now()
	p := New(Options{Workspace: ws, Foreign: func(path string) bool { return foreign && strings.HasSuffix(path, "IDENTITY.md") }, Now: func() time.Time { now = now.Add(time.Second); return now }})
	for _, scope := range []string{"", "g/ann"} {
		if got := p.System("cli", scope, guard.Place{}, TierOf(65536)); !strings.Contains(got, "## SOUL.md\n\nown soul\n\n## IDENTITY.md\n\nI am Ada") {
			t.Errorf("the prompt of %q lacks it:\n%s", scope, got)
		}
	}
	foreign = true
	if got := p.System("cli", "", guard.Place{}, TierOf(65536)); strings.Contains(got, "Ada") {
		t.Errorf("words from outside are in the prompt:\n%s", got)
	}
}

// A link that a command planted brings nothing into the prompt, whether it was
// there before the start, came between two prompts, or stays inside.
func TestPromptFollowsNoLink(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, target string }{
		{"AGENTS.md", "../out/file"},
		{"SOUL.md", "downloads/page.md"}, // inside, and still not an instruction
		{"USER.md", "/proc/self/environ"},
		{"TOOLS.md", "../out/file"},
		{"IDENTITY.md", "../out/file"},
		{"memory/MEMORY.md", "../../out/file"},
		{"memory", "../out"},
		{"skills", "../out"},
		{"skills/x", "../../out/x"},
		{"skills/real/SKILL.md", "../../../out/x/SKILL.md"},
	} {
		for _, when := range []string{"before the start", "between two prompts"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				t.Parallel()
				ws, _ := linkYard(t)
				now := time.Now()
				p := New(Options{
					Workspace: ws,
					Skills:    skill.Open(skill.Options{Workspace: ws}),
					Now:       func() time.Time { now = now.Add(time.Second); return now },
				})
				if when == "between two prompts" {
					if got := p.System("cli", "", guard.Place{}, TierOf(65536)); !strings.Contains(got, "own agents") || !strings.Contains(got, "own skill") {
						t.Fatalf("the files are not in the prompt:\n%s", got)
					}
				}
				replaceByLink(t, filepath.Join(ws, filepath.FromSlash(c.name)), c.target)
				for range 2 {
					got := p.System("cli", "", guard.Place{}, TierOf(65536))
					if strings.Contains(got, promptCanary) || strings.Contains(got, "PATH=") {
						t.Errorf("the prompt holds what the link leads to:\n%s", got)
					}
				}
			})
		}
	}
}

// A link that is swapped in while prompts are made brings nothing in, either.
func TestPromptWhileLinksAreSwapped(t *testing.T) {
	t.Parallel()
	ws, out := linkYard(t)
	now := time.Now()
	p := New(Options{
		Workspace: ws,
		Skills:    skill.Open(skill.Options{Workspace: ws}),
		Now:       func() time.Time { now = now.Add(time.Second); return now },
	})
	var over atomic.Bool
	var swapper sync.WaitGroup
	swapper.Go(func() {
		at := func(name string) string { return filepath.Join(ws, name) }
		for i := 0; !over.Load(); i++ {
			if i%2 == 0 {
				_ = os.Remove(at("AGENTS.md"))
				_ = os.Symlink(filepath.Join(out, "file"), at("AGENTS.md"))
				_ = os.Rename(at("memory"), at("kept"))
				_ = os.Symlink(out, at("memory"))
				continue
			}
			_ = os.Remove(at("AGENTS.md"))
			_ = os.WriteFile(at("AGENTS.md"), []byte(strings.Repeat("own ", i%9)), 0o600)
			_ = os.Remove(at("memory"))
			_ = os.Rename(at("kept"), at("memory"))
		}
	})
	for range 1500 {
		if got := p.System("cli", "", guard.Place{}, TierOf(65536)); strings.Contains(got, promptCanary) {
			t.Error("the prompt holds what a link leads to")
			break
		}
	}
	over.Store(true)
	swapper.Wait()
}

// Attachments in the workspace are reached without links; one in the data
// folder may lie behind links of the owner.
func TestAttachmentsFollowNoLink(t *testing.T) {
	t.Parallel()
	ws, out := linkYard(t)
	replaceByLink(t, filepath.Join(ws, "picture.png"), filepath.Join(out, "file"))
	replaceByLink(t, filepath.Join(ws, "way"), out)
	for _, name := range []string{"picture.png", "way/file"} {
		if f, err := openAttached(ws, filepath.Join(ws, filepath.FromSlash(name))); err == nil {
			_ = f.Close()
			t.Errorf("opened %s", name)
		}
	}
	for _, path := range []string{filepath.Join(ws, "downloads", "page.md"), filepath.Join(out, "file")} {
		f, err := openAttached(ws, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_ = f.Close()
	}
}
