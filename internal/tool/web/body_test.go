package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

// endless is a body without end.
type endless struct{ block []byte }

func letters() endless { return endless{bytes.Repeat([]byte{'x'}, 32<<10)} }

func (e endless) Read(p []byte) (int, error) { return copy(p, e.block), nil }

func png(w, h uint32) []byte {
	b := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), make([]byte, 64)...)
	binary.BigEndian.PutUint32(b[16:], w)
	binary.BigEndian.PutUint32(b[20:], h)
	return b
}

// site serves one case of each kind.
func site(t *testing.T) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var hits atomic.Int64
	pages := map[string]struct{ kind, body string }{
		"/html":     {"text/html; charset=utf-8", "<title>T</title><body><nav>menu</nav><main><h1>Head</h1><p>" + strings.Repeat("Some words. ", 30) + "</p></main>"},
		"/sniffed":  {"", "<!DOCTYPE html><title>T</title><p>words</p>"},
		"/plain":    {"text/plain", "line 1\r\nline 2 <b>not bold</b>\x07"},
		"/json":     {"application/json", `{"b":[1,{"c":null}],"a":"x, y: \"z\"","e":{},"f":[]}`},
		"/ld":       {"application/ld+json; charset=utf-8", `[1,2]`},
		"/notjson":  {"application/json", `{"broken":`},
		"/deep":     {"application/json", strings.Repeat("[", 9000) + strings.Repeat("]", 9000)},
		"/deeper":   {"application/json", strings.Repeat("[", 200_000)},
		"/md":       {"text/markdown", "# Title\n\n![pic](https://evil.example/?d=1) and `vec![1]` ![ok](local.png)"},
		"/png":      {"image/png", string(png(10, 20))},
		"/lying":    {"text/html", string(png(10, 20))},
		"/hugepng":  {"image/png", string(png(10, 9000))},
		"/avif":     {"image/avif", "\x00\x00\x00 ftypavif"},
		"/svg":      {"image/svg+xml", "<svg><text>hi</text></svg>"},
		"/pdf":      {"application/octet-stream", "%PDF-1.7 words"},
		"/docx":     {"application/vnd.openxmlformats-officedocument.wordprocessingml.document", "PK\x03\x04 words"},
		"/zip":      {"application/zip", "PK\x03\x04 words"},
		"/binary":   {"application/octet-stream", "\x7fELF\x00\x00\x00"},
		"/video":    {"video/mp4", "words"},
		"/empty":    {"text/plain", ""},
		"/gbk":      {"text/html; charset=gb2312", "<p>\xd6\xd0\xce\xc4</p>"},
		"/forward":  {"text/html", `<meta http-equiv="refresh" content="0; url=/html"><body>`},
		"/scripts":  {"text/html", `<title>App</title><body><div id=root></div><script>x()</script>`},
		"/badpdf":   {"application/pdf", "%PDF-bad"},
		"/longtext": {"text/plain", strings.Repeat("é", 60_000)},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if r.Header.Get("Accept-Encoding") != "gzip" || r.Method != http.MethodGet {
			t.Errorf("request %s with %v", r.Method, r.Header)
		}
		p, ok := pages[r.URL.Path]
		if !ok {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<title>Gone</title><p>There is nothing here. <script>no()</script>"+strings.Repeat("More. ", 500))
			return
		}
		w.Header()["Content-Type"] = []string{p.kind}
		_, _ = io.WriteString(w, p.body)
	}))
	t.Cleanup(srv.Close)
	return srv, &hits
}

func TestFetchKinds(t *testing.T) {
	t.Parallel()
	srv, _ := site(t)
	b := newBench(t, web.Options{Allow: loopback(), Document: func(_ context.Context, name string, data []byte) (string, error) {
		if strings.Contains(string(data), "bad") {
			return "", errors.New("it is damaged")
		}
		return "text of " + name, nil
	}})
	for path, want := range map[string]string{
		"/html":     "\n\n# Head\n\nSome words. Some",
		"/sniffed":  "\n\n# T\n\nwords",
		"/plain":    "\n\nline 1\nline 2 <b>not bold</b>",
		"/json":     "\n\n{\n \"b\": [\n  1,\n  {\n   \"c\": null\n  }\n ],\n \"a\": \"x, y: \\\"z\\\"\",\n \"e\": {},\n \"f\": []\n}",
		"/ld":       "[\n 1,\n 2\n]",
		"/notjson":  `{"broken":`,
		"/deeper":   "\n\n[[[[[",
		"/md":       "!\\[pic](https://evil.example/?d=1) and `vec![1]` ![ok](local.png)",
		"/svg":      "<svg><text>hi</text></svg>",
		"/pdf":      "text of pdf.pdf",
		"/docx":     "text of docx.docx",
		"/empty":    "(empty)",
		"/gbk":      "中文",
		"/forward":  "[the page forwards to " + srv.URL + "/html]",
		"/scripts":  "[the page has next to no text of its own; it is probably filled in by scripts]\n\n# App",
		"/longtext": "[the first 50000 of 60000 characters; maxChars up to 200000 shows more]",
	} {
		got := b.call("web_fetch", map[string]any{"url": srv.URL + path})
		if text := got.Content.String(); got.IsError || !got.Untrusted || !strings.HasPrefix(text, "Source: "+srv.URL+path) || !strings.Contains(text, want) {
			t.Errorf("%s: error %v, untrusted %v\n%.400s\nwant %.200s", path, got.IsError, got.Untrusted, text, want)
		}
	}
	for path, want := range map[string]tool.Code{
		"/avif": tool.Unsupported, "/zip": tool.Unsupported, "/binary": tool.Unsupported, "/video": tool.Unsupported,
		"/hugepng": tool.Internal, "/badpdf": tool.Internal, "/missing": tool.NotFound,
	} {
		got := b.call("web_fetch", map[string]any{"url": srv.URL + path})
		if got.Code != want {
			t.Errorf("%s: %v %s, want %v", path, got.Code, got.Content.String(), want)
		}
	}
	got := b.call("web_fetch", map[string]any{"url": srv.URL + "/missing"})
	if text := got.Content.String(); !got.Untrusted || !strings.Contains(text, "HTTP 404 Not Found") || !strings.Contains(text, "There is nothing here.") || strings.Contains(text, "no()") || len(text) > 800 {
		t.Errorf("404: %s", text)
	}
	for _, path := range []string{"/png", "/lying"} {
		got := b.call("web_fetch", map[string]any{"url": srv.URL + path})
		blocks := got.Content.Blocks
		if len(blocks) != 2 || blocks[0].ImageURL != "data:image/png;base64,"+base64.StdEncoding.EncodeToString(png(10, 20)) || !got.Untrusted {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := b.call("web_fetch", map[string]any{"url": srv.URL + "/deep"}); len(got.Content.String()) > 1<<20 {
		t.Errorf("9,000 levels of JSON became %d bytes", len(got.Content.String()))
	}
}

func TestFetchArguments(t *testing.T) {
	t.Parallel()
	srv, hits := site(t)
	b := newBench(t, web.Options{Allow: loopback()})
	for _, tt := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"url": " `" + srv.URL + "/html`\n"}, "# Head"},
		{map[string]any{"url": `"` + srv.URL + `/html"`, "extractMode": "text"}, "\n\nHead\n\nSome"},
		{map[string]any{"url": srv.URL + "/longtext", "maxChars": 100}, "[the first 100 of 60000 characters"},
		{map[string]any{"url": srv.URL + "/longtext", "max_chars": 1}, "[the first 100 of 60000 characters"},
		{map[string]any{"url": srv.URL + "/longtext", "maxChars": 999_999_999}, strings.Repeat("é", 60_000)},
		{map[string]any{"url": "  "}, "Error: url is empty"},
		{map[string]any{"url": srv.URL + "/html", "extractMode": "pdf"}, "Error"},
	} {
		if got := b.call("web_fetch", tt.args).Content.String(); !strings.Contains(got, tt.want) {
			t.Errorf("%v: %.300s\nwant %.100s", tt.args, got, tt.want)
		}
	}
	if got := hits.Load(); got != 3 { // html in two modes, the long text once
		t.Errorf("%d requests, want 3: the rest is remembered", got)
	}
	if other := newBench(t, web.Options{Allow: loopback()}); other.call("web_fetch", map[string]any{"url": srv.URL + "/html"}).IsError || hits.Load() != 4 {
		t.Error("another session must not see what this one read")
	}
}

// Row 76: bodies made to exhaust the reader.
func TestBombs(t *testing.T) {
	var sent atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/gzip", "/gziptext", "/gzipjson": // 10 GB in some 10 MB
			if r.URL.Path != "/gzip" {
				w.Header().Set("Content-Type", map[string]string{"/gziptext": "text/plain", "/gzipjson": "application/json"}[r.URL.Path])
			}
			w.Header().Set("Content-Encoding", "gzip")
			z, _ := gzip.NewWriterLevel(counted{w, &sent}, gzip.BestSpeed)
			_, _ = io.CopyN(z, letters(), 10<<30)
		case "/endless":
			_, _ = io.Copy(counted{w, &sent}, letters())
		case "/line":
			_, _ = io.CopyN(counted{w, &sent}, letters(), 1<<30)
		case "/wide", "/packed": // 7 MiB: too much to be sent, not too much to be read
			if r.URL.Path == "/packed" {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.CopyN(z, letters(), 7<<20)
				_ = z.Close()
				return
			}
			_, _ = io.CopyN(w, letters(), 7<<20)
		case "/nested":
			_, _ = io.WriteString(w, strings.Repeat("<div>", 10_000)+"deep words")
		case "/png":
			_, _ = w.Write(png(1, 1))
			_, _ = io.Copy(counted{w, &sent}, letters())
		case "/declared":
			w.Header().Set("Content-Length", fmt.Sprint(30<<20))
			_, _ = w.Write([]byte("%PDF-1.7"))
		case "/header":
			w.Header().Set("X-Big", strings.Repeat("x", 1<<20))
		case "/br":
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("xxxxxxxx"))
		case "/zstd":
			w.Header().Set("Content-Encoding", "zstd")
			_, _ = w.Write([]byte("\x28\xb5\x2f\xfd"))
		case "/twice":
			w.Header().Set("Content-Encoding", "gzip, gzip")
			_, _ = w.Write([]byte("\x1f\x8b"))
		case "/torn":
			w.Header().Set("Content-Encoding", "gzip")
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, "<p>"+strings.Repeat("words ", 100))
			_ = z.Close()
			_, _ = w.Write(b.Bytes()[:b.Len()-6])
		case "/long": // promises more than it sends
			w.Header().Set("Content-Length", "1000000")
			_, _ = io.WriteString(w, "<p>only these words came")
		}
	}))
	defer srv.Close()
	b := newBench(t, web.Options{Allow: loopback(), FetchTimeout: 10 * time.Minute, Document: func(context.Context, string, []byte) (string, error) { return "", nil }})
	for path, want := range map[string]string{
		"/gzip":     "this is its beginning",
		"/gziptext": "this is its beginning",
		"/gzipjson": "this is its beginning",
		"/endless":  "this is its beginning",
		"/line":     "this is its beginning",
		"/nested":   "deep words",
		"/wide":     "this is its beginning",
		"/packed":   "[the page is too large to be read whole]",
		"/png":      "larger than 20 MiB",
		"/declared": "larger than 20 MiB",
		"/header":   "could not be read",
		"/br":       "only gzip was offered",
		"/zstd":     "only gzip was offered",
		"/twice":    "only gzip was offered",
		"/torn":     "words words",
		"/long":     "the connection ended early; this is what came]\n\nonly these words came",
	} {
		sent.Store(0)
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		peak := watch(t, func() {
			if got := b.call("web_fetch", map[string]any{"url": srv.URL + path}).Content.String(); !strings.Contains(got, want) || len(got) > 1<<20 {
				t.Errorf("%s: %.300s\nwant %s", path, got, want)
			}
		})
		if n := sent.Load(); n > 64<<20 {
			t.Errorf("%s: %d MiB were read", path, n>>20)
		}
		if grown := int64(peak) - int64(before.HeapAlloc); grown > 128<<20 {
			t.Errorf("%s: memory grew by %d MiB", path, grown>>20)
		}
	}
}

// counted counts what a handler gets rid of.
type counted struct {
	w io.Writer
	n *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// watch runs fn and returns the largest heap seen meanwhile.
func watch(t *testing.T, fn func()) uint64 {
	t.Helper()
	done := make(chan struct{})
	peak := make(chan uint64)
	go func() {
		var high uint64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			high = max(high, m.HeapAlloc)
			select {
			case <-done:
				peak <- high
				return
			case <-tick.C:
			}
		}
	}()
	fn()
	close(done)
	return <-peak
}

// A body of one byte now and then ends with the time of the call.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			select {
			case <-stop:
			case <-r.Context().Done():
			}
			return
		}
		for {
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-stop:
				return
			case <-r.Context().Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}))
	defer srv.Close()
	defer close(stop)
	b := newBench(t, web.Options{Allow: loopback(), FetchTimeout: 100 * time.Millisecond})
	for _, path := range []string{"/drip", "/silent"} {
		if got := b.call("web_fetch", map[string]any{"url": srv.URL + path}); got.Code != tool.TimedOut {
			t.Errorf("%s: %v %s", path, got.Code, got.Content.String())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	slow := newBench(t, web.Options{Allow: loopback()})
	if _, err := slow.tools["web_fetch"].Run(ctx, tool.Call{Input: []byte(`{"url":"` + srv.URL + `/drip"}`)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled turn: %v", err)
	}
}
