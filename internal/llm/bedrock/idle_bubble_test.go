package bedrock_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/bedrock"
)

// slow streams frames with a pause before each, and then falls silent.
func slow(t *testing.T, pause time.Duration, frames ...string) llm.Model {
	t.Helper()
	m, err := bedrock.New(bedrock.Options{Getenv: environment, Client: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		ctx := r.Context()
		go func() {
			for _, f := range frames {
				select {
				case <-time.After(pause):
				case <-ctx.Done():
					pw.CloseWithError(ctx.Err())
					return
				}
				if _, err := pw.Write(event(f)); err != nil {
					return
				}
			}
			<-ctx.Done()
			pw.CloseWithError(ctx.Err())
		}()
		return &http.Response{StatusCode: 200, Body: pr, Request: r}, nil
	})}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSilence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		pause  time.Duration
		frames []string
		want   time.Duration
		ok     bool
	}{
		{"silent after a frame", time.Second, []string{begin}, 91 * time.Second, false},
		{"slow but alive", 80 * time.Second, []string{begin, piece(0, "a"), piece(0, "b"), endTurn, counts}, 325 * time.Second, true},
		{"no counts after the end", time.Second, []string{begin, piece(0, "a"), endTurn}, 8 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := llm.Collect(t.Context(), slow(t, c.pause, c.frames...), ask())
				if e, isErr := errors.AsType[*llm.Error](err); (err == nil) != c.ok || isErr && (e.Kind != llm.Timeout || e.Provider != "bedrock") {
					t.Errorf("error = %v, want ok %v", err, c.ok)
				}
				if got := time.Since(start); got != c.want {
					t.Errorf("took %v, want %v", got, c.want)
				}
			})
		})
	}
}
