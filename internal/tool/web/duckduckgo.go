package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

var errLimited = errors.New("it asks whether we are human (too many requests); wait some minutes")

// duckduckgo reads the page made for browsers without scripts and, when that
// is not usable, the even simpler one. A refusal ends the attempt: asking on
// would only prolong it.
func duckduckgo(ctx context.Context, a *asking, q question) ([]hit, error) {
	hits, err := a.duckPage(ctx, "https://html.duckduckgo.com/html/", q)
	if err == nil && len(hits) > 0 || errors.Is(err, errLimited) || ctx.Err() != nil {
		return hits, err
	}
	lite, liteErr := a.duckPage(ctx, "https://lite.duckduckgo.com/lite/", q)
	if liteErr != nil && err == nil {
		return nil, nil // the first page was read and had no results
	}
	return lite, liteErr
}

func (a *asking) duckPage(ctx context.Context, page string, q question) ([]hit, error) {
	if err := a.pace.wait(ctx); err != nil {
		return nil, err
	}

	form := url.Values{"q": {q.text}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, page, strings.NewReader(form))
	if err != nil {
		return nil, err
	}

	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "text/html")
	req.Header.Set("User-Agent", a.o.UserAgent)
	data, err := a.exchange(a.client, req)
	switch {
	case hasStatus(err, http.StatusAccepted, http.StatusTooManyRequests, http.StatusForbidden):
		return nil, errLimited
	case err != nil:
		return nil, err
	}

	hits, limited, known := parseDuck(data)
	switch {
	case limited:
		return nil, errLimited
	case !known:
		return nil, errors.New("the page looks different from what was expected")
	}
	return hits, nil
}

// duckParser collects results from both kinds of page while their tags pass by.
type duckParser struct {
	hits    []hit
	ad      bool // inside an advertisement
	into    int  // which part of the last result text belongs to
	until   string
	text    strings.Builder
	limited bool
	known   bool // something that only a page of results has was seen
}

const (
	intoNothing = iota
	intoTitle
	intoSnippet
)

// parseDuck finds the results in a page. limited says that the page is the
// question whether a human asks; known that it is a page of results at all.
func parseDuck(page []byte) (hits []hit, limited, known bool) {
	var p duckParser
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			p.closePart()
			return p.hits, p.limited && len(p.hits) == 0, p.known
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := string(name)
			var class, href string
			for more {
				var k, v []byte
				k, v, more = z.TagAttr()
				switch string(k) {
				case "class":
					class = string(v)
				case "href":
					href = string(v)
				}
			}

			p.open(tag, strings.Fields(class), href)

		case html.EndTagToken:
			if name, _ := z.TagName(); p.into != intoNothing && string(name) == p.until {
				p.closePart()
			}
		case html.TextToken:
			if p.into != intoNothing {
				p.text.Write(z.Text())
			}
		}
	}
}

func (p *duckParser) open(tag string, class []string, href string) {
	has := func(name string) bool { return slices.Contains(class, name) }
	if slices.ContainsFunc(class, func(c string) bool { return strings.HasPrefix(c, "anomaly") }) {
		p.limited = true
	}

	switch {
	case tag == "div" && has("result"):
		p.ad, p.known = has("result--ad"), true
	case tag == "tr" && has("result-sponsored"):
		p.ad = true
	case has("no-results"), has("results"), has("serp__results"):
		p.known = true
	case tag == "a" && (has("result__a") || has("result-link")):
		p.closePart()
		p.known = true
		if has("result-link") && !has("result__a") && href != "" && !strings.Contains(href, "duckduckgo.com/y.js") {
			p.ad = false // rows of the simple page are not nested: each title starts a result
		}
		if target := duckTarget(href); target != "" && !p.ad {
			p.hits = append(p.hits, hit{url: target})
			p.into, p.until = intoTitle, tag
		}

	case has("result__snippet") || has("result-snippet"):
		p.closePart()
		if !p.ad && len(p.hits) > 0 && p.hits[len(p.hits)-1].snippet == "" {
			p.into, p.until = intoSnippet, tag
		}
	}
}

// closePart closes the part that is being collected.
func (p *duckParser) closePart() {
	if len(p.hits) > 0 {
		last := &p.hits[len(p.hits)-1]
		switch p.into {
		case intoTitle:
			last.title = p.text.String()
		case intoSnippet:
			last.snippet = p.text.String()
		}
	}

	p.text.Reset()
	p.into = intoNothing
}

// duckTarget returns where a result leads: the page itself, or the target of
// DuckDuckGo's own redirect. Advertisements have none.
func duckTarget(href string) string {
	if strings.HasPrefix(href, "//") {
		href = "https:" + href
	}

	u, err := url.Parse(href)
	if err != nil {
		return ""
	}

	if u.Host == "duckduckgo.com" || strings.HasSuffix(u.Host, ".duckduckgo.com") || u.Host == "" {
		if u.Path != "/l/" && u.Path != "/l" {
			return ""
		}
		target := u.Query().Get("uddg")
		if strings.Contains(target, "duckduckgo.com/y.js") {
			return ""
		}
		return target
	}

	return href
}
