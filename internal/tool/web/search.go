package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Limits of a search.
const (
	maxCount       = 10   // results
	maxQueryChars  = 1000 // of a query
	maxSnippet     = 500  // characters of one snippet
	maxSearchBytes = 2 << 20
	maxAttempts    = 3 // services asked for one query
)

type searchInput struct {
	Query string `json:"query" min:"1" alias:"q"`
	Count int    `json:"count,omitempty" desc:"Results, 1-10."`
}

type volcengineInput struct {
	Query        string   `json:"query" min:"1" alias:"q"`
	Count        int      `json:"count,omitempty" desc:"Results, 1-10."`
	TimeRange    string   `json:"timeRange,omitempty" desc:"OneDay, OneWeek, OneMonth, OneYear or YYYY-MM-DD..YYYY-MM-DD." alias:"time_range"`
	AuthLevel    *float64 `json:"authLevel,omitempty" desc:"1 keeps authoritative sources only." min:"0" max:"1" alias:"auth_level"`
	QueryRewrite bool     `json:"queryRewrite,omitempty" desc:"Let the service rewrite the query." alias:"query_rewrite"`
}

// question holds what a service is asked.
type question struct {
	text  string
	count int
	// Volcengine only.
	timeRange string
	authLevel *float64
	rewrite   bool
}

// hit is one result.
type hit struct{ title, url, snippet string }

func (f *family) search(ctx context.Context, c tool.Call, in searchInput) (tool.Result, error) {
	return f.answer(ctx, c, question{text: in.Query, count: in.Count})
}

func (f *family) searchVolcengine(ctx context.Context, c tool.Call, in volcengineInput) (tool.Result, error) {
	return f.answer(ctx, c, question{
		text: in.Query, count: in.Count, timeRange: in.TimeRange, authLevel: in.AuthLevel, rewrite: in.QueryRewrite,
	})
}

// answer asks the configured service and, when it cannot answer, others.
func (f *family) answer(ctx context.Context, c tool.Call, q question) (tool.Result, error) {
	q.text = strings.Join(strings.Fields(q.text), " ")
	if q.text == "" {
		return tool.Fail(tool.InvalidArgs, "query is empty"), nil
	}

	q.text = text.Cut(q.text, maxQueryChars)
	q.count = min(max(cmp.Or(q.count, f.o.Search.MaxResults), 1), maxCount)
	if name, found := f.o.Leaks(q.text); found {
		return refuseLeak("query", name), nil
	}

	if (c.Tainted || c.Scope != "") && f.o.SpendSearch != nil {
		if err := f.o.SpendSearch(ctx, c, len(q.text)); err != nil {
			return tool.Fail(tool.DeniedApproval, "%v", err), ctx.Err()
		}
	}

	bounded, cancel := context.WithTimeout(ctx, f.o.Search.Timeout)
	defer cancel()
	var notes []string
	failed, heard := false, false
	for attempts, b := range f.order(&notes) {
		if attempts == maxAttempts {
			break
		}

		hits, spoke, err := f.ask(bounded, b, q)
		heard = heard || spoke
		if ctx.Err() != nil {
			return tool.Result{}, ctx.Err()
		}
		if err == nil {
			return f.present(c, b.name, q, hits, notes), nil
		}

		f.o.Log.WarnContext(ctx, "web search failed", "backend", b.name, "err", err)
		failed = true
		notes = append(notes, b.name+" failed: "+reason(err))
		if bounded.Err() != nil {
			break
		}
	}

	if !failed {
		notes = append(notes, "no service is usable")
	}

	res := tool.Fail(tool.Internal, "the web search did not work: %s. Try again later or use another source; "+
		"the user can set tools.web.search.provider and its apiKey.", strings.Join(notes, "; "))
	if bounded.Err() != nil {
		res.Code = tool.TimedOut
	}

	res.Untrusted = heard // what services say about their failure is theirs
	return res, nil
}

// order lists the services to ask: the configured one, DuckDuckGo, then those
// the environment has a key for. A service without its key is named in notes.
func (f *family) order(notes *[]string) []attempt {
	var list []attempt
	add := func(b backend, key httpsafe.Secret) {
		for _, a := range list {
			if a.name == b.name {
				return
			}
		}
		list = append(list, attempt{backend: b, key: key})
	}

	chosen, _ := findBackend(f.o.Search.Provider)
	key := f.o.Search.APIKey
	if key.IsZero() || chosen.name == "searxng" { // whose address takes the place of a key
		key = f.envKey(chosen)
	}

	switch {
	case chosen.usable(key):
		add(chosen, key)
	case chosen.name == "searxng":
		*notes = append(*notes, "searxng has no address (tools.web.search.baseUrl)")
	default:
		*notes = append(*notes, chosen.name+" has no key (tools.web.search.apiKey or "+chosen.env[0]+")")
	}

	duck, _ := findBackend("duckduckgo")
	add(duck, httpsafe.Secret{})
	for _, b := range backends() {
		if k := f.envKey(b); !k.IsZero() {
			add(b, k)
		}
	}
	return list
}

// attempt is a service with the key it is asked with.
type attempt struct {
	backend
	key httpsafe.Secret
}

func (f *family) envKey(b backend) httpsafe.Secret {
	if b.name == "searxng" {
		return httpsafe.NewSecret(cmp.Or(f.o.Search.BaseURL, f.o.Getenv(b.env[0])))
	}
	for _, name := range b.env {
		if v := strings.TrimSpace(f.o.Getenv(name)); v != "" {
			return httpsafe.NewSecret(v)
		}
	}
	return httpsafe.Secret{}
}

// ask puts a question to one service within its own time. It also reports
// whether a server answered.
func (f *family) ask(ctx context.Context, a attempt, q question) (clean []hit, heard bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.timeout, f.o.Search.Timeout))
	defer cancel()
	one := &asking{family: f, key: a.key}
	hits, err := a.find(ctx, one, q)
	if err != nil {
		return nil, one.heard, err
	}

	clean = make([]hit, 0, len(hits))
	for _, h := range hits {
		h.title, h.snippet = oneLine(h.title, 200), oneLine(h.snippet, maxSnippet)
		if h.url = webLink(h.url); h.url != "" && len(clean) < q.count {
			clean = append(clean, h)
		}
	}
	return clean, true, nil
}

// webLink accepts only addresses that web_fetch could read.
func webLink(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || len(raw) > 2048 {
		return ""
	}
	return u.String()
}

// present words the results.
func (f *family) present(c tool.Call, name string, q question, hits []hit, notes []string) tool.Result {
	var b strings.Builder
	if len(hits) == 0 {
		fmt.Fprintf(&b, "No results for: %s (%s)\n", q.text, name)
	} else {
		fmt.Fprintf(&b, "Results for: %s (%s)\n", q.text, name)
	}

	if len(notes) > 0 {
		fmt.Fprintf(&b, "[%s; %s answered instead]\n", strings.Join(notes, "; "), name)
	}

	seen := memoryOf(c.State)
	for i, h := range hits {
		fmt.Fprintf(&b, "\n%d. %s\n   %s\n", i+1, cmp.Or(h.title, "(no title)"), h.url)
		if h.snippet != "" {
			fmt.Fprintf(&b, "   %s\n", h.snippet)
		}
		seen.link(h.url)
	}

	res := tool.Text(strings.TrimRight(b.String(), "\n"))
	res.Untrusted = true
	return res
}

// reason words the failure of a service: short, one line, without its key.
func reason(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	default:
		return text.Ellipsis(httpsafe.WithoutURL(err).Error(), 300)
	}
}

func refuseLeak(what, name string) tool.Result {
	return tool.Fail(tool.DeniedPolicy, "the %s contains a secret (%s), which must not leave this machine; nothing was sent. Leave it out.", what, name)
}

// pace spaces requests to a service that is scraped, not called by contract.
type pace struct {
	every time.Duration

	mu   sync.Mutex
	next time.Time
}

// wait blocks until the next request may be made.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(p.every)
	p.mu.Unlock()
	return wait.For(ctx, at.Sub(now))
}
