package web_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/tool/web"
)

func TestPagesAreRememberedForFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page := exchange{method: "GET", url: "https://a.example/", header: map[string]string{"Accept-Encoding": "gzip"}, answer: `<p>read <a href="/next?x=` + strings.Repeat("a", 200) + `">on</a>`}
		s := &script{t: t, todo: []exchange{page, page}}
		b := newBench(t, web.Options{Client: &http.Client{Transport: s}})
		for _, wait := range []time.Duration{0, 4 * time.Minute, 59 * time.Second, 2 * time.Second} {
			time.Sleep(wait)
			if got := b.call("web_fetch", map[string]any{"url": "https://a.example/"}); got.IsError || !strings.Contains(got.Content.String(), "read") {
				t.Errorf("after %v: %s", wait, got.Content.String())
			}
		}
		if len(s.seen) != 2 {
			t.Errorf("%d requests, want 2", len(s.seen))
		}
		link := "https://a.example/next?x=" + strings.Repeat("a", 200)
		if !web.Suspicious(link) || !web.Seen(b.state, link) || web.Seen(b.state, link+"b") {
			t.Error("a link of a page that was read is not told from one that was made up")
		}
	})
}
