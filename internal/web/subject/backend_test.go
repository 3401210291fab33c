package subject_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// home is a backend with real stores, and its API.
type home struct {
	subject.Backend
	*web.Desk
	busy map[string]bool
}

func noon() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func newHome(t *testing.T) *home {
	t.Helper()
	data, ws := t.TempDir(), t.TempDir()
	st, err := session.Open(session.Options{DataDir: data, Store: disk.Open(data, nil), Workspace: ws, Fsync: session.FsyncNever, Now: noon})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	sched, err := schedule.Open(schedule.Options{
		State: disk.Open(filepath.Join(data, "cron"), nil), Location: time.UTC, Now: noon,
		System: []schedule.System{{ID: "dream", Name: "dream", Timing: schedule.Every(time.Hour)}},
	})
	must(t, err)
	secret := filepath.Join(ws, "secret.txt")
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: ws, Restrict: true, Protected: []string{secret}})
	must(t, err)
	t.Cleanup(func() { must(t, jail.Close()) })
	place := skill.Place{Workspace: ws, Ledger: disk.Open(data, nil)}
	h := &home{busy: map[string]bool{}}
	h.Backend = subject.Backend{
		Workspace: ws, Sessions: st, Schedule: sched, Jail: jail, Place: place,
		Skills:  skill.Open(skill.Options{Workspace: ws, Ledger: place.Ledger}),
		Running: func(key string) (bool, []string) { return h.busy[key], []string{"5e1f" + key} },
		Redact:  func(s string) string { return strings.ReplaceAll(s, "sk-hush", "[redacted]") },
	}
	h.Desk = newAPI(t, func(o *subject.Options) {
		o.Backend = func(context.Context) (subject.Backend, error) { return h.Backend, nil }
		o.Commands, o.Now = []subject.Command{{Name: "stop", About: "stop the running turn and drop waiting messages"}}, noon
	})
	return h
}

// newSubject is a desk with one subject.
func newSubject(t *testing.T, s web.Subject) *home {
	t.Helper()
	d, err := web.NewDesk(slog.New(slog.DiscardHandler), s)
	must(t, err)
	return &home{Desk: d}
}

// say puts records into a conversation.
func (h *home) say(t *testing.T, key string, recs ...session.Record) {
	t.Helper()
	s, err := h.Sessions.Acquire(t.Context(), key)
	must(t, err)
	must(t, s.Append(recs...))
	must(t, s.Release())
}

func user(s string) session.Record {
	return session.Record{Message: llm.Message{Role: llm.User, Content: llm.Text(s)}}
}

func answer(s string) session.Record {
	return session.Record{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(s)}}
}

// read gets a path that must be there.
func read[T any](t *testing.T, h *home, path string) T {
	t.Helper()
	code, body := get(t, h.Desk, "/api/"+path)
	var v T
	if code != 200 || json.Unmarshal([]byte(body), &v) != nil {
		t.Fatalf("%s = %d %.300s", path, code, body)
	}
	return v
}

// refused gets a path and wants a refusal.
func (h *home) refused(t *testing.T, path string, want int, word string) {
	t.Helper()
	if code, body := get(t, h.Desk, "/api/"+path); code != want || !strings.Contains(body, word) {
		t.Errorf("%s = %d %.300s, want %d and %q", path, code, body, want, word)
	}
}

// acts carries out an action that must work.
func acts[T any](t *testing.T, h *home, action, payload string) T {
	t.Helper()
	out, status := do(t, h.Desk, action, payload)
	var v T
	if status != 200 || json.Unmarshal([]byte(out), &v) != nil {
		t.Fatalf("%s %.200s = %d %.300s", action, payload, status, out)
	}
	return v
}

// refuses carries out an action and wants a refusal.
func (h *home) refuses(t *testing.T, action, payload string, want int, word string) {
	t.Helper()
	if msg, status := do(t, h.Desk, action, payload); status != want || !strings.Contains(msg, word) {
		t.Errorf("%s %.200s = %d %.300s, want %d and %q", action, payload, status, msg, want, word)
	}
}

func (h *home) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(h.Workspace, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func (h *home) writeJobs(t *testing.T, content string) {
	t.Helper()
	must(t, os.MkdirAll(h.Schedule.State.Where(""), 0o755))
	must(t, os.WriteFile(filepath.Join(h.Schedule.State.Where(""), "jobs.json"), []byte(content), 0o600))
}

func TestCommandsAndWorkspaces(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	c := read[map[string][]subject.Command](t, h, "commands")
	if len(c["commands"]) != 1 || c["commands"][0].Name != "stop" {
		t.Errorf("commands = %v", c)
	}
	zh := read[map[string][]subject.Command](t, h, "commands?language=zh-CN")
	if about := zh["commands"][0].About; about != phrase.In(phrase.Chinese, c["commands"][0].About) || about == c["commands"][0].About {
		t.Errorf("in Chinese: %q", about)
	}
	type workspace struct {
		Path, Name string
		Default    bool
	}
	w := read[struct {
		Workspaces []workspace
		Default    string
	}](t, h, "workspaces")
	if want := (workspace{h.Workspace, filepath.Base(h.Workspace), true}); w.Default != h.Workspace || len(w.Workspaces) != 1 || w.Workspaces[0] != want {
		t.Errorf("workspaces = %+v, want one: %+v", w, want)
	}
}
