package signin_test

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
)

// TestCases replays the conformance files that are about signing in. What
// happens is told as the text of an answer.
func TestCases(t *testing.T) {
	t.Parallel()
	llmtest.Conformance(t, "oauth", func(t *testing.T, s *llmtest.Server, o llmtest.Setup) llm.Model {
		t.Helper()
		w := bubbleWorld(t)
		w.refresh = "refresh-0"
		switch o.SignIn.Token {
		case "expired":
			w.keep(t, "openai-codex", "old", "refresh-0", time.Now().Add(-time.Hour))
		case "revoked":
			w.keep(t, "openai-codex", "old", "refresh-0", time.Now().Add(time.Hour))
		}
		switch {
		case o.SignIn.Polls != nil:
			w.pending = o.SignIn.Polls
			return says(func() string { return w.pollTimes(t) })
		case o.SignIn.State != "":
			return says(func() string { return w.comeBack(t, o.SignIn.State) })
		case o.SignIn.Calls > 1:
			return says(func() string { return w.callTogether(t, o.SignIn.Calls) })
		}
		m, err := openai.New(openai.Options{Name: "openai_codex", BaseURL: s.URL, Client: s.Client(), Signer: w.account(t, "openai-codex").Signer()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if n, _ := w.count(); n != 1 {
				t.Errorf("%d refreshes, want 1", n)
			}
		})
		return m
	})
}

// says makes a model of a function that tells what happened.
func says(f func() string) llm.Model {
	return llm.ModelFunc(func(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
		return func(yield func(llm.Event, error) bool) {
			text := f()
			_ = yield(llm.Event{Kind: llm.TextDelta, Text: text}, nil) &&
				yield(llm.Event{Kind: llm.Done, Response: &llm.Response{Message: llm.Message{Role: llm.Assistant, Content: llm.Text(text)}}}, nil)
		}
	})
}

func (w *world) pollTimes(t *testing.T) string {
	t.Helper()
	start := time.Now()
	if _, err := w.account(t, "github-copilot").Login(t.Context(), signin.Dialog{}); err != nil {
		return err.Error()
	}
	var parts []string
	for _, d := range waits(start, w.polls) {
		parts = append(parts, d.String())
	}
	return "signed in after " + strings.Join(parts, " ")
}

func (w *world) comeBack(t *testing.T, state string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := make(chan signin.Step, 20)
	done := make(chan error, 1)
	a := w.account(t, "openai-codex")
	go func() {
		_, err := a.Login(ctx, signin.Dialog{Notify: func(s signin.Step) { steps <- s }})
		done <- err
	}()
	for s := range steps {
		if s.URL != "" {
			redirect, _ := w.browser(t, s.URL)
			status, _ := visit(t, redirect+"?"+url.Values{"code": {"evil"}, "state": {state}}.Encode())
			cancel()
			<-done
			return fmt.Sprint(status)
		}
	}
	return "no address was shown"
}

func (w *world) callTogether(t *testing.T, calls int) string {
	t.Helper()
	a := w.account(t, "openai-codex")
	got := make([]string, calls)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			req, err := sign(t, a, "{}")
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = req.Header.Get("Authorization")
		})
	}
	wg.Wait()
	fine := 0
	for _, h := range got {
		if h == "Bearer "+w.access {
			fine++
		}
	}
	n, _ := w.count()
	return fmt.Sprintf("%d calls with the new token, %d refresh", fine, n)
}
