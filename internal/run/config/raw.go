package config

import (
	"encoding/json"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Raw is a part of the configuration that another package decodes. It may hold
// credentials, so every way of printing or marshalling it shows the structure
// with texts under credential-like names replaced by "***"; JSON reveals it.
type Raw struct{ tree *node }

// JSON returns the part as compact JSON, nil when it is unset. Hand it only to the
// code that decodes it.
func (r Raw) JSON() json.RawMessage {
	if r.tree == nil {
		return nil
	}
	return r.tree.appendJSON(nil)
}

// IsZero reports whether the part is unset.
func (r Raw) IsZero() bool { return r.tree == nil }

// String implements fmt.Stringer without revealing credentials.
func (r Raw) String() string {
	if r.tree == nil {
		return ""
	}
	return string(r.tree.masked(place{}).appendJSON(nil))
}

// GoString implements fmt.GoStringer without revealing credentials.
func (r Raw) GoString() string { return "config.Raw(" + r.String() + ")" }

// LogValue implements slog.LogValuer without revealing credentials.
func (r Raw) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalJSON writes the masked form.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r.tree == nil {
		return []byte("null"), nil
	}
	return []byte(r.String()), nil
}

const mask = "***"

// sensitive reports whether a free-form key names something to hide. Whole
// header and environment maps are hidden, since any of their keys may be one.
func sensitive(key string) bool {
	k := fold(key)
	switch k {
	case "headers", "extraheaders", "env", "cookie", "cookies", "auth", "extraquery", "args":
		return true
	}

	for _, w := range []string{"token", "secret", "password", "passwd", "credential", "authorization", "apikey", "proxy", "webhook"} {
		if strings.Contains(k, w) {
			return true
		}
	}
	return strings.HasSuffix(k, "key")
}

// masked returns a copy with credentials replaced: by type where the setting is
// known, by key in free-form JSON and under unknown keys. Addresses with a
// user part or query are hidden wherever they stand. Numbers and switches given
// as text get their usual form.
func (n *node) masked(p place) *node {
	out := &node{kind: n.kind, text: n.text}
	for _, m := range n.members {
		c, ok := p.child(m.name, false)
		if !ok || m.val.unknown { // a mistyped key may hold what its neighbour should
			c = p.at("unknownkey", nil, "")
		} else if p.hidden() {
			c = p.at(m.name, nil, "")
		}
		out.members = append(out.members, member{name: m.name, val: m.val.masked(c)})
	}

	for i, it := range n.items {
		c, ok := p.child(itoa(i), false)
		if !ok {
			c = p.at(itoa(i), nil, "")
		}
		out.items = append(out.items, it.masked(c))
	}

	if n.kind != '"' || n.text == "" {
		return out
	}
	if p.hidden() || credentialURL(n.text) || p.free() && looksSecret(n.text) {
		out.text = mask
		return out
	}

	out.natural(p)
	return out
}

// hidden reports whether a text at p is shown as "***".
func (p place) hidden() bool {
	if p.typ == reflect.TypeFor[httpsafe.Secret]() {
		return true
	}
	return p.free() && slices.ContainsFunc(p.path, sensitive)
}

// natural gives a number or switch that was written as text its JSON form.
func (n *node) natural(p place) {
	if p.typ == nil || n.kind != '"' {
		return
	}

	t := p.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	switch t.Kind() {
	case reflect.Bool:
		if b, ok := boolOf(n); ok {
			n.kind, n.text = 'f', "false"
			if b {
				n.kind, n.text = 't', "true"
			}
		}
	case reflect.Int, reflect.Int64, reflect.Float64:
		if f, ok := numberOf(n); ok {
			n.kind, n.text = '0', strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
}

// credentialURL reports whether a text is an address with a user part or a
// query, both of which often carry credentials.
func credentialURL(s string) bool {
	_, rest, ok := strings.Cut(s, "://")
	return ok && strings.ContainsAny(rest, "@?")
}

// looksSecret reports whether a free-form text has the form of a key: one of
// the usual prefixes, or a long mixture of letters and digits.
func looksSecret(s string) bool {
	for _, prefix := range []string{"sk-", "sk_", "gsk_", "xox", "xapp-", "AIza", "ghp_", "nvapi-", "hf_", "xai-", "Bearer "} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return len(s) >= 24 && !strings.ContainsAny(s, " ./@") &&
		strings.ContainsAny(s, "0123456789") && strings.ContainsFunc(s, unicode.IsLetter)
}
