package provider

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
)

// forgetful is a server that answers one request per connection and keeps the
// connection open; a second request on it finds the door closed, as with servers
// whose keep-alive ends at that moment. With deaf it never answers again.
func forgetful(t *testing.T, deaf bool) (base string, requests chan string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	requests = make(chan string, 16)
	go func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				br := bufio.NewReader(conn)
				for i := range 2 {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					body, _ := io.ReadAll(r.Body)
					if v, ok := r.Header["Idempotency-Key"]; ok {
						body = append(body, " and a key: "+strings.Join(v, ",")...)
					}
					requests <- string(body)
					if i == 1 || n > 0 && deaf {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 500 Oh\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/v1", requests
}

// TestClosedConnectionIsRetriedAtOnce: on every wire, a request whose reused
// connection the server has closed is sent once more, and nobody is told.
func TestClosedConnectionIsRetriedAtOnce(t *testing.T) {
	t.Parallel()
	for _, w := range []catalog.Wire{catalog.ChatWire, catalog.ResponsesWire, catalog.AnthropicWire, catalog.BedrockWire} {
		for _, deaf := range []bool{false, true} {
			m := modelsOf(t, `{"providers":{"p":{"region":"us-east-1"}}}`)
			base, requests := forgetful(t, deaf)
			client, err := httpsafe.Client(httpsafe.Options{Direct: true})
			if err != nil {
				t.Fatal(err)
			}
			c := catalog.Choice{Name: "p", Base: base, Key: httpsafe.NewSecret("key-of-a-test")}
			model, err := m.speak(w, c, wireOptions{provider: m.loaded.Config.Providers["p"], client: client})
			if err != nil {
				t.Fatal(err)
			}
			ask := func(text string) llm.Kind {
				_, err := llm.Collect(t.Context(), model, llm.Request{Model: "m", Messages: []llm.Message{{Role: llm.User, Content: llm.Text(text)}}})
				e, ok := errors.AsType[*llm.Error](err)
				if !ok {
					t.Fatalf("%s: %v", w, err)
				}
				return e.Kind
			}

			if kind := ask("first"); kind != llm.ServerError {
				t.Fatalf("%s: the first call ended with %s", w, kind)
			}
			<-requests
			want := llm.ServerError // what the server answers to everything
			if deaf {
				want = llm.Connection
			}
			if kind := ask("second"); kind != want {
				t.Errorf("%s, deaf %v: the second call ended with %s, want %s", w, deaf, kind, want)
			}
			if len(requests) != 2 { // the server notes a request before it answers or hangs up
				t.Errorf("%s, deaf %v: sent %d times", w, deaf, len(requests))
				continue
			}
			one, two := <-requests, <-requests
			if one != two || !strings.Contains(one, "second") || strings.Contains(one, "and a key") {
				t.Errorf("%s: sent %q and then %q", w, one, two)
			}
			client.CloseIdleConnections()
		}
	}
}
