package config_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

var update = flag.Bool("update", false, "rewrite golden files")

func opaque() cmp.Option {
	return cmp.Options{
		cmp.Comparer(func(a, b httpsafe.Secret) bool { return a.Reveal() == b.Reveal() }),
		cmp.Comparer(func(a, b config.Raw) bool { return string(a.JSON()) == string(b.JSON()) }),
	}
}

func emptyIsNil() cmp.Option { return cmpopts.EquateEmpty() }

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestSettings lists every key with its type, default and limits. The golden
// file is the table a reviewer reads when a setting changes.
func TestSettings(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	undocumented := []string{}
	var visit func(path string, typ reflect.Type, v reflect.Value)
	visit = func(path string, typ reflect.Type, v reflect.Value) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name := f.Tag.Get("json")
			if name == "-" && f.Tag.Get("rest") == "" {
				continue
			}
			if name == "-" {
				name = "<name>"
			}
			at := strings.TrimPrefix(path+"."+name, ".")
			ft, fv := f.Type, v.Field(i)
			if ft.Kind() == reflect.Map && ft.Elem().Kind() == reflect.Struct && ft.Elem().NumField() > 1 {
				if name != "<name>" {
					at += ".<name>"
				}
				elem := reflect.Zero(ft.Elem())
				if ft.Elem() == reflect.TypeFor[config.Preset]() {
					elem = reflect.ValueOf(loadOne(t, `{"modelPresets":{"p":{"model":"m"}}}`).ModelPresets["p"])
				}
				if ft.Elem() == reflect.TypeFor[config.Channel]() {
					elem = reflect.ValueOf(loadOne(t, `{"channels":{"c":{}}}`).Channels.Each["c"])
				}
				visit(at, ft.Elem(), elem)
				continue
			}
			if f.Tag.Get("doc") == "" && f.Tag.Get("rest") == "" {
				undocumented = append(undocumented, at)
			}
			if ft.Kind() == reflect.Struct && ft.NumField() > 0 && ft != reflect.TypeFor[httpsafe.Secret]() && ft != reflect.TypeFor[config.Raw]() {
				visit(at, ft, fv)
				continue
			}
			if name == "<name>" {
				continue
			}
			def, err := json.Marshal(fv.Interface())
			if err != nil {
				t.Fatal(err)
			}
			var limits strings.Builder
			for _, k := range []string{"min", "max", "enum", "format", "alias", "env", "required", "blank"} {
				if s, ok := f.Tag.Lookup(k); ok {
					fmt.Fprintf(&limits, " %s=%s", k, s)
				}
			}
			fmt.Fprintf(&b, "%s %s %s%s\n", at, strings.ReplaceAll(ft.String(), "config.", ""), def, limits.String())
		}
	}
	visit("", reflect.TypeFor[config.Config](), reflect.ValueOf(config.Default()))
	golden(t, "settings.golden", []byte(b.String()))
	if len(undocumented) > 0 {
		t.Errorf("settings without a doc tag: %v", undocumented)
	}
}

func loadOne(t *testing.T, text string) config.Config {
	t.Helper()
	return load(t, text).Config
}

func TestSchema(t *testing.T) {
	t.Parallel()
	got := config.Schema(nil)
	golden(t, "schema.golden", got)
	var s struct {
		Schema     string                     `json:"$schema"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(got, &s); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Schema, "2020-12") || len(s.Properties) != 9 {
		t.Errorf("schema %s with %d properties", s.Schema, len(s.Properties))
	}
	if strings.Contains(string(got), "***") {
		t.Error("the schema shows a mask as a default")
	}
}

// A validator takes the schema, accepts files that we accept, and finds what
// the schema is for.
func TestSchemaValidates(t *testing.T) {
	t.Parallel()
	var s jsonschema.Schema
	if err := json.Unmarshal(config.Schema(nil), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{}`: true,
		`{"$schema":"./config.schema.json","x-note":1,"agents":{"defaults":{"model":"m","maxTokens":null}}}`: true,
		`{"agents":{"defaults":{"modelName":"m"}}}`:                                                          false,
		`{"agents":{"defaults":{"temperature":"x"}}}`:                                                        false,
		`{"agents":{"defaults":{"temperature":99}}}`:                                                         false,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(v); (err == nil) != want {
			t.Errorf("%s: %v, want accepted %t", text, err, want)
		}
	}
	for _, name := range []string{"head.json", "v0.1.5.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLocation(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"host by default", `{}`, time.Local.String()},
		{"a zone alone is meant", `{"agents":{"defaults":{"timezone":"Asia/Shanghai"}}}`, "Asia/Shanghai"},
		{"aliases of UTC", `{"agents":{"defaults":{"timezone":"Etc/Zulu"}}}`, "UTC"},
		{"auto beats the zone", `{"agents":{"defaults":{"timezone":"Asia/Shanghai","timezoneMode":"auto"}}}`, time.Local.String()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := loadOne(t, tt.text).Agents.Defaults.Location().String(); got != tt.want {
				t.Errorf("location = %s, want %s", got, tt.want)
			}
		})
	}
}

// A channel's own decoder must find camelCase keys whatever the file has, but
// keys that are the user's own names stay.
func TestChannelRaw(t *testing.T) {
	t.Parallel()
	c := loadOne(t, `{"channels": {
		"slack": {"enabled": true, "bot_token": 1, "dm": {"allow_from": [5], "policy": null}, "react_emoji": ""},
		"feishu": [{"app_id": 1}, {"app_id": 2, "enabled": true}]}}`)
	for name, want := range map[string]string{
		"slack":  `{"enabled":true,"botToken":"1","dm":{"allowFrom":["5"]},"reactEmoji":""}`,
		"feishu": `[{"appId":"1"},{"appId":"2","enabled":true}]`,
	} {
		if got := string(c.Channels.Each[name].Raw.JSON()); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	on := []string{}
	for name, ch := range c.Channels.Each {
		if ch.Enabled {
			on = append(on, name)
		}
	}
	slices.Sort(on)
	if !slices.Equal(on, []string{"feishu", "slack"}) {
		t.Errorf("enabled = %v", on)
	}
}
