package local_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/local"
)

// silentOllama answers for vLLM at once and for everything else never.
type silentOllama struct{}

func (silentOllama) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "127.0.0.1:8000" {
		return &http.Response{
			StatusCode: http.StatusOK, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"data":[{"id":"m","owned_by":"vllm"}]}`)),
		}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A server that accepts and then says nothing neither hides the others nor
// costs more than the limit.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		got := local.Discover(t.Context(), local.Options{Client: &http.Client{Transport: silentOllama{}}})
		if len(got) != 1 || got[0].Kind != local.VLLM {
			t.Errorf("servers = %+v, want only vLLM", got)
		}
		if d := time.Since(start); d != local.DefaultTimeout {
			t.Errorf("took %v, want %v", d, local.DefaultTimeout)
		}
	})
}

func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		local.Discover(ctx, local.Options{Client: &http.Client{Transport: silentOllama{}}})
		if d := time.Since(start); d != time.Millisecond {
			t.Errorf("took %v, want 1ms", d)
		}
	})
}

func TestWindowOfSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := local.NewWindows(local.Options{Client: &http.Client{Transport: silentOllama{}}})
		if got := w.Of(t.Context(), "http://127.0.0.1:11434/v1", "m"); got != (local.Window{}) {
			t.Errorf("window = %+v, want none", got)
		}
		if d := time.Since(start); d != local.DefaultTimeout {
			t.Errorf("took %v, want %v", d, local.DefaultTimeout)
		}
	})
}
