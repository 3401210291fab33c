package slack

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// The sections of Python nanobot load as they are; only the tokens are filled
// in.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v0.1.5", "head"} {
		data, err := os.ReadFile("../../../run/config/testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Channels struct {
				Slack object `json:"slack"`
			} `json:"channels"`
		}
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		s := file.Channels.Slack
		s["enabled"], s["botToken"], s["appToken"] = true, "xoxb-1", "xapp-1"
		if name == "head" { // what its later versions write as well
			s["includeThreadContext"], s["threadContextLimit"], s["groupRequireMention"] = false, 7, true
		}
		o := load(t, s)
		if o.WebhookPath != "/slack/events" || !o.ReplyInThread || o.ReactEmoji != "eyes" || o.DoneEmoji != "white_check_mark" ||
			o.Mode != "socket" || !o.DM.Enabled || o.DM.Policy != "open" || o.GroupPolicy != access.Mention {
			t.Errorf("%s: %+v", name, o)
		}
		if name == "head" && (o.IncludeThreadContext || o.ThreadContextLimit != 7 || !o.GroupRequireMention) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func load(t *testing.T, s object) *options {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	o, err := chat.Read(data, defaults())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ section, says string }{
		"no bot token":    {`{}`, "botToken is missing"},
		"user token":      {`{"botToken":"xoxp-secret"}`, "xoxb-"},
		"no app token":    {`{"botToken":"xoxb-1"}`, "appToken is missing"},
		"bad app token":   {`{"botToken":"xoxb-1","appToken":"xoxb-1"}`, "xapp-"},
		"mode":            {`{"botToken":"xoxb-1","appToken":"xapp-1","mode":"rtm"}`, "neither socket nor webhook"},
		"no secret":       {`{"botToken":"xoxb-1","mode":"webhook"}`, "signingSecret"},
		"path":            {`{"botToken":"xoxb-1","mode":"webhook","signingSecret":"0123456789abcdef","webhookPath":"x"}`, "webhookPath"},
		"port":            {`{"botToken":"xoxb-1","mode":"webhook","signingSecret":"0123456789abcdef","webhookListenPort":-1}`, "webhookListenPort"},
		"dm policy":       {`{"botToken":"xoxb-1","appToken":"xapp-1","dm":{"policy":"all"}}`, "dm.policy"},
		"group policy":    {`{"botToken":"xoxb-1","appToken":"xapp-1","groupPolicy":"all"}`, "groupPolicy"},
		"api base":        {`{"botToken":"xoxb-1","appToken":"xapp-1","apiBase":"ftp://x"}`, "apiBase"},
		"thread context":  {`{"botToken":"xoxb-1","appToken":"xapp-1","threadContextLimit":1000}`, "threadContextLimit"},
		"unknown setting": {`{"botToken":"xoxb-1","appToken":"xapp-1","replyInThreads":true}`, "replyInThread"},
	} {
		_, err := chat.Read(json.RawMessage(c.section), defaults())
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret\"") {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	o := load(t, object{"botToken": "xoxb-1", "appToken": "xapp-1", "streaming": false, "reactEmoji": ":wave:", "apiBase": "http://x"})
	if c := o.caps(); c.EditEvery != 0 || o.ReactEmoji != "wave" || o.APIBase != "http://x/" {
		t.Errorf("%+v", o)
	}
}
