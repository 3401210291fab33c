package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/anthropic"
)

func TestOneConnection(t *testing.T) {
	t.Parallel()
	var replies []http.HandlerFunc
	for range 5 {
		replies = append(replies, hello())
	}
	s := newServer(t, replies...)
	m := s.model(t)
	for range 5 {
		mustCollect(t, m, ask())
	}
	if s.Conns != 1 {
		t.Errorf("%d connections for sequential requests, want 1", s.Conns)
	}
}

// What follows the last event must not cost the connection.
func TestTrailingBytesKeepTheConnection(t *testing.T) {
	t.Parallel()
	chatty := func(w http.ResponseWriter, r *http.Request) {
		hello()(w, r)
		_, _ = io.WriteString(w, strings.Repeat(": bye\n", 2000))
	}
	s := newServer(t, chatty, chatty, chatty)
	m := s.model(t)
	for range 3 {
		mustCollect(t, m, ask())
	}
	if s.Conns != 1 {
		t.Errorf("%d connections, want 1", s.Conns)
	}
}

// A server that keeps the stream open after the last event costs no answer.
func TestServerThatNeverCloses(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		hello()(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if got := mustCollect(t, s.model(t), ask()).Message.Content.Text; got != "Hello" {
		t.Errorf("text = %q, want Hello", got)
	}
}

// until replies with events and then waits until the client has gone.
func until(gone chan<- struct{}, events ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		stream(events...)(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}
}

func TestBreakingOutStopsTheRequest(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := newServer(t, until(gone, start, textBlock(0, "Hel", "lo")))
	for ev, err := range s.model(t).Stream(t.Context(), ask()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Text == "Hel" {
			break
		}
	}
	<-gone
}

func TestCancelPassesThrough(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := newServer(t, until(gone, start, textBlock(0, "Hel")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for ev, err := range s.model(t).Stream(ctx, ask()) {
		last = err
		if ev.Kind == llm.TextDelta {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", last)
	}
	if _, ok := errors.AsType[*llm.Error](last); ok {
		t.Errorf("error = %v, a cancelled request is no failure of the model", last)
	}
	<-gone
}

// 85: a refused connection to a local server names the server.
func TestRefusedConnectionNamesTheServer(t *testing.T) {
	t.Parallel()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + ln.Addr().String()
	_ = ln.Close()
	m, err := anthropic.New(anthropic.Options{BaseURL: base})
	if err != nil {
		t.Fatal(err)
	}
	_, err = llm.Collect(t.Context(), m, ask())
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Kind != llm.Connection || !strings.Contains(e.Message, base) || !e.Retryable() {
		t.Errorf("error = %v, want a retryable connection error with %s", err, base)
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	var replies []http.HandlerFunc
	for range 8 {
		replies = append(replies, hello())
	}
	m := newServer(t, replies...).model(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			resp, err := llm.Collect(t.Context(), m, ask())
			if err != nil || resp.Message.Content.Text != "Hello" {
				t.Errorf("response = %+v, %v", resp, err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkStream(b *testing.B) {
	var page strings.Builder
	page.WriteString("data: " + start + "\n\n")
	for _, ev := range textBlock(0, strings.Split(strings.Repeat("word ", 200), " ")...) {
		page.WriteString("data: " + ev + "\n\n")
	}
	page.WriteString("data: " + stopText + "\n\ndata: " + end + "\n\n")
	text := page.String()
	m, err := anthropic.New(anthropic.Options{Client: &http.Client{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
	})}})
	if err != nil {
		b.Fatal(err)
	}
	req := ask()
	for range 200 {
		req.Messages = append(req.Messages, assistant("step", call("c", "f", `{"path":"a"}`)), result("c", strings.Repeat("line\n", 40)))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := llm.Collect(b.Context(), m, req); err != nil {
			b.Fatal(err)
		}
	}
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
