package httpsafe

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
)

// minSecret is the length in bytes below which a value is not looked for: it
// would be found in ordinary text.
const minSecret = 8

// Registry knows the values of live credentials and finds them in text: as
// they are, and in the forms they take inside URLs, JSON, base64 and hex. It
// feeds the log, the check of outgoing text and the cleaning of tool results.
// The zero value is empty, finds nothing and costs nothing. Safe for concurrent
// use; Add may come at any time, for example when a token was renewed.
type Registry struct {
	matcher atomic.Pointer[matcher] // nil: build before use

	mu      sync.Mutex
	values  map[string]string // value to name
	skipped map[string]string // name to reason
}

// Add registers a credential under the name that replaces it. A value that is
// too short or too ordinary to be searched for is left out, and the reason is
// returned; so is nothing for an empty one. Of an address only the parts that
// are secret count, of a header such as "Bearer x" also the part after the
// scheme, of a text with several lines also each long line. The first name of
// a value stays.
func (r *Registry) Add(name string, s Secret) (skipped string) {
	v := strings.TrimSpace(s.Reveal())
	if v == "" {
		return ""
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	parts := secretParts(v)
	for _, p := range parts {
		if why := ordinary(p); why != "" {
			skipped = why
			continue
		}
		if strings.Contains(marker(name), p) {
			skipped = "the same as its name"
			continue
		}
		if _, known := r.values[p]; known {
			continue
		}

		if r.values == nil {
			r.values = map[string]string{}
		}

		r.values[p] = name
		r.matcher.Store(nil)
	}

	if len(parts) == 0 {
		skipped = "an address without credentials"
	}

	if skipped != "" {
		if r.skipped == nil {
			r.skipped = map[string]string{}
		}
		r.skipped[name] = skipped
	}
	return skipped
}

// AddEnv registers the variables of an environment, given in the form of
// os.Environ, whose names say that they hold a credential.
func (r *Registry) AddEnv(environ []string) {
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && SecretName(name) {
			r.Add("env."+name, NewSecret(value))
		}
	}
}

// Skipped lists the names that were given but are not looked for, with the
// reason; they deserve a stronger value.
func (r *Registry) Skipped() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.skipped)
}

// find returns the matcher, nil when nothing is registered.
func (r *Registry) find() *matcher {
	if r == nil {
		return nil
	}
	if m := r.matcher.Load(); m != nil {
		return m.orNil()
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	m := r.matcher.Load()
	if m == nil {
		m = newMatcher(r.values)
		r.matcher.Store(m)
	}
	return m.orNil()
}

// Redact replaces every registered value by "[redacted:<name>]". Text without
// one is returned as it is. Nothing is guessed: what is not registered stays.
func (r *Registry) Redact(s string) string {
	m := r.find()
	if m == nil {
		return s
	}

	start, end, name, ok := m.span(s, 0)
	if !ok {
		return s
	}

	var b strings.Builder
	b.Grow(len(s))
	at := 0
	for ok {
		b.WriteString(s[at:start])
		b.WriteString(marker(name))
		at = end
		start, end, name, ok = m.span(s, at)
	}

	b.WriteString(s[at:])
	return b.String()
}

// RedactJSON is Redact for JSON that a program reads again, which stays valid: where a
// value begins in the middle of an escape, its string is written again.
func (r *Registry) RedactJSON(data json.RawMessage) json.RawMessage {
	clean := r.Redact(string(data))
	if clean == string(data) {
		return data
	}
	if json.Valid([]byte(clean)) {
		return json.RawMessage(clean)
	}

	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) == nil {
		if again, err := json.Marshal(r.redactIn(v)); err == nil {
			return again
		}
	}
	return json.RawMessage(`"` + redacted + `"`) // it was not JSON
}

// redactIn redacts the strings of a decoded JSON value.
func (r *Registry) redactIn(v any) any {
	switch v := v.(type) {
	case string:
		return r.Redact(v)
	case []any:
		for i := range v {
			v[i] = r.redactIn(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[r.Redact(name)] = r.redactIn(value)
		}
		return out
	}
	return v
}

// Scrub is Redact followed by RedactPatterns, for text that no program reads
// again: logs, errors, reports.
func (r *Registry) Scrub(s string) string { return RedactPatterns(r.Redact(s)) }

// Leaks reports whether a text contains a registered value, and its name. It
// also looks behind percent and \u escapes that hide single characters.
func (r *Registry) Leaks(s string) (name string, found bool) {
	m := r.find()
	if m == nil {
		return "", false
	}

	for _, form := range []string{s, percentDecoded(s), unicodeDecoded(s)} {
		if form == "" {
			continue
		}
		if at, n := m.next(form, 0); at >= 0 {
			return n.name, true
		}
	}

	return "", false
}

func marker(name string) string { return "[redacted:" + name + "]" }

// SecretName reports whether the name of a variable, header or field says that
// its value is a credential.
func SecretName(name string) bool {
	k := strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	for _, w := range []string{
		"token", "secret", "password", "passwd", "passphrase", "credential", "authorization", "apikey", "accesskey",
		"privatekey", "cookie", "webhookurl", "connectionstring",
	} {
		if strings.Contains(k, w) && !strings.HasSuffix(k, "tokens") {
			return true
		}
	}

	return strings.HasSuffix(k, "key") || k == "auth" || k == "pass" || k == "pat"
}

// secretParts returns the texts that must not appear because v is a credential.
func secretParts(v string) []string {
	if u, err := url.Parse(v); err == nil && u.Host != "" && strings.Contains(v, "://") {
		return urlSecrets(u, v)
	}

	parts := []string{v}
	if scheme, rest, ok := strings.Cut(v, " "); ok && len(scheme) <= 10 {
		switch strings.ToLower(scheme) {
		case "bearer", "basic", "token", "bot", "apikey", "key":
			parts = append(parts, strings.TrimSpace(rest))
		}
	}

	if strings.Contains(v, "\n") {
		for line := range strings.Lines(v) {
			line = strings.TrimSpace(line)
			if len(line) >= 16 && !strings.HasPrefix(line, "-----") {
				parts = append(parts, line)
			}
		}
	}

	return parts
}

// urlSecrets returns the password, the values of the query and, for addresses that
// are a credential by their path (webhooks), the long parts of it.
func urlSecrets(u *url.URL, whole string) (parts []string) {
	if p, ok := u.User.Password(); ok {
		parts = append(parts, p)
	} else if u.User != nil && len(u.User.Username()) >= 16 {
		parts = append(parts, u.User.Username())
	}

	for key, values := range u.Query() {
		for _, v := range values {
			if SecretName(key) || len(v) >= 16 {
				parts = append(parts, v)
			}
		}
	}

	for seg := range strings.SplitSeq(u.Path, "/") {
		if len(seg) >= 20 && strings.ContainsAny(seg, "0123456789") {
			parts = append(parts, strings.TrimPrefix(seg, "bot"))
		}
	}

	if len(parts) > 0 && len(whole) <= 512 {
		parts = append(parts, whole)
	}
	return parts
}

// ordinary says why a value cannot be searched for: replacing it would damage
// text that has nothing to do with it.
func ordinary(v string) string {
	if len(v) < minSecret {
		return "shorter than 8 characters"
	}

	var seen [256]bool
	var distinct, digits, lower, upper, other, separators int
	for i := range len(v) {
		c := v[i]
		if !seen[c] {
			seen[c] = true
			distinct++
		}

		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
		case strings.IndexByte("-_ ./:,<>${}", c) >= 0:
			separators++
		default:
			other++
		}
	}

	oneCase := lower == 0 || upper == 0 || upper == 1 && v[0] >= 'A' && v[0] <= 'Z'
	switch {
	case distinct < 5:
		return "made of fewer than 5 different characters"
	case digits == len(v) && len(v) < 12:
		return "a short number"
	case digits == 0 && other == 0 && oneCase && (separators == 0 && len(v) < 12 || separators > 0 && len(v) < 20):
		return "looks like an ordinary word"
	case slices.Contains([]string{"12345678", "123456789", "1234567890", "password1", "password123", "changeme1", "localhost"}, strings.ToLower(v)):
		return "a placeholder"
	}

	return ""
}
