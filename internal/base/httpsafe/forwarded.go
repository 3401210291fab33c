package httpsafe

import (
	"net/http"
	"slices"
	"strings"
)

// Direct reports whether a request looks as programs send it that talk to us
// themselves. Proxies add headers, and there is no complete list of these, so
// it is the headers of direct clients that are listed: with any other one a
// request may come from anywhere, although its connection begins on this
// machine. So may one of HTTP/1.0, which proxies still speak to what is behind
// them.
func Direct(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return false
	}
	for name, values := range r.Header {
		if !directHeader(name) || len(values) > 1 && !slices.Contains(repeated(), name) {
			return false
		}
	}
	return true
}

func repeated() []string {
	return []string{"Cookie", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions", "Accept"}
}

// directHeader knows what browsers, command line clients and the libraries of
// model vendors send.
func directHeader(name string) bool {
	switch name {
	case "User-Agent", "Authorization", "Connection", "Cookie", "Origin", "Referer", "Upgrade", "Upgrade-Insecure-Requests",
		"Cache-Control", "Pragma", "Priority", "Te", "Expect", "Dnt", "Range", "Idempotency-Key", "Api-Key", "X-Api-Key", "Http-Referer", "X-Title",
		"X-Hub-Signature-256", "Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-Id":
		return true
	}

	for _, prefix := range []string{"Accept", "Content-", "Sec-", "If-", "X-Stainless-", "Openai-", "Anthropic-", "X-Nanobot-"} {
		if name == strings.TrimSuffix(prefix, "-") || strings.HasPrefix(name, strings.TrimSuffix(prefix, "-")+"-") {
			return true
		}
	}
	return false
}
