package auth_test

import (
	"crypto/tls"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/nanobot-go/nanobot/internal/web/auth"
)

func TestSite(t *testing.T) {
	t.Parallel()
	site := auth.Site{Hosts: []string{"bot.example", "10.0.0.2:18790"}}
	type h map[string]string
	page := h{"X-Nanobot-Page": "1", "Origin": "http://bot.example", "Sec-Fetch-Site": "same-origin"}
	with := func(name, value string) h {
		out := maps.Clone(page)
		out[name] = value
		return out
	}
	for name, tt := range map[string]struct {
		host                 string
		header               h
		read, change, socket auth.Problem
	}{
		"our page":              {"bot.example", page, "", "", ""},
		"loopback":              {"127.0.0.1:18790", with("Origin", "http://127.0.0.1:18790"), "", "", ""},
		"localhost":             {"localhost:1", with("Origin", "http://localhost:1"), "", "", ""},
		"IPv6":                  {"[::1]:1", with("Origin", "http://[::1]:1"), "", "", ""},
		"address with port":     {"10.0.0.2:18790", with("Origin", "http://10.0.0.2:18790"), "", "", ""},
		"no browser":            {"bot.example", h{}, auth.NoHeader, auth.NoHeader, auth.WrongOrigin},
		"no origin":             {"bot.example", h{"X-Nanobot-Page": "1"}, "", auth.WrongOrigin, auth.WrongOrigin},
		"rebound name":          {"evil.example", with("Origin", "http://evil.example"), auth.WrongHost, auth.WrongHost, auth.WrongHost},
		"other port of ours":    {"10.0.0.2:9999", with("Origin", "http://10.0.0.2:9999"), auth.WrongHost, auth.WrongHost, auth.WrongHost},
		"another page":          {"bot.example", with("Origin", "http://evil.example"), auth.WrongOrigin, auth.WrongOrigin, auth.WrongOrigin},
		"another port":          {"127.0.0.1:18790", with("Origin", "http://127.0.0.1:8080"), auth.WrongOrigin, auth.WrongOrigin, auth.WrongOrigin},
		"opaque origin":         {"bot.example", with("Origin", "null"), auth.WrongOrigin, auth.WrongOrigin, auth.WrongOrigin},
		"file":                  {"bot.example", with("Origin", "file://bot.example"), auth.WrongOrigin, auth.WrongOrigin, auth.WrongOrigin},
		"cross site":            {"bot.example", with("Sec-Fetch-Site", "cross-site"), auth.WrongOrigin, auth.WrongOrigin, auth.WrongOrigin},
		"same site, other port": {"bot.example", with("Sec-Fetch-Site", "same-site"), auth.WrongOrigin, auth.WrongOrigin, auth.WrongOrigin},
		"without our header":    {"bot.example", with("X-Nanobot-Page", ""), auth.NoHeader, auth.NoHeader, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.Host = tt.host
		for k, v := range tt.header {
			r.Header.Set(k, v)
		}
		if read, change, socket := site.Read(r), site.Change(r), site.Socket(r); read != tt.read || change != tt.change || socket != tt.socket {
			t.Errorf("%s: read %q, change %q, socket %q", name, read, change, socket)
		}
	}
}

// The cookie is secure over TLS, as the connection or a proxy that we trust says.
func TestSecureCookie(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tls       bool
		forwarded string
		proxy     string
		want      bool
	}{
		"plain":        {false, "", "", false},
		"TLS":          {true, "", "", true},
		"a liar":       {false, "https", "", false},
		"our proxy":    {false, "https", "192.0.2.0/24", true},
		"proxy, plain": {false, "http", "192.0.2.0/24", false},
	} {
		h := newHouse(t)
		if tt.proxy != "" {
			h.site.Proxies = []netip.Prefix{netip.MustParsePrefix(tt.proxy)}
		}
		b := &browser{h: h, address: "192.0.2.1"}
		r := b.request(http.MethodPost, "/webui/login", code(h.Link()))
		r.Header.Set("X-Forwarded-Proto", tt.forwarded)
		r.Header["X-Forwarded-For"] = []string{"198.51.100.9", "198.51.100.8, 203.0.113.7"}
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		h.Login(w, r)
		c := w.Result().Cookies()
		if len(c) != 1 || c[0].Secure != tt.want {
			t.Errorf("%s: %+v", name, c)
		}
		list, _ := h.Devices(t.Context())
		if want := map[bool]string{true: "203.0.113.7", false: "192.0.2.1"}[tt.proxy != ""]; list[0].Address != want {
			t.Errorf("%s: address %s", name, list[0].Address)
		}
	}
}
