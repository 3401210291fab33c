package mattermost

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// The section that the Python nanobot writes loads as it is, and means the same.
func TestPythonSection(t *testing.T) {
	t.Parallel()
	o, err := chat.Read(json.RawMessage(`{
		"enabled": true, "serverUrl": "https://chat.example.com/", "token": "t", "teamId": "team1",
		"allowFromMatchMode": "email", "allowFrom": ["ann@example.com"], "groupPolicy": "allowlist",
		"groupPolicyInThread": "open", "groupAllowFrom": ["c1"], "replyInThread": false,
		"includeThreadContext": false, "threadContextLimit": 7, "streaming": false, "streamingMaxChars": 9000,
		"reactEmoji": ":hourglass:", "doneEmoji": "", "sendProgress": true, "sendToolHints": false,
		"dm": {"enabled": false, "policy": "allowlist", "allowFrom": ["bob@example.com"]}
	}`), defaults())
	if err != nil {
		t.Fatal(err)
	}
	if o.Token.Reveal() != "t" {
		t.Error("the token is not read")
	}
	got := []any{
		o.ServerURL, o.TeamID, o.AllowFromMatchMode, o.AllowFrom, o.GroupPolicy, o.GroupPolicyInThread, o.GroupAllowFrom, o.ReplyInThread,
		o.IncludeThreadContext, o.ThreadContextLimit, *o.Streaming, o.StreamingMaxChars, o.ReactEmoji, o.DoneEmoji, *o.SendProgress, *o.SendToolHints, o.DM,
	}
	want := []any{
		"https://chat.example.com", "team1", "email",
		[]string{"ann@example.com"},
		access.Allowlist, access.Open,
		[]string{"c1"},
		false,
		false, 7, false, 9000, "hourglass", "", true, false,
		direct{false, "allowlist", []string{"bob@example.com"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the section (-want +got):\n%s", d)
	}
	if c := o.caps(); c.EditEvery != 0 {
		t.Errorf("streaming is off, but answers are edited every %v", c.EditEvery)
	}
}

// What a fresh installation of the Python nanobot writes is a section, too; only
// address and token are missing.
func TestPythonDefaults(t *testing.T) {
	t.Parallel()
	const section = `{
		"enabled": true, "serverUrl": "http://localhost:8065", "token": "t", "teamId": "", "allowFromMatchMode": "id", "allowFrom": [],
		"groupPolicy": "mention", "groupPolicyInThread": "mention", "groupAllowFrom": [], "replyInThread": true,
		"includeThreadContext": true, "threadContextLimit": 20, "streaming": true, "reactEmoji": "eyes",
		"doneEmoji": "white_check_mark", "sendProgress": true, "sendToolHints": true,
		"dm": {"enabled": true, "policy": "open", "allowFrom": []}
	}`
	if _, err := chat.Read(json.RawMessage(section), defaults()); err != nil {
		t.Error(err)
	}
}

func TestThreadPolicyFollowsGroupPolicy(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]access.Policy{`"groupPolicy": "open"`: access.Open, `"teamId": ""`: access.Mention} {
		o, err := chat.Read(json.RawMessage(`{"serverUrl": "http://x", "token": "t", `+set+`}`), defaults())
		if err != nil || o.GroupPolicyInThread != want {
			t.Errorf("%s: in threads %q, %v, want %q", set, o.GroupPolicyInThread, err, want)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		`{}`:                                             "serverUrl is missing",
		`{"serverUrl": "chat.example.com"}`:              "serverUrl: not an http address",
		`{"serverUrl": "http://u:p@x"}`:                  "serverUrl: not an http address",
		`{"serverUrl": "http://x"}`:                      "token is missing",
		`{"allowFromMatchMode": "name"}`:                 "allowFromMatchMode",
		`{"dm": {"policy": "closed"}}`:                   "dm.policy",
		`{"threadContextLimit": 0}`:                      "threadContextLimit",
		`{"groupPolicyInThread": "sometimes"}`:           "groupPolicyInThread",
		`{"webhookUrl": "x"}`:                            "webhookUrl",
		`{"webhookUrl": "http://h", "webhookPath": "x"}`: "webhookPath",
		`{"serverURL": "http://x"}`:                      `did you mean "serverUrl"`,
	} {
		all := map[string]any{"serverUrl": "http://x", "token": "t"}
		if !strings.Contains(section, "erver") && section != "{}" {
			if err := json.Unmarshal([]byte(section), &all); err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			section = string(data)
		}
		_, err := chat.Read(json.RawMessage(section), defaults())
		if err == nil || !strings.Contains(err.Error(), want) || !chat.IsFatal(err) {
			t.Errorf("%s: %v, want a fatal error about %q", section, err, want)
		}
	}
}
