package channel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/text"
)

// Common are the settings every platform has. A platform's own settings embed
// it, and Decode fills both.
type Common struct {
	Enabled            bool     `json:"enabled"`
	AllowFrom          []string `json:"allowFrom"`
	Owners             []string `json:"owners"`
	GroupPolicy        Policy   `json:"groupPolicy"`
	GroupAllowFrom     []string `json:"groupAllowFrom"`
	Streaming          *bool    `json:"streaming"`
	SendProgress       *bool    `json:"sendProgress"`
	SendToolHints      *bool    `json:"sendToolHints"`
	ShowReasoning      *bool    `json:"showReasoning"`
	NotifyDenied       bool     `json:"notifyDenied"`
	RestartBackoffMaxS int      `json:"restartBackoffMaxS"`
	Proxy              string   `json:"proxy"`
	MaxMediaBytes      int64    `json:"maxMediaBytes"`
}

// Policy says which messages of groups are for us.
type Policy string

// The policies. The empty one is the platform's usual one.
const (
	Mention   Policy = "mention"   // only what names us or answers us
	Open      Policy = "open"      // all that allowed people write
	Allowlist Policy = "allowlist" // only in the chats of groupAllowFrom
)

// UnmarshalJSON implements json.Unmarshaler: an unknown policy is an error,
// never a silent refusal.
func (p *Policy) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("groupPolicy: %w", err)
	}
	switch v := Policy(s); v {
	case "", Mention, Open, Allowlist:
		*p = v
		return nil
	}
	return fmt.Errorf("groupPolicy: %q is none of mention, open, allowlist", s)
}

// Decode fills a struct, which holds the defaults already, from a section.
// A key it does not know is an error that names the nearest one.
func Decode(section json.RawMessage, into any) error {
	if len(bytes.TrimSpace(section)) == 0 {
		section = json.RawMessage("{}")
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(section, &keys); err != nil {
		return Fatal(fmt.Errorf("the section is no JSON object: %w", err))
	}
	known := fields(reflect.TypeOf(into).Elem())
	for _, k := range slices.Sorted(maps.Keys(keys)) { // the same one each time
		if !known[k] {
			return Fatal(fmt.Errorf("unknown key %q%s", k, hint(k, known)))
		}
	}
	if err := json.Unmarshal(section, into); err != nil {
		return Fatal(err)
	}
	return nil
}

// fields are the JSON names of a struct, with those of embedded ones.
func fields(t reflect.Type) map[string]bool {
	out := map[string]bool{}
	for f := range t.Fields() {
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			for name := range fields(f.Type) {
				out[name] = true
			}
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			out[name] = true
		}
	}
	return out
}

// hint names the known key that is nearest.
func hint(key string, known map[string]bool) string {
	if best := text.Nearest(key, slices.Sorted(maps.Keys(known))); best != "" {
		return fmt.Sprintf(", did you mean %q?", best)
	}
	return ""
}
