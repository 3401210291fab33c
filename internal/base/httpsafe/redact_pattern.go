package httpsafe

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// RedactPatterns replaces what looks like a credential although it was not
// registered: keys with the prefixes of known vendors, tokens of chat bots,
// signed tokens, private keys, values after "Bearer" or a name like api_key,
// and addresses that carry a password or a token (their origin stays). It
// guesses, so it is for logs and errors, not for text a program reads again.
func RedactPatterns(s string) string {
	s = cleanURLs(s)
	for _, p := range prefixes() {
		s = p.redact(s)
	}

	s = redactBotTokens(s)
	s = redactPEM(s)
	if mayNameSecret(s) {
		s = namedSecret().ReplaceAllString(s, "${1}"+redacted)
	}
	return s
}

// RedactSecrets removes credentials from a text that is shown or logged: the
// given ones literally, and everything that looks like one.
func RedactSecrets(s string, known ...Secret) string {
	for _, k := range known {
		if v := k.Reveal(); len(v) >= 6 {
			s = strings.ReplaceAll(s, v, redacted)
		}
	}
	return RedactPatterns(s)
}

// prefix is a vendor's mark at the beginning of its keys.
type prefix struct {
	text  string
	min   int  // characters that follow at least
	dots  bool // characters that follow may include dots
	mixed bool // without digits or capitals it is a word
	jwt   bool // three parts are needed
}

var prefixes = sync.OnceValue(func() []prefix {
	return []prefix{
		{text: "sk-", min: 8, dots: true},
		{text: "sk_", min: 8, dots: true},
		{text: "gsk_", min: 8, dots: true},
		{text: "hf_", min: 8, dots: true, mixed: true},
		{text: "xai-", min: 8, dots: true, mixed: true},
		{text: "nvapi-", min: 8, dots: true},
		{text: "tp-", min: 8, dots: true, mixed: true},
		{text: "AIza", min: 8, dots: true},
		{text: "ghp_", min: 16},
		{text: "gho_", min: 16},
		{text: "ghu_", min: 16},
		{text: "ghs_", min: 16},
		{text: "ghr_", min: 16},
		{text: "github_pat_", min: 16},
		{text: "glpat-", min: 16},
		{text: "xoxa-", min: 8},
		{text: "xoxb-", min: 8},
		{text: "xoxp-", min: 8},
		{text: "xoxe-", min: 8},
		{text: "xoxs-", min: 8},
		{text: "xapp-", min: 8},
		{text: "AKIA", min: 16},
		{text: "ASIA", min: 16},
		{text: "eyJ", min: 20, dots: true, jwt: true},
	}
})

func (p prefix) redact(s string) string {
	at := strings.Index(s, p.text)
	if at < 0 {
		return s
	}

	var b strings.Builder
	done := 0
	for at >= 0 {
		end := at + len(p.text)
		for end < len(s) && (keyByte(s[end]) || p.dots && (s[end] == '.' || s[end] == '*')) {
			end++
		}

		value := strings.TrimRight(s[at:end], ".")
		end = at + len(value)
		if inWord := at > 0 && keyByte(s[at-1]) && s[at-1] != '-'; inWord || !p.fits(value) {
			b.WriteString(s[done:end])
		} else {
			b.WriteString(s[done:at])
			b.WriteString(redacted)
		}

		done = end
		if at = strings.Index(s[end:], p.text); at >= 0 {
			at += end
		}
	}

	b.WriteString(s[done:])
	return b.String()
}

// fits reports whether a text that begins with the prefix can be a key.
func (p prefix) fits(value string) bool {
	rest := value[len(p.text):]
	switch {
	case len(rest) < p.min, p.jwt && strings.Count(rest, ".") != 2:
		return false
	case p.mixed:
		return strings.ContainsAny(rest, "0123456789*ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	}
	return true
}

func keyByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// redactBotTokens finds Telegram's form: a number, a colon and 35 characters.
func redactBotTokens(s string) string {
	var b strings.Builder
	done := 0
	for at := strings.IndexByte(s, ':'); at >= 0; {
		start, end := at, at+1
		for start > done && s[start-1] >= '0' && s[start-1] <= '9' {
			start--
		}

		if at-start >= 6 {
			for end < len(s) && keyByte(s[end]) {
				end++
			}
		}

		if end-at-1 >= 30 {
			b.WriteString(s[done:start])
			b.WriteString(redacted)
			done = end
		}

		next := strings.IndexByte(s[end:], ':')
		if next < 0 {
			break
		}
		at = end + next
	}

	if done == 0 {
		return s
	}

	b.WriteString(s[done:])
	return b.String()
}

// redactPEM removes private keys, also those that are cut off.
func redactPEM(s string) string {
	const begin, end = "-----BEGIN ", "-----END "
	var b strings.Builder
	done := 0
	for at := strings.Index(s, begin); at >= 0; {
		label, _, ok := strings.Cut(s[at+len(begin):min(len(s), at+80)], "-----")
		next := at + len(begin)
		if ok && strings.Contains(label, "PRIVATE KEY") {
			stop := len(s)
			if i := strings.Index(s[next:], end); i >= 0 {
				stop = next + i + len(end)
				if j := strings.Index(s[stop:], "-----"); j >= 0 {
					stop += j + 5
				}
			}

			b.WriteString(s[done:at])
			b.WriteString(redacted)
			done, next = stop, stop
		}

		i := strings.Index(s[next:], begin)
		if i < 0 {
			break
		}
		at = next + i
	}

	if done == 0 {
		return s
	}

	b.WriteString(s[done:])
	return b.String()
}

var namedSecret = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)((?:\bbearer\s+|["']?(?:x[-_]?)?(?:access[-_]?token|api[-_]?key|authorization|id[-_]?token|refresh[-_]?token|client[-_]?secret|password)\\?["']?\s*[:=]\s*\\?["']?(?:bearer\s+|basic\s+)?))[A-Za-z0-9._~+/=*-]{6,}`)
})

// mayNameSecret is a cheap look before the expression is tried.
func mayNameSecret(s string) bool {
	for _, w := range []string{
		"earer", "EARER", "oken", "OKEN", "key", "Key", "KEY", "uthoriz", "UTHORIZ", "ecret", "ECRET", "assword", "ASSWORD",
	} {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// cleanURLs cuts addresses that carry credentials down to their origin.
func cleanURLs(s string) string {
	at := strings.Index(s, "://")
	if at < 0 {
		return s
	}

	var b strings.Builder
	done := 0
	for at >= 0 {
		start, end := at, at+3
		for start > done && keyByte(s[start-1]) {
			start--
		}

		for end < len(s) && urlByte(s[end]) {
			end++
		}

		if clean, ok := credentialOrigin(s[start:end]); ok {
			b.WriteString(s[done:start])
			b.WriteString(clean)
			done = end
		}

		next := strings.Index(s[end:], "://")
		if next < 0 {
			break
		}
		at = end + next
	}

	if done == 0 {
		return s
	}

	b.WriteString(s[done:])
	return b.String()
}

func urlByte(c byte) bool {
	switch c {
	case '"', '\'', '`', '<', '>', '|', '\\', '^', '{', '}':
		return false
	}
	return c > ' '
}

// credentialOrigin returns the origin of an address that carries credentials.
func credentialOrigin(raw string) (string, bool) {
	if !strings.ContainsAny(raw, "@?") && !strings.Contains(raw, "/bot") {
		return "", false
	}

	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		i := strings.Index(raw, "://")
		if strings.ContainsAny(raw, "@") { // unreadable, and there may be a password
			return raw[:i+3] + redacted, true
		}
		return "", false
	}

	secret := u.User != nil || strings.Contains(u.Path, "/bot") && strings.Contains(u.Path, ":")
	for key := range u.Query() {
		k := strings.ToLower(key)
		secret = secret || SecretName(k) || k == "sig" || k == "signature" || k == "code" || k == "state" || strings.HasPrefix(k, "x-amz-")
	}

	if !secret {
		return "", false
	}
	return u.Scheme + "://" + u.Host + "/" + redacted, true
}
