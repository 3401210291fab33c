package backup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// withoutSecrets returns the text of a configuration with empty texts in place of
// credentials, and the settings where that was done. References such as
// ${KEY} stay. Comments go, because keys are kept there, too.
func withoutSecrets(l *config.Loaded, text []byte) ([]byte, []string, error) {
	v, err := hujson.Parse(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	if err != nil {
		return nil, nil, fmt.Errorf("the configuration is not valid JSON: %w; repair it, or include it unchanged with --with-secrets", err)
	}

	v.Standardize()
	v.Minimize()
	c := cleaner{}
	for _, s := range l.Secrets() {
		c.known = append(c.known, s.Reveal())
	}

	c.value(&v, nil)
	var out bytes.Buffer
	if err := json.Indent(&out, v.Pack(), "", "  "); err != nil {
		return nil, nil, err
	}

	out.WriteByte('\n')
	return out.Bytes(), c.blank, nil
}

// cleaner empties the texts of a JSON value that are or hold credentials.
type cleaner struct {
	known []string
	blank []string
}

func (c *cleaner) value(v *hujson.Value, at []string) {
	switch x := v.Value.(type) {
	case *hujson.Object:
		for i := range x.Members {
			m := &x.Members[i]
			name, _ := m.Name.Value.(hujson.Literal)
			c.value(&m.Value, append(slices.Clip(at), name.String()))
		}

	case *hujson.Array:
		for i := range x.Elements {
			c.value(&x.Elements[i], append(slices.Clip(at), strconv.Itoa(i)))
		}
	case hujson.Literal:
		if x.Kind() == '"' && c.secret(at, x.String()) {
			v.Value = hujson.String("")
			c.blank = append(c.blank, strings.Join(at, "."))
		}
	}
}

// secret reports whether a text must not leave this machine.
func (c *cleaner) secret(at []string, text string) bool {
	text = strings.TrimSpace(withoutReferences(text))
	if text == "" || slices.Contains([]string{"Bearer", "Basic", "Token", "Bot"}, text) {
		return false
	}

	for _, s := range c.known {
		if s == text || len(s) >= 6 && strings.Contains(text, s) {
			return true
		}
	}

	name := ""
	for _, part := range slices.Backward(at) {
		if strings.Trim(part, "0123456789") != "" {
			name = part
			break
		}
	}
	return httpsafe.SecretName(name) || httpsafe.RedactPatterns(text) != text
}

// withoutReferences cuts ${...} out of a text.
func withoutReferences(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}

		_, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString(rest)
			return b.String()
		}
		s = after
	}
}
