package kit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// echoHook answers with what it got.
func echoHook(port int) *kit.Webhook {
	return &kit.Webhook{
		Path:    "/hook",
		Host:    "127.0.0.1",
		Port:    port,
		MaxBody: 100,
		Known:   func(r *http.Request) bool { return kit.SameSecret(r.Header.Get("X-Secret"), "s3cret") },
		Receive: func(w http.ResponseWriter, _ *http.Request, body []byte) { _, _ = w.Write(body) },
	}
}

// ask makes a request as the gateway's listener does.
func ask(t *testing.T, h http.Handler, method, secret string, body io.Reader) (code int, answer string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, "/hook", body)
	req.Header.Set("X-Secret", secret)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec.Code, strings.TrimSpace(rec.Body.String())
}

// begun serves a webhook; the end must be no error.
func begun(t *testing.T, h *kit.Webhook) (end func()) {
	t.Helper()
	end, err := tryBegin(t, h)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func tryBegin(t *testing.T, h *kit.Webhook) (end func(), err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- h.Serve(ctx, func(context.Context) error { close(ready); return nil })
	}()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		return nil, err
	}
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("reset") }

func TestWebhookAnswers(t *testing.T) {
	t.Parallel()
	h := echoHook(0)
	route := h.Routes()["/hook"]
	if route == nil || echoHook(8081).Routes() != nil {
		t.Fatal("routes must be those of the gateway's listener, and only of it")
	}
	if code, _ := ask(t, route, http.MethodPost, "s3cret", strings.NewReader("hi")); code != http.StatusServiceUnavailable {
		t.Errorf("before Serve: %d, want 503", code)
	}
	end := begun(t, h)
	for name, c := range map[string]struct {
		method, secret string
		body           io.Reader
		code           int
		answer         string
	}{
		"good":     {http.MethodPost, "s3cret", strings.NewReader("hi"), 200, "hi"},
		"full":     {http.MethodPost, "s3cret", strings.NewReader(strings.Repeat("x", 100)), 200, strings.Repeat("x", 100)},
		"large":    {http.MethodPost, "s3cret", strings.NewReader(strings.Repeat("x", 101)), 413, "Request Entity Too Large"},
		"endless":  {http.MethodPost, "s3cret", endless{}, 413, "Request Entity Too Large"},
		"get":      {http.MethodGet, "s3cret", nil, 405, "Method Not Allowed"},
		"forged":   {http.MethodPost, "s3cre", broken{}, 401, "Unauthorized"}, // the body is not read
		"broken":   {http.MethodPost, "s3cret", broken{}, 400, "Bad Request"},
		"unsigned": {http.MethodPost, "", broken{}, 401, "Unauthorized"},
	} {
		if code, answer := ask(t, route, c.method, c.secret, c.body); code != c.code || answer != c.answer {
			t.Errorf("%s: %d %q, want %d %q", name, code, answer, c.code, c.answer)
		}
	}
	end()
	if code, _ := ask(t, route, http.MethodPost, "s3cret", strings.NewReader("hi")); code != http.StatusServiceUnavailable {
		t.Errorf("after Serve: %d, want 503", code)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// Serve ends the context of what it received, and waits for it.
func TestWebhookEnds(t *testing.T) {
	t.Parallel()
	h := echoHook(0)
	in, left := make(chan struct{}), atomic.Bool{}
	h.Receive = func(_ http.ResponseWriter, r *http.Request, _ []byte) {
		close(in)
		<-r.Context().Done()
		left.Store(true)
	}
	end := begun(t, h)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		ask(t, h, http.MethodPost, "s3cret", strings.NewReader("hi"))
	}()
	<-in
	end()
	if !left.Load() {
		t.Error("Serve returned while a request was being handled")
	}
	<-answered

	want := errors.New("refused")
	if err := h.Serve(t.Context(), func(context.Context) error { return want }); !errors.Is(err, want) {
		t.Errorf("Serve: %v, want what begin returned", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := h.Serve(ctx, func(context.Context) error { cancel(); return want }); err != nil {
		t.Errorf("Serve after the end: %v", err)
	}
}

// A port of its own serves the path and nothing else.
func TestWebhookPort(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	var h *kit.Webhook
	var end func()
	for end == nil { // another program may take a port that was free
		taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		h = echoHook(taken.Addr().(*net.TCPAddr).Port)
		if err := h.Serve(t.Context(), func(context.Context) error { t.Error("begun without a port"); return nil }); err == nil {
			t.Error("Serve on a port that is taken: no error")
		}
		_ = taken.Close()
		end, err = tryBegin(t, h)
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	defer end()

	for _, c := range []struct {
		path, secret string
		want         int
	}{
		{"/hook", "s3cret", 200},
		{"/hook", "other", 401},
		{"/", "s3cret", 404},
	} {
		address := "http://127.0.0.1:" + strconv.Itoa(h.Port) + c.path
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("hi"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Secret", c.secret)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s with %s: %d, want %d", c.path, c.secret, res.StatusCode, c.want)
		}
	}
}

// A client that sends half of a request does not hold up the end.
func TestWebhookEndsDuringBody(t *testing.T) {
	t.Parallel()
	h := echoHook(0)
	entered := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = announced{r.Body, sync.OnceFunc(func() { close(entered) })}
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	end := begun(t, h)
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /hook HTTP/1.1\r\nHost: x\r\nX-Secret: s3cret\r\nContent-Length: 50\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	<-entered
	start := time.Now()
	end()
	if took := time.Since(start); took > 20*time.Second { // 30 s is the limit of a body
		t.Errorf("the end took %v", took)
	}
}

// announced is a body that says when it is read.
type announced struct {
	io.ReadCloser
	begin func()
}

func (a announced) Read(p []byte) (int, error) { a.begin(); return a.ReadCloser.Read(p) }

func TestSameSecret(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"abc", "abc", true},
		{"abc", "abd", false},
		{"ab", "abc", false},
		{"", "abc", false},
		{"", "", false},
	} {
		if kit.SameSecret(c.got, c.want) != c.same {
			t.Errorf("SameSecret(%q, %q) = %v", c.got, c.want, !c.same)
		}
	}
}
