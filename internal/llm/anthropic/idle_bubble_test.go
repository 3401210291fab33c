package anthropic_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
)

// slow streams pieces with a pause before each, and then falls silent.
func slow(pause time.Duration, pieces ...string) tripFunc {
	return func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		ctx := r.Context()
		go func() {
			for _, p := range pieces {
				time.Sleep(pause)
				if _, err := io.WriteString(pw, p); err != nil {
					return
				}
			}
			<-ctx.Done()
			pw.CloseWithError(ctx.Err())
		}()
		return &http.Response{StatusCode: 200, Body: pr, Request: r}, nil
	}
}

func bubbleModel(t *testing.T, trip tripFunc, idle time.Duration) llm.Model {
	t.Helper()
	m, err := anthropic.New(anthropic.Options{Client: &http.Client{Transport: trip}, IdleTimeout: idle})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSilenceTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := bubbleModel(t, slow(time.Second, "data: "+start+"\n\n"), 0)
		begin := time.Now()
		_, err := llm.Collect(t.Context(), m, ask())
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.Timeout || e.Provider != "anthropic" {
			t.Errorf("error = %v, want a timeout", err)
		}
		if got, want := time.Since(begin), 91*time.Second; got != want {
			t.Errorf("timed out after %v, want %v", got, want)
		}
	})
}

// 59: pings and comments are life, also through a long thought.
func TestPingsKeepTheStreamAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pieces := []string{"data: " + start + "\n\n"}
		for range 5 {
			pieces = append(pieces, "data: {\"type\":\"ping\"}\n\n", ": still here\n\n")
		}
		pieces = append(pieces, "data: "+stopText+"\n\ndata: "+end+"\n\n")
		m := bubbleModel(t, slow(50*time.Second, pieces...), time.Minute)
		begin := time.Now()
		if _, err := llm.Collect(t.Context(), m, ask()); err != nil {
			t.Errorf("error = %v, want an answer", err)
		}
		if got := time.Since(begin); got < 10*time.Minute {
			t.Errorf("answered after %v, want the slow stream to the end", got)
		}
	})
}

func TestNoAnswerAtAllTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := bubbleModel(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, 0)
		begin := time.Now()
		_, err := llm.Collect(t.Context(), m, ask())
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.Timeout {
			t.Errorf("error = %v, want a timeout", err)
		}
		if got, want := time.Since(begin), 120*time.Second; got != want {
			t.Errorf("timed out after %v, want %v", got, want)
		}
	})
}
