package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/wait"
)

// backend is one search service.
type backend struct {
	name    string
	env     []string      // where its key (for searxng its address) may be found
	keyless bool          // works without a key
	timeout time.Duration // 0: as configured
	find    func(ctx context.Context, a *asking, q question) ([]hit, error)
}

func (b backend) usable(key httpsafe.Secret) bool { return b.keyless || !key.IsZero() }

// backends lists the services. DuckDuckGo is asked by reading its pages; the
// others have a documented interface.
func backends() []backend {
	const short, long = 10 * time.Second, 15 * time.Second
	return []backend{
		{name: "duckduckgo", keyless: true, find: duckduckgo},
		{name: "brave", env: []string{"BRAVE_API_KEY"}, timeout: short, find: brave},
		{name: "tavily", env: []string{"TAVILY_API_KEY"}, timeout: long, find: tavily},
		{name: "searxng", env: []string{"SEARXNG_BASE_URL"}, timeout: short, find: searxng},
		{name: "jina", env: []string{"JINA_API_KEY"}, timeout: long, find: jina},
		{name: "kagi", env: []string{"KAGI_API_KEY"}, timeout: short, find: kagi},
		{name: "exa", env: []string{"EXA_API_KEY"}, find: exa},
		{name: "serper", env: []string{"SERPER_API_KEY"}, find: serper},
		{name: "bocha", env: []string{"BOCHA_API_KEY"}, find: bocha},
		{name: "volcengine", env: []string{"VOLCENGINE_SEARCH_API_KEY", "WEB_SEARCH_API_KEY"}, find: volcengine},
		{name: "keenable", env: []string{"KEENABLE_API_KEY"}, keyless: true, find: keenable},
		{name: "olostep", env: []string{"OLOSTEP_API_KEY"}, find: olostep},
	}
}

func findBackend(name string) (backend, bool) {
	all := backends()
	i := slices.IndexFunc(all, func(b backend) bool { return b.name == name })
	if i < 0 {
		return backend{}, false
	}
	return all[i], true
}

// Providers names the search services that can be configured.
func Providers() []string {
	var names []string
	for _, b := range backends() {
		names = append(names, b.name)
	}
	return names
}

// asking is one question on its way to a service.
type asking struct {
	*family
	key   httpsafe.Secret
	heard bool // a server answered, whatever it was
}

// statusError is an answer that is not 200.
type statusError struct {
	status int
	detail string
}

func (e *statusError) Error() string {
	msg := "HTTP " + strconv.Itoa(e.status)
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden:
		msg += " (is the key right?)"
	case http.StatusTooManyRequests:
		msg += " (too many requests)"
	case http.StatusPaymentRequired:
		msg += " (no credit left)"
	}

	if e.detail != "" {
		msg += ": " + e.detail
	}
	return msg
}

func hasStatus(err error, codes ...int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && slices.Contains(codes, e.status)
}

// call sends a request and decodes its JSON answer into out. A body makes it a
// POST of JSON. header holds name and value in turns.
func (a *asking) call(ctx context.Context, client *http.Client, target string, body, out any, header ...string) error {
	method, reader := http.MethodGet, io.Reader(http.NoBody)
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		method, reader = http.MethodPost, bytes.NewReader(b)
	}

	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return httpsafe.WithoutURL(err)
	}

	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", a.o.UserAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}

	data, err := a.exchange(client, req)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return errors.New("the answer is not the JSON that was expected")
	}
	return nil
}

// exchange sends a request and reads at most maxSearchBytes of its answer.
func (a *asking) exchange(client *http.Client, req *http.Request) ([]byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		a.heard = a.heard || !unreachable(req, err)
		return nil, a.blind(httpsafe.WithoutURL(err))
	}

	a.heard = true
	defer resp.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSearchBytes+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, a.blind(&statusError{resp.StatusCode, oneLine(string(data), 200)})
	case err != nil:
		return nil, a.blind(httpsafe.WithoutURL(err))
	case len(data) > maxSearchBytes:
		return nil, errors.New("the answer is larger than 2 MiB")
	}

	return data, nil
}

// unreachable reports whether a request failed before a server could answer
// it, so that the error is all our own words. After a redirect it is not.
func unreachable(req *http.Request, err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "dial" {
		return errors.Is(err, context.DeadlineExceeded)
	}
	u, ok := errors.AsType[*url.Error](err)
	return ok && u.URL == req.URL.String()
}

// blind takes the key out of an error: services repeat it, and so do URLs.
func (a *asking) blind(err error) error {
	key := a.key.Reveal()
	if key == "" || !strings.Contains(err.Error(), key) {
		return err
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		return &statusError{e.status, strings.ReplaceAll(e.detail, key, "***")}
	}
	return errors.New(strings.ReplaceAll(err.Error(), key, "***"))
}

func (a *asking) bearer() []string { return []string{"Authorization", "Bearer " + a.key.Reveal()} }

// rows is a list of results under the names most services use.
type rows []struct {
	Title       string `json:"title"`
	URL         string `json:"url"`
	Link        string `json:"link"`
	Name        string `json:"name"`
	Content     string `json:"content"`
	Snippet     string `json:"snippet"`
	Description string `json:"description"`
	Summary     string `json:"summary"`
}

func (r rows) hits() []hit {
	out := make([]hit, 0, len(r))
	for _, v := range r {
		snippet := first(v.Summary, v.Content, v.Snippet, v.Description)
		out = append(out, hit{first(v.Title, v.Name), first(v.URL, v.Link), snippet})
	}
	return out
}

func first(values ...string) string {
	for _, v := range values {
		if strings.TrimSpace(v) != "" {
			return v
		}
	}
	return ""
}

func brave(ctx context.Context, a *asking, q question) ([]hit, error) {
	target := "https://api.search.brave.com/res/v1/web/search?" +
		url.Values{"q": {q.text}, "count": {strconv.Itoa(q.count)}}.Encode()
	var out struct {
		Web struct {
			Results rows `json:"results"`
		} `json:"web"`
	}

	header := []string{"X-Subscription-Token", a.key.Reveal()}
	err := a.call(ctx, a.client, target, nil, &out, header...)
	if hasStatus(err, http.StatusTooManyRequests) { // its free plan allows one request per second
		if err := wait.For(ctx, time.Second); err != nil {
			return nil, err
		}
		err = a.call(ctx, a.client, target, nil, &out, header...)
	}
	return out.Web.Results.hits(), err
}

func tavily(ctx context.Context, a *asking, q question) ([]hit, error) {
	var out struct {
		Results rows `json:"results"`
	}
	body := map[string]any{"query": q.text, "max_results": q.count}
	err := a.call(ctx, a.client, "https://api.tavily.com/search", body, &out, a.bearer()...)
	return out.Results.hits(), err
}

// searxng asks the operator's own server, which may be on a private address;
// redirects to another origin are not followed.
func searxng(ctx context.Context, a *asking, q question) ([]hit, error) {
	base, err := url.Parse(strings.TrimSpace(a.key.Reveal()))
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, errors.New("tools.web.search.baseUrl is not an http or https URL")
	}

	target := strings.TrimRight(base.String(), "/") + "/search?" + url.Values{"q": {q.text}, "format": {"json"}}.Encode()
	var out struct {
		Results rows `json:"results"`
	}
	err = a.call(ctx, a.own, target, nil, &out)
	if hasStatus(err, http.StatusForbidden) {
		return nil, errors.New("HTTP 403 (the server must allow the json format in its settings)")
	}
	return out.Results.hits(), err
}

func jina(ctx context.Context, a *asking, q question) ([]hit, error) {
	var out struct {
		Data rows `json:"data"`
	}
	err := a.call(ctx, a.client, "https://s.jina.ai/"+url.PathEscape(q.text), nil, &out, a.bearer()...)
	return out.Data.hits(), err
}

// kagi asks the current interface, and the older one for keys that only it knows.
func kagi(ctx context.Context, a *asking, q question) ([]hit, error) {
	var out struct {
		Data struct {
			Search rows `json:"search"`
		} `json:"data"`
	}

	body := map[string]any{"query": q.text, "limit": q.count}
	err := a.call(ctx, a.client, "https://kagi.com/api/v1/search", body, &out, a.bearer()...)
	if !hasStatus(err, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed) {
		return out.Data.Search.hits(), err
	}

	var old struct {
		Data []struct {
			T       int    `json:"t"` // 0 is a result, 1 a list of related searches
			Title   string `json:"title"`
			URL     string `json:"url"`
			Snippet string `json:"snippet"`
		} `json:"data"`
	}

	target := "https://kagi.com/api/v0/search?" + url.Values{"q": {q.text}, "limit": {strconv.Itoa(q.count)}}.Encode()
	if oldErr := a.call(ctx, a.client, target, nil, &old, "Authorization", "Bot "+a.key.Reveal()); oldErr != nil {
		return nil, err
	}

	var hits []hit
	for _, d := range old.Data {
		if d.T == 0 {
			hits = append(hits, hit{d.Title, d.URL, d.Snippet})
		}
	}
	return hits, nil
}

func exa(ctx context.Context, a *asking, q question) ([]hit, error) {
	var out struct {
		Results []struct {
			Title      string   `json:"title"`
			URL        string   `json:"url"`
			Highlights []string `json:"highlights"`
			Summary    string   `json:"summary"`
			Text       string   `json:"text"`
		} `json:"results"`
	}

	body := map[string]any{"query": q.text, "numResults": q.count, "contents": map[string]any{"highlights": true}}
	err := a.call(ctx, a.client, "https://api.exa.ai/search", body, &out, "X-Api-Key", a.key.Reveal())
	var hits []hit
	for _, r := range out.Results {
		hits = append(hits, hit{r.Title, r.URL, first(strings.Join(r.Highlights, " … "), r.Summary, r.Text)})
	}
	return hits, err
}

func serper(ctx context.Context, a *asking, q question) ([]hit, error) {
	var out struct {
		Organic rows `json:"organic"`
	}
	body := map[string]any{"q": q.text, "num": q.count}
	err := a.call(ctx, a.client, "https://google.serper.dev/search", body, &out, "X-Api-Key", a.key.Reveal())
	return out.Organic.hits(), err
}

func bocha(ctx context.Context, a *asking, q question) ([]hit, error) {
	type pages struct {
		Value rows `json:"value"`
	}
	var out struct {
		Data struct {
			WebPages pages `json:"webPages"`
		} `json:"data"`
		WebPages pages `json:"webPages"`
	}

	body := map[string]any{"query": q.text, "freshness": "noLimit", "summary": true, "count": q.count}
	err := a.call(ctx, a.client, "https://api.bochaai.com/v1/web-search", body, &out, a.bearer()...)
	return append(out.Data.WebPages.Value, out.WebPages.Value...).hits(), err
}

func volcengine(ctx context.Context, a *asking, q question) ([]hit, error) {
	body := map[string]any{"Query": q.text, "SearchType": "web", "Count": q.count, "NeedSummary": true}
	if q.timeRange != "" {
		body["TimeRange"] = q.timeRange
	}
	if q.authLevel != nil {
		body["Filter"] = map[string]any{"AuthInfoLevel": *q.authLevel}
	}
	if q.rewrite {
		body["QueryControl"] = map[string]any{"QueryRewrite": true}
	}

	var out struct {
		ResponseMetadata struct {
			Error *struct{ Code, Message string }
		}
		Result struct {
			WebResults []struct {
				Title, SiteName, Summary, Snippet, AuthInfoDes, PublishTime string
				URL                                                         string `json:"Url"`
			}
		}
	}

	err := a.call(ctx, a.client, "https://open.feedcoopapi.com/search_api/web_search", body, &out,
		append(a.bearer(), "X-Traffic-Tag", "nanobot")...)
	if e := out.ResponseMetadata.Error; err == nil && e != nil {
		err = a.blind(fmt.Errorf("%s %s", oneLine(e.Code, 60), oneLine(e.Message, 200)))
	}

	var hits []hit
	for _, r := range out.Result.WebResults {
		about := slices.DeleteFunc([]string{r.SiteName, r.AuthInfoDes, r.PublishTime}, func(s string) bool { return s == "" })
		snippet := first(r.Summary, r.Snippet)
		if len(about) > 0 {
			snippet = strings.Join(about, " · ") + ": " + snippet
		}
		hits = append(hits, hit{r.Title, r.URL, snippet})
	}

	return hits, err
}

func keenable(ctx context.Context, a *asking, q question) ([]hit, error) {
	target, header := "https://api.keenable.ai/v1/search/public", []string{"X-Keenable-Title", "nanobot"}
	if !a.key.IsZero() {
		target, header = "https://api.keenable.ai/v1/search", append(header, "X-Api-Key", a.key.Reveal())
	}
	var out struct {
		Results rows `json:"results"`
	}
	err := a.call(ctx, a.client, target, map[string]any{"query": q.text}, &out, header...)
	return out.Results.hits(), err
}

func olostep(ctx context.Context, a *asking, q question) ([]hit, error) {
	var out struct {
		Result struct {
			Links rows `json:"links"`
		} `json:"result"`
	}
	body := map[string]any{"query": q.text, "limit": q.count}
	err := a.call(ctx, a.client, "https://api.olostep.com/v1/searches", body, &out, a.bearer()...)
	return out.Result.Links.hits(), err
}
