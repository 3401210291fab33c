package speech_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
)

// script answers in turn: a number is a status, anything else a 200 body,
// "-" a refused connection.
type script struct {
	answers []string
	times   []time.Duration
	began   time.Time
	header  http.Header
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.times = append(s.times, time.Since(s.began))
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if r.Method == http.MethodPost && len(b) == 0 {
			return nil, errors.New("the body was not made again")
		}
		_ = r.Body.Close()
	}
	a := s.answers[min(len(s.times), len(s.answers))-1]
	status := http.StatusOK
	switch a {
	case "-":
		return nil, syscall.ECONNREFUSED
	case "503":
		status, a = 503, "busy"
	case "429":
		status, a = 429, `{"error":{"message":"slow down"}}`
	case "400":
		status, a = 400, `{"error":{"message":"no"}}`
	}
	return &http.Response{StatusCode: status, Header: s.header, Body: io.NopCloser(strings.NewReader(a)), Request: r}, nil
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	const good = `{"text":"hello"}`
	sec := func(seconds ...int) (out []time.Duration) {
		for _, n := range seconds {
			out = append(out, time.Duration(n)*time.Second)
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		answers []string
		after   string
		times   []time.Duration
		ok      bool
	}{
		{"at once", []string{good}, "", sec(0), true},
		{"busy, then refused, then limited", []string{"503", "-", "429", good}, "", sec(0, 1, 3, 7), true},
		{"busy for ever", []string{"503"}, "", sec(0, 1, 3, 7), false},
		{"a bad request is not repeated", []string{"400", good}, "", sec(0), false},
		{"the server's own delay", []string{"429", good}, "9", sec(0, 9), true},
		{"a delay too long to wait for", []string{"429", good}, "600", sec(0), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sc := &script{answers: tt.answers, began: time.Now(), header: http.Header{}}
				if tt.after != "" {
					sc.header.Set("Retry-After", tt.after)
				}
				s, err := speech.New(speech.Options{Key: httpsafe.NewSecret("k"), Client: &http.Client{Transport: sc}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.Transcribe(t.Context(), recording("a.ogg"))
				if (err == nil) != tt.ok || !slices.Equal(sc.times, tt.times) {
					t.Errorf("err = %v, requests at %v, want %v", err, sc.times, tt.times)
				}
			})
		})
	}
}

func TestPolling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sc := &script{began: time.Now(), answers: []string{`{"upload_url":"https://cdn.example.com/1"}`, `{"id":"t1","status":"queued"}`, `{"id":"t1","status":"processing"}`, `{"status":"completed","text":"hello"}`}}
		o := speech.Options{Provider: "assemblyai", Key: httpsafe.NewSecret("k"), Client: &http.Client{Transport: sc}}
		s, err := speech.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Transcribe(t.Context(), recording("a.ogg")); err != nil || got.Text != "hello" {
			t.Errorf("Transcribe = %+v, %v", got, err)
		}
		sc.answers, sc.times = []string{`{"upload_url":"u"}`, `{"id":"t1","status":"queued"}`}, nil
		began := time.Now()
		_, err = s.Transcribe(t.Context(), recording("a.ogg"))
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.Timeout || time.Since(began) != 2*time.Minute {
			t.Errorf("a job that never ends: %v after %s", err, time.Since(began))
		}
		sc.times = nil
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := s.Transcribe(ctx, recording("a.ogg")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
		sc.answers, sc.times = []string{`{"upload_url":"u"}`, `{"id":"t1","status":"error","error":"no speech model"}`}, nil
		if _, err := s.Transcribe(t.Context(), recording("a.ogg")); err == nil || !strings.Contains(err.Error(), "no speech model") {
			t.Errorf("a job that fails: %v", err)
		}
	})
}
