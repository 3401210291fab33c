package config_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// chat is the section of a platform.
type chat struct {
	base
	Token  httpsafe.Secret   `json:"token" doc:"The key."`
	Pin    httpsafe.Secret   `json:"pin"`
	Port   int               `json:"port" min:"1" doc:"The port."`
	DM     direct            `json:"dm"`
	LIDs   map[string]string `json:"lidMappings"`
	Bots   []direct          `json:"bots"`
	Free   json.RawMessage   `json:"free"`
	hidden int
}

type base struct {
	Enabled   bool     `json:"enabled"`
	AllowFrom []string `json:"allowFrom" doc:"Who may talk."`
}

type direct struct {
	AllowFrom []string `json:"allowFrom"`
	AppID     string   `json:"appId"`
}

func sections() config.Sections {
	return config.Sections{
		"chat": func() any { return &chat{Port: 8080, hidden: 1} },
		"":     func() any { return new(struct{ base }) },
	}
}

func loadSections(t *testing.T, text string, env ...string) *config.Loaded {
	t.Helper()
	l, err := config.Load(config.Options{Path: t.TempDir() + "/config.json", Optional: true, Text: []byte(text), Env: env, Sections: sections()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Keys are found in all spellings wherever the struct of the section has them,
// also in lists; names that people chose stay. Numbers become texts where texts
// are wanted, and only there.
func TestSectionKeys(t *testing.T) {
	t.Parallel()
	l := loadSections(t, `{"channels": {"chat.work": {"token": 123456789012345678, "port": 99, "allow_from": [7], "dm": {"allow_from": [8, "x"], "app_id": 5, "policy": null},
		"lid_mappings": {"a_b": "c_d"}, "bots": [{"app_id": 1}, {"appId": 2, "allow_from": []}], "new_count": 1}}}`)
	want := `{"token":"123456789012345678","port":99,"allowFrom":["7"],"dm":{"allowFrom":["8","x"],"appId":"5"},"lidMappings":{"a_b":"c_d"},` +
		`"bots":[{"appId":"1"},{"appId":"2","allowFrom":[]}],"newCount":1}`
	if got := string(l.Config.Channels.Each["chat.work"].Raw.JSON()); got != want {
		t.Errorf("section = %s\nwant %s", got, want)
	}
}

// What a struct calls a secret is one, whatever its name and look.
func TestSectionSecrets(t *testing.T) {
	t.Parallel()
	l := loadSections(t, `{"channels": {"chat": {"pin": "1234", "port": 7, "allowFrom": ["ann"]}}}`)
	found := map[string]string{}
	for path, s := range l.Secrets() {
		found[path] = s.Reveal()
	}
	if d := cmp.Diff(map[string]string{"channels.chat.pin": "1234"}, found); d != "" {
		t.Errorf("secrets (-want +got):\n%s", d)
	}
	for _, shown := range []string{string(l.Show(true)), string(l.Show(false))} {
		if strings.Contains(shown, "1234") {
			t.Errorf("the pin is shown: %s", shown)
		}
	}
}

// Variables of the environment are read by the type of the setting.
func TestSectionEnvironment(t *testing.T) {
	t.Parallel()
	l := loadSections(t, `{}`, "NANOBOT_CHANNELS__CHAT__ALLOW_FROM=7,ann", "NANOBOT_CHANNELS__CHAT__DM__APP_ID=12")
	want := `{"allowFrom":["7","ann"],"dm":{"appId":"12"}}`
	if got := string(l.Config.Channels.Each["chat"].Raw.JSON()); got != want {
		t.Errorf("section = %s, want %s", got, want)
	}
}

func TestSectionSettings(t *testing.T) {
	t.Parallel()
	l := loadSections(t, `{"channels": {"chat": {"dm": {"allowFrom": ["x"]}}}}`)
	if got, err := l.Get("channels.chat.port"); err != nil || got != "8080" {
		t.Errorf("the default is %s, %v", got, err)
	}
	if got, err := l.Get("channels.chat.dm.allow_from"); err != nil || got != `["x"]` {
		t.Errorf("the list is %s, %v", got, err)
	}
	if _, err := l.Get("channels.chat.prot"); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("a misspelt key: %v", err)
	}
	if _, err := l.Get("channels.other.anything"); err != nil {
		t.Errorf("a key of an unknown platform: %v", err)
	}
	e, err := l.Explain("channels.chat.port")
	if err != nil || len(e) != 1 || e[0].Doc != "The port." || e[0].Value != "8080" {
		t.Errorf("explained as %+v, %v", e, err)
	}
	paths := config.Paths(sections())
	for _, want := range []string{"channels.chat.port", "channels.chat.allowFrom", "channels.chat.dm.appId", "channels.sendProgress"} {
		if !slices.Contains(paths, want) {
			t.Errorf("%s is not among the settings", want)
		}
	}
	if slices.Contains(paths, "channels.chat.hidden") {
		t.Error("an unexported field is among the settings")
	}
}

func TestSectionSchema(t *testing.T) {
	t.Parallel()
	var s struct {
		Properties struct {
			Channels struct {
				Properties        map[string]json.RawMessage
				PatternProperties map[string]json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(config.Schema(sections()), &s); err != nil {
		t.Fatal(err)
	}
	var chat struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal(s.Properties.Channels.Properties["chat"], &chat); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"port": `{"type":["integer","null"],"description":"The port.","default":8080,"minimum":1}`,
		"pin":  `{"type":["string","null"],"writeOnly":true}`,
		"free": `true`,
	} {
		var got bytes.Buffer
		if err := json.Compact(&got, chat.Properties[name]); err != nil || got.String() != want {
			t.Errorf("%s is described as %s, %v, want %s", name, got.String(), err, want)
		}
	}
	if s.Properties.Channels.PatternProperties[`^chat\.`] == nil {
		t.Errorf("second accounts are not described: %s", s.Properties.Channels.PatternProperties)
	}
}
