package api_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/web/api"
)

// pipes is a listener whose connections are made by hand.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Nobody holds a connection by promising a body and never sending it, whatever
// is asked for.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"POST /v1/chat/completions", "POST /health", "GET /health", "GET /metrics", "POST /nowhere"} {
		synctest.Test(t, func(t *testing.T) {
			a, err := api.New(api.Options{Metrics: api.NewMetrics("test", time.Now(), time.Now)})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			l, done := make(pipes, 1), make(chan error, 1)
			go func() { done <- a.Serve(ctx, l) }()
			client, server := net.Pipe()
			l <- server
			began := time.Now()
			go func() {
				_, _ = io.WriteString(client, request+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n{")
			}()
			r := bufio.NewReader(client)
			_ = client.SetReadDeadline(began.Add(time.Hour))
			for err == nil {
				_, err = r.ReadByte()
			}
			if took := time.Since(began); took > 2*time.Minute || !errors.Is(err, io.EOF) {
				t.Errorf("%s: held for %s, %v", request, took, err)
			}
			_ = client.Close()
			cancel()
			close(l)
			if err := <-done; err != nil && !errors.Is(err, http.ErrServerClosed) && !strings.Contains(err.Error(), "closed") {
				t.Error(err)
			}
		})
	}
}
