package web

import (
	"errors"
	"net/url"
	"strings"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// trimURL takes a URL out of the quotes and spaces models put around it, and
// completes one that only lacks its scheme.
func trimURL(raw string) (string, error) {
	raw = strings.Trim(raw, " \t\r\n\"'`<>")
	switch {
	case raw == "":
		return "", errors.New("url is empty")
	case len(raw) > 8192:
		return "", errors.New("url is longer than 8192 characters")
	}

	if head, _, _ := strings.Cut(raw, "/"); !strings.ContainsAny(head, ":@\\") && strings.Contains(head, ".") && head != "" {
		raw = "https://" + raw
	}
	return raw, nil
}

// suspiciousChars is how long path and query of an everyday URL are at most.
const suspiciousChars = 128

// Suspicious reports whether a URL could carry more than a little data away:
// its path and query are long, its host name is, or it holds user information.
// In a turn that has seen content from outside, such a URL should be approved by
// the user unless Seen knows it. What is not a URL is suspicious.
func Suspicious(rawURL string) bool {
	raw, err := trimURL(rawURL)
	if err != nil {
		return true
	}

	u, err := url.Parse(raw)
	if err != nil {
		return true
	}

	carried := len(strings.TrimPrefix(u.EscapedPath(), "/")) + len(u.RawQuery)
	return carried > suspiciousChars || len(u.Hostname()) > 64 || u.User != nil
}

// carries returns how many bytes of a URL its writer chose freely: none of one
// that was shown before.
func carries(s *tool.State, u *url.URL) int {
	if Seen(s, u.String()) {
		return 0
	}
	return len(u.EscapedPath()) + len(u.RawQuery)
}

// normalName returns the host of a URL in one spelling.
func normalName(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }

// credentials reports whether a URL seems to hold a credential: such a URL is
// shown to its own server only.
func credentials(u *url.URL) bool {
	if u.User != nil {
		return true
	}

	for pair := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if credentialName(name) {
			return true
		}
	}

	return false
}

func credentialName(name string) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	if strings.HasPrefix(name, "x-amz-") || strings.HasPrefix(name, "x-goog-") {
		return true
	}

	switch strings.NewReplacer("-", "", "_", "", ".", "").Replace(name) {
	case "accesstoken", "apikey", "auth", "authorization", "clientsecret", "code", "credential", "credentials", "idtoken", "jwt", "key",
		"password", "passwd", "pwd", "privatekey", "refreshtoken", "secret", "sessionid", "sessiontoken", "sig", "signature", "ticket",
		"token", "samlresponse", "authtoken", "sid", "sas":
		return true
	}
	return false
}

// shown returns a URL as it appears in results: without user information.
func shown(u *url.URL) string {
	c := *u
	c.User = nil
	return c.String()
}

// leaks looks for known secrets in a URL, in all the ways it can be written.
func (f *family) leaks(u *url.URL, raw string) (string, bool) {
	forms := []string{raw, u.String(), u.Path, u.Fragment}
	if q, err := url.QueryUnescape(u.RawQuery); err == nil {
		forms = append(forms, q)
	}

	if p, err := url.PathUnescape(raw); err == nil {
		forms = append(forms, p)
		if pp, err := url.PathUnescape(p); err == nil && pp != p {
			forms = append(forms, pp)
		}
	}

	if u.User != nil {
		password, _ := u.User.Password()
		forms = append(forms, u.User.Username(), password)
	}

	for _, s := range forms {
		if name, found := f.o.Leaks(s); found {
			return name, true
		}
	}
	return "", false
}
