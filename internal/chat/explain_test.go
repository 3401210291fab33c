package chat_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// Who sets a channel up reads sentences, without the words of Go and without the
// address, which may hold a token.
func TestExplain(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	get := func(address string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := closed.Client().Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	at := func(err error) error {
		return &url.Error{Op: "Post", URL: "https://chat.example/bot123:secret/x", Err: err}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"closed port":  {get(closed.URL + "/bot123:secret/getMe"), "connection refused"},
		"certificate":  {get(secure.URL + "/bot123:secret/getMe"), "the certificate of"},
		"no TLS":       {get(strings.Replace(plain.URL, "http:", "https:", 1) + "/bot123:secret/x"), ""},
		"unknown name": {at(&net.DNSError{Name: "chat.example", IsNotFound: true}), "no server of the name chat.example"},
		"late":         {at(context.DeadlineExceeded), "chat.example does not answer in time"},
	} {
		got := chat.Explain(fmt.Errorf("ask who we are: %w", c.err)).Error()
		if !strings.Contains(got, c.want) || c.want != "" && (strings.Contains(got, "secret") || strings.Contains(got, "dial tcp")) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	own := errors.New("the token is refused")
	if got := chat.Explain(own); !errors.Is(got, own) || got.Error() != own.Error() {
		t.Errorf("another error became %v", got)
	}
	if wrapped := chat.Explain(chat.Fatal(at(context.DeadlineExceeded))); !chat.IsFatal(wrapped) {
		t.Error("it is no longer fatal")
	}
}
