package signin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
)

func authError(t *testing.T, err error, part string) {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Kind != llm.Auth || !strings.Contains(e.Message, part) {
		t.Errorf("error = %v, want kind auth with %q", err, part)
	}
}

// Row 92: twenty calls find an expired token; it is refreshed once.
func TestRow92OneRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refresh = "refresh-0"
	w.gate = make(chan struct{})
	w.keep(t, "openai-codex", "old", "refresh-0", time.Now().Add(-time.Hour))
	a := w.account(t, "openai_codex")
	var wg sync.WaitGroup
	got := make([]string, 20)
	var ready sync.WaitGroup
	ready.Add(len(got))
	for i := range got {
		wg.Go(func() {
			ready.Done()
			req, err := sign(t, a, "{}")
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = req.Header.Get("Authorization")
		})
	}
	ready.Wait()
	close(w.gate)
	wg.Wait()
	if n, _ := w.count(); n != 1 {
		t.Errorf("refreshes = %d, want 1", n)
	}
	for i, h := range got {
		if h != "Bearer "+w.access {
			t.Errorf("call %d signed %q, want the new token", i, h)
		}
	}
	if k := w.kept(t); k.Access != w.access || k.Refresh != "refresh-1" || k.AccountID != "acc-1" {
		t.Errorf("kept %+v, want the new token", k)
	}
}

// A failing refresh is shared too: the provider is not asked once per call.
func TestDeadRefreshToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep(t, "openai-codex", "old", "refresh-used", time.Now().Add(-time.Hour))
	a := w.account(t, "openai-codex")
	_, err := sign(t, a, "{}")
	authError(t, err, "nanobot provider login openai-codex")
	if strings.Contains(err.Error(), "refresh-used") {
		t.Errorf("error shows the refresh token: %v", err)
	}
	if k := w.kept(t); k.Refresh != "refresh-used" {
		t.Errorf("kept %+v, want the file untouched", k)
	}
}

// Row 94: a 401 is answered by a refresh and one more try, through the driver.
func TestRow94RefusedOnce(t *testing.T) {
	t.Parallel()
	refusal := llmtest.Answer{Status: 401, Body: `{"error":{"message":"token expired"}}`}
	fine := llmtest.Answer{Reply: &llmtest.StreamReply{Text: []string{"ok"}}}
	tests := []struct {
		name      string
		answers   []llmtest.Answer
		kind      llm.Kind
		refreshes int
		requests  int
	}{
		{"once", []llmtest.Answer{refusal, fine}, "", 1, 2},
		{"twice", []llmtest.Answer{refusal, refusal}, llm.Auth, 1, 2},
		{"never", []llmtest.Answer{fine}, "", 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.refresh = "refresh-0"
			w.keep(t, "openai-codex", "revoked", "refresh-0", time.Now().Add(time.Hour))
			s := llmtest.NewServer(t, tt.answers...)
			m, err := openai.New(openai.Options{
				Name: "openai_codex", BaseURL: s.URL, Signer: w.account(t, "openai-codex").Signer(),
			})
			if err != nil {
				t.Fatal(err)
			}
			got := llmtest.Watch(t.Context(), t, m, llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.User, Content: llm.Text("hi")}}})
			if e, _ := errors.AsType[*llm.Error](got.Err); tt.kind != "" && (e == nil || e.Kind != tt.kind) || tt.kind == "" && got.Err != nil {
				t.Fatalf("error = %v, want kind %q", got.Err, tt.kind)
			}
			if tt.kind == "" && got.Text != "ok" {
				t.Errorf("text = %q, want ok", got.Text)
			}
			if n, _ := w.count(); n != tt.refreshes {
				t.Errorf("refreshes = %d, want %d", n, tt.refreshes)
			}
			rs := s.Requests()
			if len(rs) != tt.requests {
				t.Fatalf("requests = %d, want %d", len(rs), tt.requests)
			}
			if tt.refreshes > 0 {
				first, second := rs[0].Header.Get("Authorization"), rs[1].Header.Get("Authorization")
				if first != "Bearer revoked" || second != "Bearer "+w.access {
					t.Errorf("signed %q then %q, want the old and the new token", first, second)
				}
				if string(rs[0].Body) != string(rs[1].Body) {
					t.Error("the second try has another body")
				}
			}
			for k, want := range map[string]string{
				"chatgpt-account-id": "acc-1", "OpenAI-Beta": "responses=experimental", "originator": "nanobot", "User-Agent": "nanobot/9",
			} {
				if v := rs[0].Header.Get(k); v != want {
					t.Errorf("header %s = %q, want %q", k, v, want)
				}
			}
		})
	}
}

// Twenty requests refused at once share one refresh as well.
func TestRefusedTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refresh = "refresh-0"
	w.keep(t, "openai-codex", "revoked", "refresh-0", time.Now().Add(time.Hour))
	a := w.account(t, "openai-codex")
	if _, err := sign(t, a, "{}"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if !a.Signer().Refused(t.Context()) {
				t.Error("Refused = false, want a new token")
			}
		})
	}
	wg.Wait()
	// A request that was on its way with the old token comes back late.
	if !a.Signer().Refused(t.Context()) {
		t.Error("late Refused = false, want another try")
	}
	if n, _ := w.count(); n != 1 {
		t.Errorf("refreshes = %d, want 1", n)
	}
}

// A token that another process renewed meanwhile is taken without a refresh.
func TestRefusedReadsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keep(t, "openai-codex", "revoked", "refresh-0", time.Now().Add(time.Hour))
	a := w.account(t, "openai-codex")
	if _, err := sign(t, a, "{}"); err != nil {
		t.Fatal(err)
	}
	w.keep(t, "openai-codex", "newer", "refresh-7", time.Now().Add(time.Hour))
	if !a.Signer().Refused(t.Context()) {
		t.Fatal("Refused = false, want the token on disk")
	}
	req, err := sign(t, a, "{}")
	if err != nil || req.Header.Get("Authorization") != "Bearer newer" {
		t.Errorf("signed %q, %v; want the token on disk", req.Header.Get("Authorization"), err)
	}
	if n, _ := w.count(); n != 0 {
		t.Errorf("refreshes = %d, want 0", n)
	}
}

// A renewed token works although it cannot be kept.
func TestRenewedButNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refresh = "refresh-0"
	w.keep(t, "openai-codex", "old", "refresh-0", time.Now().Add(-time.Hour))
	a := w.account(t, "openai-codex")
	// A folder in the place of the file: replacing it fails, reading too.
	w.gate = make(chan struct{})
	done := make(chan error, 1)
	go func() { _, err := sign(t, a, "{}"); done <- err }()
	waitFor(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.agents["nanobot/9"] })
	path := filepath.Join(w.dir, "openai-codex.json")
	if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	close(w.gate)
	if err := <-done; err != nil {
		t.Errorf("error = %v, want the token to be used", err)
	}
	if _, err := sign(t, a, "{}"); err != nil {
		t.Errorf("second error = %v, want the token to be used", err)
	}
}

// waitFor asks until a condition on another goroutine holds.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("nothing happened in a minute")
		}
	}
}

// A caller that gives up neither loses the new token nor stops the others.
func TestRefreshSurvivesCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refresh = "refresh-0"
	w.gate = make(chan struct{})
	w.keep(t, "openai-codex", "old", "refresh-0", time.Now().Add(-time.Hour))
	a := w.account(t, "openai-codex")
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, a.BaseURL(), nil)
	done := make(chan error, 1)
	go func() { done <- a.Signer().Sign(ctx, req, nil) }()
	waitFor(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.agents["nanobot/9"] })
	cancel()
	close(w.gate)
	<-done
	if k := w.kept(t); k.Refresh != "refresh-1" {
		t.Errorf("kept %+v, want the new token", k)
	}
}

const childVariable = "NANOBOT_TEST_SIGNIN_CHILD"

// Two processes find an expired token; one refreshes, both use the result.
func TestTwoProcessesRefreshOnce(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(childVariable); dir != "" {
		child(t, dir, os.Getenv(childVariable+"_URL"))
		return
	}
	w := newWorld(t)
	w.refresh = "refresh-0"
	w.gate = make(chan struct{})
	w.keep(t, "openai-codex", "old", "refresh-0", time.Now().Add(-time.Hour))
	var wg sync.WaitGroup
	out := make([]string, 3)
	for i := range out {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTwoProcessesRefreshOnce$", "-test.count=1")
			cmd.Env = append(os.Environ(), childVariable+"="+w.dir, childVariable+"_URL="+w.url)
			b, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("child %d: %v\n%s", i, err, b)
			}
			out[i] = string(b)
		})
	}
	waitFor(t, func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.agents["nanobot/9"] })
	close(w.gate)
	wg.Wait()
	if n, _ := w.count(); n != 1 {
		t.Errorf("refreshes = %d, want 1", n)
	}
	for i, o := range out {
		if !strings.Contains(o, "signed Bearer "+w.access) {
			t.Errorf("child %d said %q, want the new token", i, o)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "openai-codex.lock")); !os.IsNotExist(err) {
		t.Errorf("the lock file is still there: %v", err)
	}
}

func child(t *testing.T, dir, base string) {
	t.Helper()
	e := env(base)
	a, err := signin.New("openai-codex", signin.Options{Store: folderStore(dir), Version: "9", Getenv: func(k string) string { return e[k] }})
	if err != nil {
		t.Fatal(err)
	}
	req, err := sign(t, a, "{}")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "signed "+req.Header.Get("Authorization"))
}
