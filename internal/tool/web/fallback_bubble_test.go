package web_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/web"
)

func duckAsk() exchange {
	return exchange{method: "POST", url: "https://html.duckduckgo.com/html/", body: "q=q"}
}

func liteAsk() exchange {
	return exchange{method: "POST", url: "https://lite.duckduckgo.com/lite/", body: "q=q"}
}

func (e exchange) with(status int, answer string) exchange {
	e.status, e.answer = status, answer
	return e
}

// One service stands in for another, and the result says so.
func TestSearchFallback(t *testing.T) {
	t.Parallel()
	tavily := exchange{method: "POST", url: "https://api.tavily.com/search", body: `{"query":"q","max_results":5}`, header: map[string]string{"Authorization": "Bearer " + testKey}}
	brave := exchange{method: "GET", url: "https://api.search.brave.com/res/v1/web/search?count=5&q=q", header: map[string]string{"X-Subscription-Token": testKey}}
	const braveAnswer = `{"web":{"results":[{"title":"One & only","url":"https://a.example/1","description":"First words"}]}}`
	for _, tt := range []struct {
		name, provider, key string
		env                 map[string]string
		todo                []exchange
		want                []string
		isError             bool
		took                time.Duration
	}{
		{name: "no key", provider: "tavily", todo: []exchange{duckAsk().with(200, duckPage)}, want: []string{"tavily has no key", "TAVILY_API_KEY", "duckduckgo answered instead", "1. One & only"}},
		{name: "key of the environment", provider: "tavily", env: map[string]string{"TAVILY_API_KEY": testKey}, todo: []exchange{tavily.with(200, `{"results":[]}`)}, want: []string{"No results for: q (tavily)"}},
		{name: "second name", provider: "volcengine", env: map[string]string{"WEB_SEARCH_API_KEY": testKey}, todo: []exchange{{
			method: "POST", url: "https://open.feedcoopapi.com/search_api/web_search", header: map[string]string{"Authorization": "Bearer " + testKey, "X-Traffic-Tag": "nanobot"},
			body: `{"Query":"q","SearchType":"web","Count":5,"NeedSummary":true}`, answer: `{"ResponseMetadata":{"Error":{"Code":"10400","Message":"bad ` + testKey + `"}}}`,
		}, duckAsk().with(200, duckPage)}, want: []string{"volcengine failed: 10400 bad ***"}},
		{name: "server error", provider: "tavily", key: testKey, todo: []exchange{tavily.with(503, "down"), duckAsk().with(200, duckPage)}, want: []string{"tavily failed: HTTP 503: down", "duckduckgo answered instead"}},
		{name: "no answer", provider: "tavily", key: testKey, todo: []exchange{tavily.with(-1, ""), duckAsk().with(200, duckPage)}, want: []string{"tavily failed: no answer in time", "1. One"}, took: 15 * time.Second},
		{name: "brave once more", provider: "brave", key: testKey, todo: []exchange{brave.with(429, "slow"), brave.with(200, braveAnswer)}, want: []string{"Results for: q (brave)"}, took: time.Second},
		{name: "brave not twice", provider: "brave", key: testKey, todo: []exchange{brave.with(429, ""), brave.with(429, ""), duckAsk().with(200, duckPage)}, want: []string{"too many requests", "duckduckgo answered"}, took: time.Second},
		{name: "the simple page", provider: "", todo: []exchange{duckAsk().with(500, ""), liteAsk().with(200, litePage)}, want: []string{"Results for: q (duckduckgo)\n\n1. One & only\n   https://a.example/1\n   First words"}, took: time.Second},
		{name: "a new look", provider: "", todo: []exchange{duckAsk().with(200, "<html>what?"), liteAsk().with(200, litePage)}, want: []string{"1. One & only"}, took: time.Second},
		{name: "limited", provider: "", todo: []exchange{duckAsk().with(202, "")}, want: []string{"duckduckgo failed: it asks whether we are human", "tools.web.search.provider"}, isError: true},
		{name: "limited by page", provider: "", todo: []exchange{duckAsk().with(200, anomalyPage)}, want: []string{"human"}, isError: true},
		{name: "limited, another key", provider: "", env: map[string]string{"BRAVE_API_KEY": testKey}, todo: []exchange{duckAsk().with(202, ""), brave.with(200, braveAnswer)}, want: []string{"duckduckgo failed", "brave answered instead"}},
		{name: "nothing works", provider: "brave", key: testKey, todo: []exchange{brave.with(500, ""), duckAsk().with(-1, "")}, want: []string{"brave failed: HTTP 500", "duckduckgo failed: no answer in time"}, isError: true, took: 30 * time.Second},
		{name: "searxng without address", provider: "searxng", todo: []exchange{duckAsk().with(200, duckPage)}, want: []string{"searxng has no address (tools.web.search.baseUrl)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{t: t, todo: tt.todo}
				b := newBench(t, web.Options{
					Client: &http.Client{Transport: s}, Search: web.SearchOptions{Provider: tt.provider, APIKey: httpsafe.NewSecret(tt.key)},
					Getenv: func(k string) string { return tt.env[k] },
				})
				start := time.Now()
				res := b.call("web_search", map[string]any{"query": "q"})
				got := res.Content.String()
				if res.IsError != tt.isError || !res.Untrusted {
					t.Errorf("error %v, untrusted %v", res.IsError, res.Untrusted)
				}
				for _, w := range append(tt.want, "") {
					if !strings.Contains(got, w) || strings.Contains(got, testKey) {
						t.Errorf("result lacks %q or holds the key:\n%s", w, got)
					}
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if len(s.todo) > 0 {
					t.Errorf("not asked: %v", s.todo)
				}
			})
		})
	}
}

// dead is a transport of a machine without a network.
type dead struct{}

func (dead) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "search.example", IsNotFound: true}}
}

// astray sends the first request elsewhere, where nobody is.
type astray struct{}

func (astray) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Host, "duckduckgo.com") {
		return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {"https://obey-me.example/"}}, Body: http.NoBody, Request: req}, nil
	}
	return dead{}.RoundTrip(req)
}

// A search that reached nobody brought nothing in, so it makes nothing suspect
// that comes after it. What a service said does, and so does where it sent us.
func TestSearchThatReachesNobody(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		transport http.RoundTripper
		want      bool
	}{{"no network", dead{}, false}, {"a redirect", astray{}, true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, web.Options{Client: &http.Client{Transport: tt.transport}})
				res := b.call("web_search", map[string]any{"query": "q"})
				if !res.IsError || res.Untrusted != tt.want {
					t.Errorf("error %v, untrusted %v, want %v: %s", res.IsError, res.Untrusted, tt.want, res.Content.String())
				}
			})
		})
	}
}

// Pages that are scraped are asked for at most once a second, whatever the
// model does.
func TestScrapingIsPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var todo []exchange
		for range 4 {
			todo = append(todo, duckAsk().with(200, duckPage))
		}
		b := newBench(t, web.Options{Client: &http.Client{Transport: &script{t: t, todo: todo}}})
		start := time.Now()
		done := make(chan tool.Result, 4)
		for range 4 {
			go func() { done <- b.call("web_search", map[string]any{"query": "q"}) }()
		}
		for range 4 {
			if r := <-done; r.IsError {
				t.Error(r.Content.String())
			}
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("4 searches took %v, want 3s", took)
		}
	})
}
