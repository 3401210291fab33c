package config

import (
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Secrets lists every credential of the configuration with the dotted path of
// its setting, in the order of the file: the settings that are credentials by
// their type, and in sections that stay raw (chat platforms, MCP servers, extra
// headers) the texts whose name or look says so. It is for those who keep
// credentials out of logs and messages; settings that are empty are left out.
func (l *Loaded) Secrets() iter.Seq2[string, httpsafe.Secret] {
	return func(yield func(string, httpsafe.Secret) bool) {
		if l.state != nil && l.state.tree != nil {
			l.state.tree.secrets(rootPlace(l.state.sections), yield)
		}
	}
}

// secrets visits the credentials at and below p until yield has enough.
func (n *node) secrets(p place, yield func(string, httpsafe.Secret) bool) bool {
	for _, m := range n.members {
		c, ok := p.child(m.name, false)
		if !ok || m.val.unknown {
			c = p.at(m.name, nil, "")
		}
		if !m.val.secrets(c, yield) {
			return false
		}
	}

	for i, it := range n.items {
		c, ok := p.child(itoa(i), false)
		if !ok {
			c = p.at(itoa(i), nil, "")
		}

		if p.is("args") && i > 0 && secretFlag(n.items[i-1].text) && !strings.HasPrefix(it.text, "-") {
			if !yield(c.dotted(), httpsafe.NewSecret(it.text)) {
				return false
			}
			continue
		}

		if !it.secrets(c, yield) {
			return false
		}
	}

	if n.kind != '"' || n.text == "" {
		return true
	}

	v := p.credential(n.text)
	return v == "" || yield(p.dotted(), httpsafe.NewSecret(v))
}

func (p place) dotted() string { return strings.Join(p.path, ".") }

// is reports whether the last named part of the path has a name; the number of
// a list item is not one.
func (p place) is(names ...string) bool { return slices.Contains(names, fold(p.named())) }

func (p place) named() string {
	for _, part := range slices.Backward(p.path) {
		if strings.Trim(part, "0123456789") != "" {
			return part
		}
	}
	return ""
}

func secretFlag(arg string) bool {
	return strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") && httpsafe.SecretName(arg)
}

// credential returns the part of a text at p that is one. Unlike what is hidden from
// view it must not be generous: what is found here is removed wherever it
// appears. So of headers, variables and arguments, where anything can stand,
// only those count that look like it or are called so, and identifiers and
// names of models never do.
func (p place) credential(text string) string {
	look := looksSecret(text) || credentialURL(text)
	switch {
	case p.typ == reflect.TypeFor[httpsafe.Secret]():
		open := len(p.path) > 1 && slices.ContainsFunc(p.path[:len(p.path)-1], openMap)
		if open && !look && !httpsafe.SecretName(p.named()) {
			return ""
		}
		return text

	case credentialURL(text):
		return text
	case !p.free():
		return ""
	case p.is("args"):
		if name, value, ok := strings.Cut(text, "="); ok && httpsafe.SecretName(name) {
			return value
		}
	case httpsafe.SecretName(p.named()):
		return text
	}

	if look && !identifier(fold(p.named())) {
		return text
	}
	return ""
}

// identifier reports names of settings that hold long texts which are no
// secret.
func identifier(name string) bool {
	for _, end := range []string{"id", "ids", "from", "owners", "users", "name", "model", "path", "dir", "file", "email", "number", "emoji", "prefix", "version", "caps"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// openMap reports settings whose entries have names of the user's choice.
func openMap(name string) bool {
	switch fold(name) {
	case "extraheaders", "extraquery":
		return true
	}
	return false
}
