package app

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/core/record"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// startRecording begins a file that nanobot replay can run again. It holds the
// files that are part of the prompt and the settings that shape it, but no key:
// everything that is a secret in the configuration or looks like one in the
// environment is removed wherever it appears. window is the one the prompt was
// fitted to.
func startRecording(file string, loaded *config.Loaded, workspace string, window int, o Options) (*record.Writer, error) {
	def := loaded.Config.Agents.Defaults
	settings := map[string]int{
		"maxTokens": def.MaxTokens, "contextWindowTokens": window, "contextBlockLimit": def.ContextBlockLimit,
		"maxToolIterations": def.MaxToolIterations, "maxToolResultChars": def.MaxToolResultChars,
		"limits.turnTokens": def.Limits.TurnTokens, "limits.turnToolCalls": def.Limits.TurnToolCalls,
	}

	h := record.Describe(o.Version, workspace)
	h.Settings = map[string]string{}
	for name, v := range settings {
		h.Settings["agents.defaults."+name] = strconv.Itoa(v)
	}

	ro := record.Options{Header: h, Secrets: append(secretsIn(reflect.ValueOf(loaded.Config)), envSecrets(o.Env)...)}
	if o.Secrets != nil {
		ro.Redact = o.Secrets.Redact // also base64 and other forms
	}
	return record.Create(file, ro)
}

// secretsIn finds every secret of a configuration, whatever it is for.
func secretsIn(v reflect.Value) []httpsafe.Secret {
	if v.IsValid() && v.CanInterface() {
		if s, ok := v.Interface().(httpsafe.Secret); ok {
			return []httpsafe.Secret{s}
		}
	}

	var out []httpsafe.Secret
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			out = secretsIn(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			out = append(out, secretsIn(field)...)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			out = append(out, secretsIn(v.Index(i))...)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			out = append(out, secretsIn(it.Value())...)
		}
	default:
	}

	return out
}

// envSecrets are the values of variables whose name says what they are. Short
// ones are left: removing every "1" would make the recording unreadable.
func envSecrets(env []string) []httpsafe.Secret {
	var out []httpsafe.Secret
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		name = strings.ToUpper(name)
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"} {
			if strings.Contains(name, word) && len(value) >= 8 && !strings.HasPrefix(value, "/") {
				out = append(out, httpsafe.NewSecret(value))
				break
			}
		}
	}

	return out
}
