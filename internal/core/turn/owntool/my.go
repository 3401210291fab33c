// Package owntool has the tools of the agent itself: message and ask_user for
// its conversation, my for its settings, and those about its goal. What they
// keep is metadata of the session.
package owntool

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// ownKey is the session metadata that holds what the my tool changed.
const ownKey = "_nanobot_my"

// own is what the model set for its own conversation. Zero means the
// configured value.
type own struct {
	MaxIterations int                        `json:"max_iterations,omitempty"`
	Window        int                        `json:"context_window_tokens,omitempty"`
	ResultChars   int                        `json:"max_tool_result_chars,omitempty"`
	Notes         map[string]json.RawMessage `json:"scratchpad,omitempty"`
	Clean         map[string]bool            `json:"clean,omitempty"` // notes of turns without words from outside
}

// The limits of what can be set.
const (
	ownNotes = 64       // entries of the scratchpad
	ownNote  = 16 << 10 // bytes of one
)

// apply changes the limits of a turn as the model asked for.
func (o *own) apply(l runner.Limits) runner.Limits {
	if o.MaxIterations > 0 {
		l.Iterations = o.MaxIterations
	}
	if o.ResultChars > 0 {
		l.ToolResultChars = o.ResultChars
	}
	return l
}

type myInput struct {
	Action string          `json:"action" enum:"check|set"`
	Key    string          `json:"key,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
}

// Settings are what the my tool shows and may change.
type Settings struct {
	Offer    bool
	AllowSet bool
	// Shown are further read-only values, such as how commands are contained.
	// They must not hold secrets.
	Shown map[string]string
	// Config are the paths of the configuration. A note under such a name would
	// look like a setting that was changed, so it is refused.
	Config func() []string
}

// PresetKey is the session metadata that holds the model preset of /model.
const PresetKey = "_nanobot_model_preset"

// PresetOf finds the model preset in the metadata of a session; "" is the usual
// model.
func PresetOf(meta map[string]json.RawMessage) (preset string) {
	_ = json.Unmarshal(meta[PresetKey], &preset) // what is no name is none
	return preset
}

// Conversation is what the my tool looks at.
type Conversation struct {
	Session *session.Session
	Values  map[string]any // flat names and values that the model may see
	Presets []string       // of models, besides "default"
	// Futile says why a number would change nothing here; "" if it would.
	Futile func(key string, n int) string
	// Try reports why a preset cannot be used.
	Try func(preset string) error
}

// My is the tool about the agent's settings and state: none, if it is not
// offered. Find returns the conversation of a call.
func My(o Settings, find func(ctx context.Context, c tool.Call) (Conversation, bool)) []tool.Tool {
	if !o.Offer {
		return nil
	}

	what := "Look at your own settings and state (no key: all of them)."
	if o.AllowSet {
		what += " set changes max_iterations, context_window_tokens, max_tool_result_chars or model_preset for this conversation, or keeps a note under any other key."
	}
	return []tool.Tool{tool.Func(tool.Tool{Name: "my", Trusted: true, Description: what, Sink: tool.SinkMemory},
		func(ctx context.Context, c tool.Call, in myInput) (tool.Result, error) {
			conv, ok := find(ctx, c)
			if !ok {
				return tool.Fail(tool.Unsupported, "there is no conversation to look at"), nil
			}

			t := looker{Conversation: conv, opts: o}
			if in.Action == "set" {
				return t.set(in.Key, in.Value, c.Tainted)
			}
			return t.check(in.Key)
		})}
}

// Limits are the limits of a turn as the model changed them for its session.
func Limits(s *session.Session, l runner.Limits) runner.Limits {
	var o own
	s.Meta(ownKey, &o)
	return o.apply(l)
}

// Window is how much of the model's window the session uses, in tokens; 0 is all
// of it. A window can be used less, not made larger.
func Window(s *session.Session) int {
	var o own
	s.Meta(ownKey, &o)
	return o.Window
}

// looker is one use of the my tool.
type looker struct {
	Conversation
	opts Settings
}

// snapshot is the state the model may see, as flat names and values.
func (t looker) snapshot() map[string]any {
	var o own
	t.Session.Meta(ownKey, &o)
	all := maps.Clone(t.Values)
	for k, v := range t.opts.Shown {
		all[k] = v
	}

	for k, v := range o.Notes {
		all["scratchpad."+k] = v
	}
	return all
}

// secretParts never appear in a key, whatever stands behind them.
func secretParts() []string {
	return []string{"api_key", "apikey", "secret", "password", "token", "credential", "private_key", "access_token", "refresh_token", "auth"}
}

func isSecretKey(key string) bool {
	for part := range strings.SplitSeq(strings.ToLower(key), ".") {
		if slices.Contains(secretParts(), part) {
			return true
		}
	}
	return false
}

func (t looker) check(key string) (tool.Result, error) {
	all := t.snapshot()
	if key == "" {
		b, err := json.MarshalIndent(all, "", " ")
		if err != nil {
			return tool.Result{}, fmt.Errorf("show settings: %w", err)
		}
		res := tool.Text(string(b))
		res.Untrusted = t.foreignNote("")
		return res, nil
	}

	if isSecretKey(key) {
		return tool.Fail(tool.DeniedPolicy, "%s is not shown", key), nil
	}

	v, ok := all[key]
	if !ok {
		v, ok = all["scratchpad."+key]
	}

	if !ok {
		return tool.Fail(tool.NotFound, "there is no %s; check without a key lists everything", key), nil
	}

	b, err := json.Marshal(v)
	if err != nil {
		return tool.Result{}, fmt.Errorf("show %s: %w", key, err)
	}

	res := tool.Text(string(b))
	res.Untrusted = t.foreignNote(key)
	return res, nil
}

// foreignNote reports whether a note was not kept by a clean turn; "" asks about
// all of them.
func (t looker) foreignNote(key string) bool {
	var o own
	t.Session.Meta(ownKey, &o)
	key = strings.TrimPrefix(key, "scratchpad.")
	for k := range o.Notes {
		if !o.Clean[k] && (key == "" || key == k) {
			return true
		}
	}
	return false
}

func (t looker) set(key string, value json.RawMessage, tainted bool) (tool.Result, error) {
	switch {
	case !t.opts.AllowSet:
		return tool.Fail(tool.DeniedPolicy, "settings cannot be changed here; the user may set tools.my.allowSet"), nil
	case key == "" || len(value) == 0:
		return tool.Fail(tool.InvalidArgs, "set needs key and value"), nil
	case isSecretKey(key):
		return tool.Fail(tool.DeniedPolicy, "%s cannot be set", key), nil
	}

	var o own
	t.Session.Meta(ownKey, &o)
	number := func(to *int, low, high int) *tool.Result {
		var n int
		if json.Unmarshal(value, &n) != nil || n < low || n > high {
			res := tool.Fail(tool.InvalidArgs, "%s must be a whole number from %d to %d", key, low, high)
			return &res
		}
		if why := t.Futile(key, n); why != "" {
			res := tool.Fail(tool.InvalidArgs, "%s is not set: %s", key, why)
			return &res
		}

		*to = n
		return nil
	}

	done := "%s is set, from the next turn on"
	var bad *tool.Result
	switch key = settable(key); key {
	case "max_iterations":
		bad = number(&o.MaxIterations, 1, 100)
	case "context_window_tokens":
		bad = number(&o.Window, 4096, 1_000_000)
	case "max_tool_result_chars":
		bad = number(&o.ResultChars, 1000, 200_000)
	case "model_preset":
		return t.setPreset(value)
	default:
		done = "%s is kept as a note of this conversation; it changes no setting"
		var config []string
		if t.opts.Config != nil {
			config = t.opts.Config()
		}
		bad = o.note(t.snapshot(), config, key, value, tainted)
	}

	if bad != nil {
		return *bad, nil
	}
	if err := t.Session.SetMeta(ownKey, o); err != nil {
		return tool.Result{}, fmt.Errorf("keep %s: %w", key, err)
	}
	if err := t.Session.SaveMeta(); err != nil {
		return tool.Result{}, fmt.Errorf("keep %s: %w", key, err)
	}
	return tool.Textf(done, key), nil
}

// plainKey is a key without the differences between the ways to write it.
func plainKey(key string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key))
}

// settable is the name of the setting that a key means, as it is or as the
// configuration calls it; any other key stays as it is.
func settable(key string) string {
	plain := strings.TrimPrefix(plainKey(key), "agents.defaults.")
	if plain == "maxtooliterations" {
		return "max_iterations"
	}

	for _, name := range []string{"max_iterations", "context_window_tokens", "max_tool_result_chars", "model_preset"} {
		if plain == plainKey(name) {
			return name
		}
	}
	return key
}

// configured is the path of the configuration that a key names: all of it, its
// end, or the name of a default of the agent. "" means that it names none.
func configured(config []string, key string) string {
	plain := plainKey(key)
	for _, path := range config {
		p := plainKey(path)
		if p == plain || p == "agents.defaults."+plain || strings.Contains(plain, ".") && strings.HasSuffix(p, "."+plain) {
			return path
		}
	}
	return ""
}

// note keeps a value under a name that is not a setting.
func (o *own) note(taken map[string]any, config []string, key string, value json.RawMessage, tainted bool) *tool.Result {
	var res tool.Result
	switch _, setting := taken[key]; {
	case setting:
		res = tool.Fail(tool.DeniedPolicy, "%s is read-only", key)
	case configured(config, key) != "":
		res = tool.Fail(tool.DeniedPolicy, "%s is a setting that only the user can change: nanobot config set %s VALUE", key, configured(config, key))
	case len(value) > ownNote:
		res = tool.Fail(tool.TooLarge, "a note has at most %d bytes", ownNote)
	case len(o.Notes) >= ownNotes && o.Notes[key] == nil:
		res = tool.Fail(tool.TooLarge, "there are %d notes already; overwrite one", ownNotes)
	default:
		if o.Notes == nil {
			o.Notes = map[string]json.RawMessage{}
		}
		if o.Clean == nil {
			o.Clean = map[string]bool{}
		}

		key = strings.TrimPrefix(key, "scratchpad.")
		o.Notes[key] = value
		if delete(o.Clean, key); !tainted {
			o.Clean[key] = true
		}
		return nil
	}

	return &res
}

func (t looker) setPreset(value json.RawMessage) (tool.Result, error) {
	var name string
	if json.Unmarshal(value, &name) != nil || name != "default" && !slices.Contains(t.Presets, name) {
		return tool.Fail(tool.InvalidArgs, "model_preset must be one of default, %s", strings.Join(t.Presets, ", ")), nil //nolint:nilerr // the model is told
	}

	if name == "default" {
		name = ""
	}

	if err := t.Try(name); err != nil {
		return tool.Fail(tool.Unsupported, "model_preset is not set: %v", err), nil
	}
	if err := t.Session.SetMeta(PresetKey, name); err != nil {
		return tool.Result{}, fmt.Errorf("keep the preset: %w", err)
	}
	if err := t.Session.SaveMeta(); err != nil {
		return tool.Result{}, fmt.Errorf("keep the preset: %w", err)
	}
	return tool.Text("the model is changed from the next turn on"), nil
}
