package openai_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/openai"
)

// pipes is a listener without a network.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A body that ends a moment after its end mark still leaves its connection.
func TestConnectionIsKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		later time.Duration // than the end mark
		want  int           // connections
	}{{0, 1}, {5 * time.Millisecond, 1}, {time.Minute, 3}} {
		synctest.Test(t, func(t *testing.T) {
			srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = fmt.Fprintf(w, "data: %s\n\ndata: %s\n\ndata: [DONE]\n\n", piece(`{"content":"a"}`), end("stop"))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(c.later):
				case <-r.Context().Done():
				}
			})}
			l, served, dialled := make(pipes, 1), make(chan struct{}), 0
			go func() { defer close(served); _ = srv.Serve(l) }()
			tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				dialled++
				a, b := net.Pipe()
				l <- b
				return a, nil
			}}
			m, err := openai.New(openai.Options{Name: "fake", BaseURL: "http://api.example/v1", Client: &http.Client{Transport: tr}})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := llm.Collect(t.Context(), m, request()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			if dialled != c.want {
				t.Errorf("%d connections for 3 turns that end %v late, want %d", dialled, c.later, c.want)
			}
			tr.CloseIdleConnections()
			close(l)
			<-served
			_ = srv.Close()
		})
	}
}
