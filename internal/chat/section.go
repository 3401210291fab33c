package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// Common are the settings every platform has. A platform's own settings embed
// it, and Decode fills both.
type Common struct {
	Enabled bool `json:"enabled" doc:"Connect to this platform."`
	access.Lists
	Streaming          *bool    `json:"streaming" doc:"Show answers while they grow, where the platform can; on if unset."`
	SendProgress       *bool    `json:"sendProgress" doc:"Replaces channels.sendProgress."`
	SendToolHints      *bool    `json:"sendToolHints" doc:"Replaces channels.sendToolHints."`
	ShowReasoning      *bool    `json:"showReasoning" doc:"Replaces channels.showReasoning."`
	RestartBackoffMaxS int      `json:"restartBackoffMaxS" min:"1" doc:"Longest pause between reconnects, in seconds."`
	Proxy              string   `json:"proxy" doc:"Proxy for this platform (http, https or socks5); empty uses the one of the environment."`
	MaxMediaBytes      int64    `json:"maxMediaBytes" min:"0" doc:"Largest file that is accepted, in bytes."`
	Language           Language `json:"language" enum:"en|zh" doc:"Language of what nanobot itself says in chats, such as replies to commands; empty follows the person's profile, else the platform."`
}

const (
	mediaMax   = 20 << 20 // bytes of one file that comes in, unless the section says otherwise
	backoffMax = 300 * time.Second
)

// MediaLimit returns how many bytes of one file are accepted.
func (c *Common) MediaLimit() int64 {
	if c.MaxMediaBytes > 0 {
		return c.MaxMediaBytes
	}
	return mediaMax
}

// LongestPause returns the longest one between two starts of a channel that fails.
func (c *Common) LongestPause() time.Duration {
	if c.RestartBackoffMaxS > 0 {
		return time.Duration(c.RestartBackoffMaxS) * time.Second
	}
	return backoffMax
}

// Language is that of what nanobot itself says; "" leaves it open.
type Language string

// UnmarshalJSON implements json.Unmarshaler: an unknown language is an error.
func (l *Language) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("language: %w", err)
	}
	if s != "" && phrase.Language(s) != s {
		return fmt.Errorf("language: %q must be %s or %s", s, phrase.English, phrase.Chinese)
	}
	*l = Language(s)
	return nil
}

// ErrUnknownKey is the error of a section that has a key its platform does not know.
var ErrUnknownKey = errors.New("unknown key")

// checked are settings that bring themselves into one form, and say which one is
// wrong or missing.
type checked interface{ Check() error }

// Read fills settings, which hold the defaults already, from a section as Decode
// does, and checks them.
func Read[S checked](section json.RawMessage, settings S) (S, error) {
	if err := Decode(section, settings); err != nil {
		return settings, err
	}
	if err := settings.Check(); err != nil {
		return settings, Fatal(err)
	}
	return settings, nil
}

// Decode fills a struct, which holds the defaults already, from a section.
// A key it does not know is an error that names the nearest one. Numbers and
// switches may be written as text, which is all that environment variables can
// do, and text as a number. No error shows a value, since it may be a secret.
func Decode(section json.RawMessage, into any) error { return decode(section, into, false) }

// DecodeCommon fills what every channel has and leaves the rest to its own
// decoder.
func DecodeCommon(section json.RawMessage, into *Common) error { return decode(section, into, true) }

func decode(section json.RawMessage, into any, others bool) error {
	if len(bytes.TrimSpace(section)) == 0 {
		section = json.RawMessage("{}")
	}

	var keys map[string]json.RawMessage
	if err := json.Unmarshal(section, &keys); err != nil {
		return Fatal(fmt.Errorf("the section is not a JSON object: %w", err))
	}

	known := fields(reflect.ValueOf(into).Elem())
	for _, k := range slices.Sorted(maps.Keys(keys)) { // the same one each time
		field, ok := known[k]
		switch {
		case !ok && others:
			continue
		case !ok:
			return Fatal(fmt.Errorf("%w %q%s", ErrUnknownKey, k, hint(k, known)))
		}

		err := json.Unmarshal(relaxed(keys[k], field.Type()), field.Addr().Interface())
		if others && k == "groupPolicy" {
			continue // a platform may have policies of its own: it says whether this is one
		}
		if err != nil {
			return Fatal(mismatch(k, err))
		}
	}

	return nil
}

// relaxed returns a value in the form a field of this type takes, where there is one.
func relaxed(v json.RawMessage, t reflect.Type) json.RawMessage {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	word := strings.ToLower(strings.Trim(string(v), " \t\r\n\""))
	switch t.Kind() {
	case reflect.Bool:
		switch strings.Trim(word, "[] \t\r\n") { // version 0.1.5 of Python nanobot wrote [false] for a switch of Matrix
		case "true", "1", "yes", "on", "t", "y":
			return json.RawMessage("true")
		case "false", "0", "no", "off", "f", "n":
			return json.RawMessage("false")
		}

	case reflect.Int, reflect.Int64:
		if f, err := strconv.ParseFloat(word, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return strconv.AppendInt(nil, int64(f), 10)
		}
	case reflect.Float64:
		if f, err := strconv.ParseFloat(word, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return strconv.AppendFloat(nil, f, 'g', -1, 64)
		}
	case reflect.String:
		if json.Valid(v) && len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') {
			return slices.Concat([]byte{'"'}, v, []byte{'"'})
		}
	}

	return v
}

// mismatch says what a key needs instead.
func mismatch(key string, err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok && strings.HasPrefix(err.Error(), key+":"):
		return err
	case !ok:
		return fmt.Errorf("%s: %w", key, err)
	}

	if wrong.Field != "" {
		key += "." + wrong.Field
	}

	need := "something else"
	switch wrong.Type.Kind() {
	case reflect.Bool:
		need = "true or false"
	case reflect.Int, reflect.Int64:
		need = "a whole number"
	case reflect.Float64:
		need = "a number"
	case reflect.String:
		need = "a text"
	case reflect.Slice:
		need = "a list"
	case reflect.Struct, reflect.Map:
		need = "an object"
	}

	return fmt.Errorf("%s: %s is needed", key, need)
}

// fields returns those of a struct by their JSON names, with those of embedded ones.
func fields(v reflect.Value) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for f, val := range v.Fields() {
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			maps.Copy(out, fields(val))
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			out[name] = val
		}
	}

	return out
}

// hint names the known key that is nearest.
func hint(key string, known map[string]reflect.Value) string {
	if best := text.Nearest(key, slices.Sorted(maps.Keys(known))); best != "" {
		return fmt.Sprintf(", did you mean %q?", best)
	}
	return ""
}
