package gateway_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/backup"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
)

const linkCanary = "canary-of-a-file-outside"

// linked is a home with a workspace, and canaries beside it.
type linked struct {
	t             *testing.T
	home, ws, out string
	seen          map[string]string // outside, at the beginning
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	base := t.TempDir()
	l := &linked{t: t, home: filepath.Join(base, "home"), ws: filepath.Join(base, "ws"), out: filepath.Join(base, "out")}
	for _, name := range []string{"home/x", "ws/notes.md", "out/file", "out/dir/MEMORY.md", "out/dir/SKILL.md", "out/dir/history.jsonl", "out/dir/x/SKILL.md", "out/dir/HEAD"} {
		path := filepath.Join(base, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(linkCanary), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.seen = l.outside()
	return l
}

func (l *linked) outside() map[string]string {
	l.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(l.out, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var data []byte
			data, err = os.ReadFile(path)
			all[path] = string(data)
		} else if err == nil {
			all[path] = d.Type().String()
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return all
}

// intact compares what is outside with the beginning.
func (l *linked) intact() {
	l.t.Helper()
	if now := l.outside(); fmt.Sprint(now) != fmt.Sprint(l.seen) {
		l.t.Errorf("outside are %v, want %v", now, l.seen)
	}
}

// plant puts a link where a name is.
func (l *linked) plant(name, target string) {
	l.t.Helper()
	at := filepath.Join(l.ws, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(at), 0o700)
	if err = errors.Join(err, os.RemoveAll(at), os.Symlink(filepath.Join(l.out, target), at)); err != nil {
		l.t.Fatal(err)
	}
}

// start runs one turn and returns the notes and everything the model saw.
func (l *linked) start() (notes []string, seen string) {
	l.t.Helper()
	var prompt strings.Builder
	model := llmtest.NewScript(l.t, llmtest.Reply("fine"))
	a, err := app.New(l.t.Context(), app.Options{
		UseModel: llm.Model(model), Workspace: l.ws, Env: []string{"NANOBOT_HOME=" + l.home, "PATH=" + os.Getenv("PATH")}, Config: config.Options{Home: l.home},
	})
	if err != nil {
		return []string{err.Error()}, "" // a start that is refused shows nothing
	}
	ctx, stop := context.WithCancel(l.t.Context())
	a.Agent.Open(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(ctx) })
	for out, err := range a.Agent.Ask(ctx, bus.Inbound{Route: bus.Route{Channel: "test", ChatID: "1"}, Text: "hello"}) {
		fmt.Fprint(&prompt, out.Text, err)
	}
	req := model.Last()
	fmt.Fprint(&prompt, req.System, req.Messages)
	stop()
	running.Wait()
	if err := a.Close(); err != nil {
		l.t.Error(err)
	}
	return a.Notes, prompt.String()
}

// A link that a command planted, before the first start or between two, shows
// the model nothing, changes nothing outside, and is told.
func TestStartFollowsNoLink(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]string{
		"AGENTS.md": "file", "SOUL.md": "file", "USER.md": "file", "HEARTBEAT.md": "file",
		"memory/MEMORY.md": "file", "memory/history.jsonl": "dir/history.jsonl", "memory": "dir", "skills": "dir",
		"skills/x": "dir/x", "skills/x/SKILL.md": "dir/SKILL.md", ".git": "dir",
	} {
		for _, when := range []string{"first", "between"} {
			t.Run(strings.ReplaceAll(name, "/", "+")+" "+when, func(t *testing.T) {
				t.Parallel()
				l := newLinked(t)
				if when == "between" {
					if _, seen := l.start(); !strings.Contains(seen, "hello") {
						t.Fatalf("the turn did not run: %s", seen)
					}
				}
				l.plant(name, target)
				notes, seen := l.start()
				if strings.Contains(seen, linkCanary) {
					t.Errorf("the model saw what the link leads to:\n%s", seen)
				}
				if said := strings.Join(notes, "\n"); !strings.Contains(said, name+" in ") && !strings.Contains(said, "link") && name != "memory/history.jsonl" {
					t.Errorf("nothing says that %s is a link: %s", name, said)
				}
				l.intact()
			})
		}
	}
}

// A backup takes nothing along from behind links, also when they are swapped in
// while it is written.
func TestBackupFollowsNoLink(t *testing.T) {
	t.Parallel()
	l := newLinked(t)
	put := func(name string) {
		path := filepath.Join(l.ws, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("own"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(l.ws, "notes.md"), []byte("own"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		put(fmt.Sprintf("project/%02d/file", i))
	}
	l.plant("way", "dir")
	l.plant("single", "file")
	if err := os.WriteFile(filepath.Join(l.home, "config.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Path: filepath.Join(l.home, "config.json"), Home: l.home})
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var swapper sync.WaitGroup
	swapper.Go(func() {
		dir, kept := filepath.Join(l.ws, "project", "39"), filepath.Join(l.ws, "kept")
		for !over.Load() {
			_ = os.Rename(dir, kept)
			_ = os.Symlink(l.out, dir)
			_ = os.Remove(dir)
			_ = os.Rename(kept, dir)
		}
	})
	for i := range 60 {
		file := filepath.Join(t.TempDir(), strconv.Itoa(i))
		if _, err := backup.Create(t.Context(), file, backup.Options{Config: cfg, Workspace: l.ws, Version: "1", Now: time.Unix(1e9, 0)}); err != nil {
			t.Fatal(err)
		}
		packed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(z); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r)
			if err != nil || bytes.Contains(body, []byte(linkCanary)) {
				t.Fatalf("%s holds %q, %v", h.Name, body, err)
			}
		}
	}
	over.Store(true)
	swapper.Wait()
	l.intact()
}

// doctor names each link that is not followed.
func TestDoctorNamesLinks(t *testing.T) {
	t.Parallel()
	l := newLinked(t)
	l.plant("skills", "dir")
	l.plant("AGENTS.md", "file")
	o := app.Options{Workspace: l.ws, Env: []string{"NANOBOT_HOME=" + l.home, "PATH=" + os.Getenv("PATH"), "OLLAMA_HOST=127.0.0.1:1"}, Config: config.Options{Home: l.home}}
	for _, s := range doctor.Checkup(t.Context(), o).Symptoms {
		if s.ID == "links" {
			if !strings.Contains(s.Detail, "AGENTS.md, skills in "+l.ws+" are links") || s.Fix == "" {
				t.Errorf("it says %q, %q", s.Detail, s.Fix)
			}
			return
		}
	}
	t.Error("nothing is said about links")
}
