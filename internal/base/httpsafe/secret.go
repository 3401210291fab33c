package httpsafe

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"unique"
)

// redacted stands for a Secret in every printed form.
const redacted = "***"

// Secret holds a credential. Every way of printing, formatting, logging or
// marshalling it yields "***"; only Reveal returns the value, so each use of a
// secret is one grep away. Two secrets with one value are equal.
type Secret struct {
	// A handle, because fmt prints the unexported fields of a surrounding
	// struct without asking their methods: of a handle it shows an address.
	value unique.Handle[string]
}

// NewSecret wraps a credential.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{unique.Make(value)}
}

// Reveal returns the value. Call it only where the credential goes on the wire.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return s.value.Value()
}

// IsZero reports whether no credential is held.
func (s Secret) IsZero() bool { return s == Secret{} }

// String implements fmt.Stringer without revealing the value.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// Format implements fmt.Formatter, so that no verb reaches the value.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = s.GoString()
	case verb == 'q':
		text = strconv.Quote(text)
	}
	_, _ = io.WriteString(f, text)
}

// GoString implements fmt.GoStringer without revealing the value.
func (s Secret) GoString() string { return "httpsafe.Secret(" + s.String() + ")" }

// LogValue implements slog.LogValuer without revealing the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON writes the redacted form; secrets are saved by editing the raw
// configuration tree, never by marshalling this type.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads the value from a JSON string or null.
func (s *Secret) UnmarshalJSON(b []byte) error {
	var v *string
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if v != nil {
		*s = NewSecret(*v)
	}
	return nil
}
