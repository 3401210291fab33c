package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// scrubber takes secrets out of everything that is written.
type scrubber struct {
	known  []httpsafe.Secret
	redact func(string) string // nil: nothing further
}

// newScrubber also knows how each secret looks inside JSON text, such as the
// arguments of a call.
func newScrubber(secrets []httpsafe.Secret) scrubber {
	var s scrubber
	for _, k := range secrets {
		if k.IsZero() {
			continue
		}
		s.known = append(s.known, k)
		quoted := string(text.AppendJSON(nil, k.Reveal()))
		if inner := quoted[1 : len(quoted)-1]; inner != k.Reveal() {
			s.known = append(s.known, httpsafe.NewSecret(inner))
		}
	}

	return s
}

func (s scrubber) text(v string) string {
	if s.redact != nil {
		v = s.redact(v)
	}
	return httpsafe.RedactSecrets(v, s.known...)
}

// line encodes a value without its secrets, newline included.
func (s scrubber) line(v any) ([]byte, error) {
	tree, err := toTree(v)
	if err != nil {
		return nil, err
	}

	m, ok := s.tree("", tree).(map[string]any)
	if !ok {
		return nil, errors.New("a line is an object")
	}

	b, err := plainJSON(typed{m})
	return append(b, '\n'), err
}

// typed is an object whose "type" is written first, where people look for it.
type typed struct{ m map[string]any }

// MarshalJSON implements json.Marshaler.
func (t typed) MarshalJSON() ([]byte, error) {
	kind, err := plainJSON(t.m["type"])
	if err != nil {
		return nil, err
	}

	delete(t.m, "type")
	rest, err := plainJSON(t.m)
	if err != nil {
		return nil, err
	}

	out := append([]byte(`{"type":`), kind...)
	if len(t.m) > 0 {
		out = append(out, ',')
	}
	return append(out, rest[1:]...), nil
}

// plainJSON encodes without HTML escapes.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// toTree returns the value as JSON sees it, numbers kept as written.
func toTree(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var tree any
	err = dec.Decode(&tree)
	return tree, err
}

// tree cleans every text in a JSON value. key is the name the value has.
func (s scrubber) tree(key string, v any) any {
	switch t := v.(type) {
	case string:
		return s.field(key, t)
	case []any:
		for i := range t {
			t[i] = s.tree(key, t[i])
		}
	case map[string]any:
		for k := range t {
			t[k] = s.tree(k, t[k])
		}
	}
	return v
}

// field cleans a text by itself and by the name it goes under: {"api_key": "x"}
// is a secret although "x" alone is not known as one. Pictures stay as they
// are, because their bytes can look like anything.
func (s scrubber) field(key, v string) string {
	if key == "url" && strings.HasPrefix(v, "data:image/") && !strings.ContainsAny(v, " \n") {
		return v
	}

	clean := s.text(v)
	if strings.ContainsAny(v, " \n") {
		return clean // a sentence
	}
	if named := key + "=" + clean; httpsafe.RedactSecrets(named) != named {
		return "***"
	}
	return clean
}
