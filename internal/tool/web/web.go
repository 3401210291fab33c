// Package web is the family of tools that look at the web: web_search and
// web_fetch. It hides the protocols of the search services and how one stands
// in for another, how a body of unknown size and kind becomes text within hard
// limits, and which part of a page is worth reading.
//
// Addresses a model names are opened by a client of httpsafe.Guarded only.
// Everything that comes from outside is marked as untrusted. Tools share
// nothing between calls but the clients, the pace of the scraped search engine
// and the per-session memory of pages and links.
package web

import (
	"cmp"
	"context"
	_ "embed" // the descriptions
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	docs "github.com/nanobot-go/nanobot/internal/base/document"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// defaultUserAgent is sent when none is configured. Many sites answer unknown
// programs with an error page, so it looks like a browser.
const defaultUserAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// Options configure the family. The zero value searches with DuckDuckGo and
// reads public addresses.
type Options struct {
	Search    SearchOptions
	Proxy     httpsafe.Secret // http, https or socks5 URL; "" takes the proxy of the environment
	UserAgent string          // "" is DefaultUserAgent
	// UseJinaReader lets r.jina.ai read pages, which then sees every address
	// that carries no credentials.
	UseJinaReader bool
	// Allow lists private networks that may be reached, from tools.ssrfWhitelist.
	Allow  []netip.Prefix
	Strict bool // also refuse 198.18.0.0/15
	// Getenv reads the environment for keys; nil means that there are none.
	Getenv func(string) string
	// Document turns a PDF or an office file into text; nil means that such
	// files are refused. name ends in the extension of the kind.
	Document func(ctx context.Context, name string, data []byte) (string, error)
	// Leaks reports whether a text contains a known secret, and which. Such a
	// URL or query is refused before anything is sent.
	Leaks func(text string) (name string, found bool)
	// Spend counts how many bytes of its own a request in a turn that has seen
	// content from outside is about to send to a host; an error refuses it. nil
	// allows all. SpendSearch is the same for queries of a search.
	Spend       func(ctx context.Context, c tool.Call, host string, bytes int) error
	SpendSearch func(ctx context.Context, c tool.Call, bytes int) error
	Log         *slog.Logger // nil discards

	// Client, when set, makes all requests in place of the guarded ones. It is
	// meant for tests of the search services.
	Client *http.Client
	// Resolver looks names up; nil is the system's.
	Resolver *net.Resolver
	// FetchTimeout bounds one web_fetch; 0 is 30 s.
	FetchTimeout time.Duration
}

// SearchOptions choose the search service.
type SearchOptions struct {
	Provider   string          // see Providers; "" is duckduckgo
	APIKey     httpsafe.Secret // "" takes the key from the environment
	BaseURL    string          // address of a SearXNG server
	MaxResults int             // results when the model names no count, 1-10; 0 is 5
	Timeout    time.Duration   // bounds one search with its fallbacks; 0 is 30 s
}

// The descriptions the model sees.
var (
	//go:embed describe/web_search.md
	searchText string
	//go:embed describe/web_fetch.md
	fetchText string
)

// New makes the two tools, or says what is wrong with the configuration.
// Nothing is sent until a tool is called.
func New(o Options) ([]tool.Tool, error) {
	f, err := newFamily(o)
	if err != nil {
		return nil, err
	}

	search := tool.Tool{Name: "web_search", Description: strings.TrimSpace(searchText), ReadOnly: true}
	fetch := tool.Tool{Name: "web_fetch", Description: strings.TrimSpace(fetchText), ReadOnly: true}
	if f.o.Search.Provider == "volcengine" {
		search = tool.Func(search, f.searchVolcengine)
	} else {
		search = tool.Func(search, f.search)
	}
	return []tool.Tool{search, tool.Func(fetch, f.fetch)}, nil
}

type family struct {
	o      Options
	guard  httpsafe.GuardOptions
	client *http.Client // guarded
	own    *http.Client // for the operator's own search server
	pace   *pace        // of scraped search pages
	work   chan struct{}

	pictures docs.Pictures
}

// extractors is how many pages are parsed at once: a page of the largest size
// takes some 60 MB while it is parsed.
const extractors = 2

func newFamily(o Options) (*family, error) {
	o.Search.Provider = strings.ToLower(cmp.Or(strings.TrimSpace(o.Search.Provider), "duckduckgo"))
	if _, ok := findBackend(o.Search.Provider); !ok {
		return nil, fmt.Errorf("tools.web.search.provider %q is unknown; use one of %s", o.Search.Provider, strings.Join(Providers(), ", "))
	}

	o.Search.MaxResults = min(max(cmp.Or(o.Search.MaxResults, 5), 1), maxCount)
	o.Search.Timeout = cmp.Or(max(o.Search.Timeout, 0), 30*time.Second)
	o.FetchTimeout = cmp.Or(o.FetchTimeout, 30*time.Second)
	o.UserAgent = cmp.Or(o.UserAgent, defaultUserAgent)
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Leaks == nil {
		o.Leaks = func(string) (string, bool) { return "", false }
	}

	f := &family{o: o, pace: &pace{every: time.Second}, work: make(chan struct{}, extractors)}
	f.guard = httpsafe.GuardOptions{
		Allow: o.Allow, Strict: o.Strict, Proxy: o.Proxy.Reveal(), EnvProxy: true, Resolver: o.Resolver, HeaderTimeout: 20 * time.Second,
	}
	if o.Client != nil {
		f.client, f.own = o.Client, o.Client
		return f, nil
	}

	var errOwn, err error
	f.client, err = httpsafe.Guarded(f.guard)
	f.own, errOwn = httpsafe.Client(httpsafe.Options{Direct: httpsafe.IsLocal(o.Search.BaseURL), Proxy: o.Proxy.Reveal(), HeaderTimeout: 20 * time.Second})
	if err := errors.Join(err, errOwn); err != nil {
		return nil, fmt.Errorf("tools.web.proxy: %w", err)
	}
	return f, nil
}
