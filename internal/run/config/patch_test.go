package config

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const patchBase = `{
  // mine
  "agents": {"defaults": {"model": "m", "max_tokens": 100, "fallbackModels": ["fast"]}},
  "modelPresets": {"fast": {"model": "f"}},
  "providers": {"openai": {"apiKey": "sk-old", "apiKeys": ["one", "two"]}},
  "channels": {"telegram": {"enabled": true, "token": "123:abc", "allowFrom": ["1"]}},
  "tools": {"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}}}
}
`

func TestPatch(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		patch   string
		changed []string
		has     []string // in the text afterwards
		lacks   []string
	}{
		"a value in another spelling": {`{"agents":{"defaults":{"maxTokens":200}}}`, []string{"agents.defaults.maxTokens"}, []string{`"max_tokens": 200`, "// mine"}, []string{"maxTokens"}},
		"the same value":              {`{"agents":{"defaults":{"model":"m","maxTokens":100}}}`, nil, nil, nil},
		"null":                        {`{"agents":{"defaults":{"max_tokens":null,"temperature":null}}}`, []string{"agents.defaults.maxTokens"}, nil, []string{"max_tokens"}},
		"a new entry at once":         {`{"modelPresets":{"big.one":{"provider":"auto","model":"b","label":null}}}`, []string{"modelPresets.big.one.provider", "modelPresets.big.one.model"}, []string{`"big.one"`, `"model": "b"`}, []string{"label"}},
		"a list is replaced":          {`{"agents":{"defaults":{"fallbackModels":[{"model":"x"},"fast"]}}}`, []string{"agents.defaults.fallbackModels"}, []string{`[{"model":"x"},"fast"]`}, nil},
		"hidden values stay":          {`{"providers":{"openai":{"apiKey":"***","apiKeys":["***","***"],"apiBase":"http://h/v1"}}}`, []string{"providers.openai.apiBase"}, []string{"sk-old", `"one", "two"`, "http://h/v1"}, nil},
		"below raw parts":             {`{"tools":{"mcpServers":{"files":{"args":["***","***"],"env":{"A":"***","B":"2"},"disabled":true}}}}`, []string{"tools.mcpServers.files.env.B", "tools.mcpServers.files.disabled"}, []string{`"-y", "x"`, `"A": "1"`, `"B": "2"`}, nil},
		"of a channel":                {`{"channels":{"telegram":{"allow_from":["1","2"],"token":"***"}}}`, []string{"channels.telegram.allowFrom"}, []string{`["1","2"]`, "123:abc"}, nil},
		"an empty object":             {`{"channels":{"email":{}},"agents":{}}`, []string{"channels.email"}, []string{`"email": {}`}, nil},
		"an entry is removed":         {`{"providers":{"openai":null}}`, []string{"providers.openai"}, nil, []string{"sk-old"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openText(t, patchBase)
			changed, err := f.Patch(json.RawMessage(c.patch))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.changed, changed); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			if err := f.Save(time.Time{}); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(f.path)
			if err != nil {
				t.Fatal(err)
			}
			text := string(b)
			if len(c.changed) == 0 && text != patchBase {
				t.Errorf("written without a change:\n%s", text)
			}
			for _, want := range c.has {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
			for _, bad := range append(c.lacks, "***") {
				if strings.Contains(text, bad) {
					t.Errorf("%q is in\n%s", bad, text)
				}
			}
			if _, err := Load(Options{Path: f.path, Text: f.Text()}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPatchRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		patch   string
		unknown bool
		want    string
	}{
		"a name nobody knows":          {`{"agents":{"defaults":{"maxToken":1}}}`, true, "did you mean maxTokens?"},
		"below a single value":         {`{"agents":{"defaults":{"model":{"x":1}}}}`, false, "must be a text"},
		"a value of the wrong kind":    {`{"agents":{"defaults":{"model":"n","maxTokens":"many"}}}`, false, "must be a whole number"},
		"out of range":                 {`{"agents":{"defaults":{"temperature":3}}}`, false, "between 0 and 2"},
		"a preset that is in use":      {`{"modelPresets":{"fast":null}}`, false, "is not a name in modelPresets"},
		"a preset without a model":     {`{"modelPresets":{"big":{"provider":"auto"}}}`, false, "model"},
		"a hidden value in a new list": {`{"providers":{"openai":{"apiKeys":["***","three"]}}}`, false, "hidden value"},
		"no object":                    {`[1]`, false, "must be an object"},
		"no JSON":                      {`{`, false, "must be an object"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openText(t, patchBase)
			_, err := f.Patch(json.RawMessage(c.patch))
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnknown) != c.unknown {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if got := string(f.Text()); got != patchBase {
				t.Errorf("the text is changed:\n%s", got)
			}
		})
	}
}
