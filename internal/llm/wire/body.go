package wire

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Extra is the extraBody of a provider, in the order of its keys, so that requests
// are byte-stable.
type Extra []extraField

type extraField struct {
	key   string
	value json.RawMessage
}

// ParseExtra reads an extraBody without the keys that are not the user's to set.
func ParseExtra(raw json.RawMessage, ours ...string) (Extra, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}

	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, &llm.Error{Kind: llm.Configuration, Message: "extraBody must be a JSON object", Err: errors.Unwrap(err)}
	}

	for _, k := range ours {
		delete(m, k)
	}

	fields := make(Extra, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, extraField{k, m[k]})
	}
	return fields, nil
}

// Has reports whether the user has set a field.
func (x Extra) Has(key string) bool {
	return slices.ContainsFunc(x, func(f extraField) bool { return f.key == key })
}

// Body writes the fields of a request and merges the user's extra ones into them.
// The caller adds the closing brace.
type Body struct {
	B     []byte
	extra Extra
	used  []bool
}

// NewBody begins a request of about size bytes.
func NewBody(size int, extra Extra) *Body {
	w := &Body{B: append(make([]byte, 0, size), '{'), extra: extra}
	if len(extra) > 0 {
		w.used = make([]bool, len(extra))
	}
	return w
}

// Field writes one field whose value add appends.
func (w *Body) Field(key string, add func(b []byte) []byte) {
	w.Name(key)
	start := len(w.B)
	w.B = add(w.B)
	for i, x := range w.extra {
		if x.key == key {
			w.used[i] = true
			w.B = append(w.B[:start], merge(key, w.B[start:], x.value)...)
		}
	}
}

// Name writes the name of a field whose value the caller appends.
func (w *Body) Name(key string) {
	if len(w.B) > 1 {
		w.B = append(w.B, ',')
	}
	w.B = text.AppendJSON(w.B, key)
	w.B = append(w.B, ':')
}

// Raw writes one field whose value is JSON.
func (w *Body) Raw(key, value string) {
	w.Field(key, func(b []byte) []byte { return append(b, value...) })
}

// Text writes one field whose value is a text.
func (w *Body) Text(key, value string) {
	w.Field(key, func(b []byte) []byte { return text.AppendJSON(b, value) })
}

// Extra writes the extra fields that are not merged into one of ours.
func (w *Body) Extra(later ...string) {
	for i, x := range w.extra {
		if !w.used[i] && !slices.Contains(later, x.key) {
			w.used[i] = true
			w.Name(x.key)
			w.B = append(w.B, x.value...)
		}
	}
}

// merge puts the user's value over ours: objects are merged key by key, a list
// of tools is appended, anything else replaces. Keys come out sorted, so the
// result is byte-stable.
func merge(key string, ours, theirs json.RawMessage) json.RawMessage {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(ours, &a) == nil && json.Unmarshal(theirs, &b) == nil && a != nil && b != nil {
		for k, v := range b {
			if old, ok := a[k]; ok {
				v = merge(k, old, v)
			}
			a[k] = v
		}
		if out, err := json.Marshal(a); err == nil {
			return out
		}
	}

	var la, lb []json.RawMessage
	if key == "tools" && json.Unmarshal(ours, &la) == nil && json.Unmarshal(theirs, &lb) == nil {
		if out, err := json.Marshal(append(la, lb...)); err == nil {
			return out
		}
	}
	return slices.Clone(theirs)
}
