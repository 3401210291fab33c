package subject_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// home is a program with real stores, and a desk about it.
type home struct {
	*subject.Program
	*web.Desk
	busy   map[string]bool // conversations with a turn
	events map[string]int64
	unread *subject.Unread
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
	log := slog.New(slog.DiscardHandler)
	h := &home{busy: map[string]bool{}, events: map[string]int64{}, unread: subject.NewUnread(disk.Open(data, nil), log)}
	h.Program = &subject.Program{
		Workspace: ws, DataDir: data, Sessions: st, Archive: &archiver{sessions: st}, Agent: worker{busy: h.busy},
		Schedule: sched, Skills: skill.Open(skill.Options{Workspace: ws, Ledger: place.Ledger}), Place: place, Jail: jail,
		Secrets: newSecrets(t),
	}
	seq := func(key string) (int64, bool) {
		n, ok := h.events[key]
		return n, ok
	}
	h.Desk, err = web.NewDesk(
		log,
		subject.Conversations{Now: h.now, Unread: h.unread, Log: log},
		subject.Thread{Now: h.now, Seq: seq, Attachment: attachment, Log: log},
		subject.Replay{Now: h.now},
		subject.Files{Now: h.now},
		subject.Schedule{Now: h.now, Clock: noon},
		subject.Skills{Now: h.now, Clock: noon},
		subject.Commands{{Name: "stop", About: "stop the running turn and drop waiting messages"}},
		subject.Workspaces{Now: h.now},
	)
	must(t, err)
	return h
}

func (h *home) now(context.Context) (*subject.Program, error) { return h.Program, nil }

// attachment knows more than the name of what is in /media.
func attachment(path string) subject.Attachment {
	a := subject.Attachment{Name: filepath.Base(path)}
	if filepath.Dir(path) == "/media" {
		a.URL, a.Type, a.Size = "/api/media/x/y", "text/plain; charset=utf-8", 7
	}
	return a
}

// worker is an agent with some turns.
type worker struct {
	busy    map[string]bool
	context func(key string) (any, error)
	undone  *[]string // what the model was told
	prompts map[string]subject.Prompt
}

func (w worker) BusyWith(key string) bool { return w.busy[key] }

func (w worker) Subagents(key string) []string { return []string{"5e1f" + key} }

func (w worker) Context(_ context.Context, key string) (any, error) { return w.context(key) }

func (w worker) Prompt(_ context.Context, key string) (subject.Prompt, error) {
	p, ok := w.prompts[key]
	if !ok {
		return p, session.ErrNotFound
	}
	return p, nil
}

func (w worker) Undone(_ context.Context, key string, paths []string) error {
	*w.undone = append(*w.undone, key+" "+strings.Join(paths, " "))
	return nil
}

// OpenQuestions has one question that waits, q1 with the option yes.
func (w worker) OpenQuestions() any { return []string{"q1"} }

func (w worker) AnswerQuestion(a bus.Answer) bool {
	return a == bus.Answer{QuestionID: "q1", Option: "yes", Remark: "go on"}
}

// archiver puts conversations away as the program does, unless it fails.
type archiver struct {
	sessions *session.Store
	deleted  []string
	err      error
}

func (a *archiver) DeleteSession(ctx context.Context, key string) (bool, error) {
	a.deleted = append(a.deleted, key)
	if a.err != nil {
		return false, a.err
	}
	err := a.sessions.Delete(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (a *archiver) EraseSession(ctx context.Context, key string) error {
	return session.Erase(ctx, a.sessions, key)
}

func (a *archiver) EraseArchived(ctx context.Context, id string) error {
	return session.EraseArchived(ctx, a.sessions, id)
}

// newSecrets knows one credential, sk-hush-0123456789, which is shown as [redacted:key].
func newSecrets(t *testing.T) *httpsafe.Registry {
	t.Helper()
	secrets := &httpsafe.Registry{}
	if skipped := secrets.Add("key", httpsafe.NewSecret("sk-hush-0123456789")); skipped != "" {
		t.Fatal(skipped)
	}
	return secrets
}

// newSubject is a desk with some subjects.
func newSubject(t *testing.T, all ...web.Subject) *home {
	t.Helper()
	d, err := web.NewDesk(slog.New(slog.DiscardHandler), all...)
	must(t, err)
	return &home{Program: &subject.Program{}, Desk: d}
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

// get reads a path and returns the status and the body.
func get(t *testing.T, d *web.Desk, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, strings.TrimSpace(string(body))
}

// do carries out an action and returns the result, or the status of the refusal.
func do(t *testing.T, d *web.Desk, action, payload string) (string, int) {
	t.Helper()
	out, _, err := d.Do(t.Context(), action, json.RawMessage(payload))
	if err == nil {
		return string(out), http.StatusOK
	}
	e, ok := errors.AsType[*web.Error](err)
	if !ok {
		t.Fatalf("%s: %v is not a *web.Error", action, err)
	}
	return e.Message, e.Status
}

// changes carries out an action that must work and returns the topics that it changed.
func (h *home) changes(t *testing.T, action, payload string) []string {
	t.Helper()
	_, changed, err := h.Do(t.Context(), action, json.RawMessage(payload))
	must(t, err)
	return changed
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
