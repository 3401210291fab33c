package feishu

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

func isFatal(err error) bool { return chat.IsFatal(err) }

func out(text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Message, Route: to(""), Text: text}
}

// The sections that versions 0.1.5 and 0.3.5 of Python nanobot write load as
// they are, and mean the same.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	old, err := decode(json.RawMessage(`{
		"enabled": true, "appId": "cli_a", "appSecret": "s", "encryptKey": "e", "verificationToken": "v", "allowFrom": ["ou_1"],
		"reactEmoji": "OnIt", "groupPolicy": "open", "replyToMessage": true, "streaming": false, "toolHintPrefix": "->", "doneEmoji": null, "domain": "lark"
	}`), true)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{old.AppID, old.AppSecret.Reveal(), old.EncryptKey.Reveal(), old.VerificationToken.Reveal(), old.AllowFrom, old.ReactEmoji, old.GroupPolicy, old.ReplyToMessage, *old.Streaming, old.ToolHintPrefix, old.DoneEmoji, old.APIBaseURL, old.accounts()}
	want := []any{"cli_a", "s", "e", "v", []string{"ou_1"}, "OnIt", access.Open, true, false, "->", "", "https://open.larksuite.com", "https://accounts.larksuite.com"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("0.1.5 (-want +got):\n%s", d)
	}
	if old.caps().EditEvery != 0 {
		t.Error("streaming is off, but answers grow")
	}

	// As the newer one writes it after its set-up: all settings in each item.
	const head = `{"instances": [
		{"instanceId": "default", "name": "nanobot", "identityKey": "feishu:cli_a", "enabled": true, "appId": "cli_a", "appSecret": "s", "encryptKey": "",
		 "verificationToken": "", "allowFrom": ["ou_1"], "reactEmoji": "THUMBSUP", "doneEmoji": "DONE", "toolHintPrefix": "🔧", "groupPolicy": "mention",
		 "replyToMessage": false, "streaming": true, "domain": "feishu", "topicIsolation": false, "id": "default",
		 "displayName": "Bot", "avatarUrl": "https://x/a.png", "identityFetchedAt": 1755000000.5},
		{"id": "assistant-1a2b3c", "enabled": true, "appId": "cli_b", "appSecret": "t", "domain": "lark"}
	]}`
	all, err := expand(json.RawMessage(head))
	if err != nil {
		t.Fatal(err)
	}
	one, err := decode(all[""], true)
	if err != nil || one.AppID != "cli_a" || one.TopicIsolation || one.DoneEmoji != "DONE" || len(one.AllowFrom) != 1 {
		t.Errorf("the first app: %+v, %v", one, err)
	}
	two, err := decode(all["assistant-1a2b3c"], true)
	if err != nil || two.AppID != "cli_b" || !two.TopicIsolation || two.Domain != "lark" || len(all) != 2 {
		t.Errorf("the second app: %+v, %v", two, err)
	}
}

// Several apps in one section.
func TestInstances(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		names []string
		wrong string
	}{
		`{"appId":"a"}`:                    {[]string{""}, ""},
		`{"appId":"a","instances":null}`:   {[]string{""}, ""},
		`{"instances":[]}`:                 {nil, ""},
		`{"instances":[{},{},{"id":"x"}]}`: {[]string{"", "assistant-2", "x"}, ""},
		`{"instances":[{"id":"x"},{"instanceId":"x"},7,null,{"id":"a b"},{"id":"ok"}]}`: {[]string{"ok", "x"}, "used twice\ninstances.2: an object is needed\ninstances.3: an object is needed\ninstances.4: the id \"a b\""},
		`{"instances":7}`: {nil, "a list is needed"},
		`7`:               {nil, "cannot unmarshal"},
	} {
		got, err := expand(json.RawMessage(text))
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want.names) {
			t.Errorf("%s: %q, want %q", text, names, want.names)
		}
		if (err == nil) != (want.wrong == "") || err != nil && !strings.Contains(err.Error(), want.wrong) {
			t.Errorf("%s: %v, want %q", text, err, want.wrong)
		}
	}
	all, err := expand(json.RawMessage(`{"enabled":true,"reactEmoji":"OnIt","allowFrom":["ou_1"],"instances":[{"appId":"a"},{"id":"b","reactEmoji":"","allowFrom":[]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	one, _ := decode(all[""], false)
	two, _ := decode(all["b"], false)
	if !one.Enabled || one.ReactEmoji != "OnIt" || len(one.AllowFrom) != 1 || !two.Enabled || two.ReactEmoji != "" || len(two.AllowFrom) != 0 {
		t.Errorf("inherited: %+v and %+v", one, two)
	}
}

// What a login found out goes into the settings of its app.
func TestMerge(t *testing.T) {
	t.Parallel()
	patch := map[string]any{"appId": "new"}
	people := map[string]any{"appId": "new", "allowFrom": []string{"ou_2"}}
	for _, c := range []struct {
		section, name, want string
		patch               map[string]any
	}{
		{`{"appId":"old"}`, "", `{"appId":"new"}`, patch},
		{`{"appId":"old"}`, "work", "", patch},
		{`null`, "", `{"appId":"new"}`, patch},
		{`{"instances":[{"appId":"a"},{"id":"work","appId":"old","x":1}]}`, "work", `{"instances":[{"appId":"a"},{"appId":"new","id":"work","x":1}]}`, patch},
		{`{"instances":[{"appId":"a"},{"instance_id":"work"}]}`, "", `{"instances":[{"appId":"new"},{"instance_id":"work"}]}`, patch},
		{`{"instances":[{"id":"a"}]}`, "b", "", patch},
		{`{"instances":[{"appId":"new","allowFrom":["ou_1"]}]}`, "", `{"instances":[{"allowFrom":["ou_2"],"appId":"new"}]}`, people},
		{`{"instances":[{"appId":"old"},{"id":"work","appId":"new","allowFrom":["ou_1"]}]}`, "", `{"instances":[{"appId":"old"},{"allowFrom":["ou_1"],"appId":"new","id":"work"}]}`, people},
	} {
		got, ok := merge(json.RawMessage(c.section), c.name, c.patch)
		data, err := json.Marshal(got)
		if err != nil || ok != (c.want != "") || ok && string(data) != c.want {
			t.Errorf("%s, %q: %s, %v", c.section, c.name, data, ok)
		}
	}
}

// Ids of people with another app let nobody in.
func TestListsOfAnotherApp(t *testing.T) {
	t.Parallel()
	for key, people := range map[string]int{"": 1, "feishu:cli_a": 1, "feishu:cli_b": 0, "lark:cli_a": 0} {
		all, err := expand(json.RawMessage(`{"appId":"cli_a","appSecret":"s","allowFrom":["ou_1"],"owners":["ou_1"],"identityKey":"` + key + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		o, err := decode(all[""], true)
		if err != nil || len(o.AllowFrom) != people || len(o.Owners) != people {
			t.Errorf("%q: allowFrom %q, owners %q, %v", key, o.AllowFrom, o.Owners, err)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		`{}`:                      "appId is missing",
		`{"appId":"a"}`:           "appSecret is missing",
		`{"domain":"slack"}`:      "domain",
		`{"mode":"poll"}`:         "mode",
		`{"apiBaseUrl":"x"}`:      "apiBaseUrl",
		`{"webhookPath":"x"}`:     "webhookPath",
		`{"groupPolicy":"never"}`: "groupPolicy",
		`{"appID":"a"}`:           `did you mean "appId"`,
		`{"appId":"a","appSecret":"s","mode":"webhook"}`: "encryptKey or verificationToken",
	} {
		_, err := decode(json.RawMessage(section), true)
		if err == nil || !strings.Contains(err.Error(), want) || !isFatal(err) {
			t.Errorf("%s: %v, want a fatal error about %q", section, err, want)
		}
	}
	if fields := Driver().Fields(); len(fields) != 2 || fields[0].Name != "appId" || !fields[1].Secret {
		t.Errorf("a person is asked for %+v", fields)
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	o := defaults().account
	for text, want := range map[string]string{
		`read_file("a, b.txt"), grep (x, y), list`: "🔧 read_file(\"a, b.txt\")\n🔧 grep (x, y)\n🔧 list",
		"one\ntwo":           "🔧 one\n🔧 two",
		`say "never, closed`: `🔧 say "never, closed`,
	} {
		if got := o.hint(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
