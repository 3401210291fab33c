package llmtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// NewOffline makes a server without a network: only Client reaches it. It
// works inside a synctest bubble, where waiting costs no time. local gives it
// an address on this machine.
func NewOffline(tb testing.TB, local bool, answers ...Answer) *Server {
	tb.Helper()
	s := &Server{t: tb, answers: answers, URL: "https://api.fake.example/v1"}
	if local {
		s.URL = "http://127.0.0.1:11434/v1"
	}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Client makes a client of an offline server. Every request is handled in a
// goroutine that ends when the answer is complete or its body is closed.
func (s *Server) Client() *http.Client { return &http.Client{Transport: offline{s}} }

type offline struct{ s *Server }

// RoundTrip implements http.RoundTripper.
func (o offline) RoundTrip(r *http.Request) (*http.Response, error) {
	o.s.mu.Lock()
	o.s.times = append(o.s.times, time.Now())
	refused := len(o.s.answers) > 0 && o.s.answers[0].Refuse
	if refused {
		o.s.answers = o.s.answers[1:]
		o.s.requests = append(o.s.requests, Recorded{Path: r.URL.Path})
	}

	o.s.mu.Unlock()
	if refused {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: syscall.ECONNREFUSED.Error(), Name: r.URL.Host, UnwrapErr: syscall.ECONNREFUSED}}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}

	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}

	ctx, leave := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	in.Body = io.NopCloser(bytes.NewReader(body))
	pr, pw := io.Pipe()
	w := &pipeWriter{header: http.Header{}, pw: pw, began: make(chan struct{})}
	context.AfterFunc(ctx, func() { _ = pw.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer func() {
			err := error(nil)
			if p := recover(); p != nil {
				err = io.ErrUnexpectedEOF // an aborted handler broke the connection
			}
			w.WriteHeader(http.StatusOK)
			_ = pw.CloseWithError(err)
		}()
		o.s.dispatch(w, in)
	}()

	select {
	case <-w.began:
	case <-r.Context().Done():
		leave()
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header.Clone(), Body: &pipeBody{pr: pr, leave: leave}, ContentLength: -1, Request: r,
	}, nil
}

type pipeWriter struct {
	header http.Header
	status int
	once   sync.Once
	began  chan struct{}
	pw     *io.PipeWriter
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.began)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pw.Write(p)
}

// Flush implements http.Flusher; a pipe holds nothing back.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

type pipeBody struct {
	pr    *io.PipeReader
	leave context.CancelFunc
}

func (b *pipeBody) Read(p []byte) (int, error) { return b.pr.Read(p) }

func (b *pipeBody) Close() error {
	b.leave()
	return b.pr.CloseWithError(errors.New("http: read on closed response body"))
}

// dispatch gives a request to the protocol its path names.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/responses") {
		s.serveResponses(w, r)
		return
	}
	s.serve(w, r)
}

// Times returns when the requests of an offline server were made, counted from
// the first of them.
func (s *Server) Times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]time.Duration, len(s.times))
	for i, t := range s.times {
		out[i] = t.Sub(s.times[0])
	}
	return out
}

// Host returns the server's address without the path.
func (s *Server) Host() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return s.URL
	}
	return u.Scheme + "://" + u.Host
}
