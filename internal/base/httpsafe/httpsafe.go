// Package httpsafe hides how HTTP connections are dialled, proxied, timed and
// redirected. It is the only maker of HTTP clients in the product: Client is for
// servers that the configuration names, Guarded for addresses from a model, a web
// page or a stranger, Local for a socket of this machine, and Proxy stands between
// commands and the network. It is also the home of Secret, the type in which
// credentials travel, and of the functions that remove them from texts.
package httpsafe

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Options describe a client. The zero value is a client for operator-written
// URLs: private addresses allowed, proxy from the environment, no overall
// deadline (streams end by context).
type Options struct {
	Proxy         string        // explicit proxy URL; the environment is then ignored
	Direct        bool          // never use a proxy, e.g. for model servers on this machine
	HeaderTimeout time.Duration // until response headers arrive; 0 = no limit
}

// Client makes an HTTP client. Redirects are refused when they change the
// origin, because custom headers carry credentials.
func Client(o Options) (*http.Client, error) {
	proxy := http.ProxyFromEnvironment
	switch {
	case o.Proxy != "":
		u, err := ParseProxy(o.Proxy)
		if err != nil {
			return nil, err
		}
		proxy = http.ProxyURL(u)
	case o.Direct:
		proxy = nil
	}

	d := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                 proxy,
			DialContext:           d.DialContext,
			ForceAttemptHTTP2:     true,
			MaxIdleConns:          256,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: o.HeaderTimeout,
			WriteBufferSize:       32 << 10, // most requests to models leave in one go
		},
		CheckRedirect: sameOrigin,
	}, nil
}

func sameOrigin(req *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return errors.New("more than 5 redirects")
	}
	if first := via[0].URL; req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		return errors.New("redirect to another origin refused")
	}
	return nil
}

// IsLocal reports whether a URL points at this machine or a private network,
// where no proxy applies and slow answers are normal.
func IsLocal(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}

	host := strings.ToLower(u.Hostname())
	if host == "localhost" || host == "host.docker.internal" || strings.HasSuffix(host, ".localhost") {
		return true
	}

	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsPrivate())
}
