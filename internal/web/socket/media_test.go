package socket

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

func (r *rig) get(path string, header ...string) (int, string, http.Header) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// Files are given out by addresses that nobody can guess, never as paths.
func TestSignedMedia(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.login()
	outside := filepath.Join(t.TempDir(), "report.svg")
	if err := os.WriteFile(outside, []byte("<svg/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.send(bus.Outbound{ID: "m", Kind: bus.Message, Route: route(c.chat, ""), Text: "see", Media: []bus.Media{{Path: outside}}})
	m := c.next()
	if strings.Contains(strings.ToLower(toText(m)), strings.ToLower(filepath.Dir(outside))) {
		t.Errorf("the message shows a path: %v", m)
	}
	urls, _ := m["media_urls"].([]any)
	first, _ := urls[0].(map[string]any)
	url, _ := first["url"].(string)
	if list, _ := m["media"].([]any); len(list) != 1 || list[0] != url || first["name"] != "report.svg" {
		t.Fatalf("message %v", m)
	}
	if err := os.Remove(outside); err != nil {
		t.Fatal(err)
	}
	code, body, h := r.get(url)
	if code != 200 || body != "<svg/>" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("got %d %q %v", code, body, h)
	}
	if code, body, _ := r.get(url, "Range", "bytes=1-3"); code != 206 || body != "svg" {
		t.Errorf("range: %d %q", code, body)
	}
	parts := strings.Split(url, "/")
	forged := strings.Join(append(parts[:len(parts)-1:len(parts)-1], "Li4vc3RhdGUuanNvbg"), "/") // ../state.json
	for _, bad := range []string{forged, mediaPath + r.c.links.sign("Li4vc3RhdGUuanNvbg") + "/Li4vc3RhdGUuanNvbg", mediaPath + "x/" + parts[len(parts)-1]} {
		if code, _, _ := r.get(bad); code != 404 {
			t.Errorf("%s: %d, want 404", bad, code)
		}
	}
	_, err := r.c.Send(t.Context(), bus.Outbound{ID: "n", Kind: bus.Message, Route: route(c.chat, ""), Media: []bus.Media{{Path: outside}}})
	if !chat.IsPermanent(err) {
		t.Errorf("a file that is gone: %v, want a permanent error", err)
	}
}

func toText(m map[string]any) string {
	var b strings.Builder
	for _, v := range m {
		if s, ok := v.(string); ok {
			b.WriteString(s + " ")
		}
	}
	return b.String()
}

// The key of addresses outlives the program.
func TestMediaKeySurvives(t *testing.T) {
	t.Parallel()
	d := deps(t, time.Now)
	d.State = chat.OpenState(disk.Open(t.TempDir(), nil), "s.json", nil)
	var a, b links
	if got := a.sign("x"); got != "" {
		t.Errorf("signed %q without a key", got)
	}
	for _, l := range []*links{&a, &b} {
		doc, err := build(t, d, Options{}, `{}`).load()
		if err != nil {
			t.Fatal(err)
		}
		l.use(doc.MediaKey)
	}
	if a.sign("x") != b.sign("x") || a.sign("x") == a.sign("y") {
		t.Errorf("signatures %q %q %q", a.sign("x"), b.sign("x"), a.sign("y"))
	}
	c := build(t, deps(t, time.Now), Options{}, `{}`)
	f := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), bus.Outbound{Kind: bus.Message, Media: []bus.Media{{Path: f}}}); !errors.Is(err, chat.ErrNotReady) {
		t.Errorf("before Run: %v, want ErrNotReady", err)
	}
}
