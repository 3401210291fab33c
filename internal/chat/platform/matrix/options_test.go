package matrix

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// Sections of Python nanobot load as they are: 0.1.5 with all of its keys, and
// the later ones.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	const old = `"enabled":true,"homeserver":"https://matrix.example.org","userId":"@bot:example.org","password":"secret","accessToken":"syt_x","deviceId":"NANOBOT01",
		"e2eeEnabled":true,"syncStopGraceSeconds":2,"maxMediaBytes":20971520,"allowFrom":["@ann:example.org"],"groupPolicy":"open","groupAllowFrom":[],
		"allowRoomMentions":false,"streaming":false`
	for name, section := range map[string]string{
		"0.1.5": "{" + old + "}",
		"head":  "{" + old + `,"sasVerification":false,"maxConcurrentMediaDownloads":2,"sendProgress":null,"sendToolHints":null,"showReasoning":null}`,
	} {
		o, err := chat.Read(json.RawMessage(section), defaults())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if o.UserID != "@bot:example.org" || o.Password.Reveal() != "secret" || !o.E2EEEnabled || o.GroupPolicy != access.Open || *o.Streaming {
			t.Errorf("%s: %+v", name, o)
		}
		if c := o.caps(); c.EditEvery != 0 || c.MaxMedia != 20971520 || !c.Keys {
			t.Errorf("%s: caps %+v", name, c)
		}
	}
}

func TestSectionErrors(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		`{}`:                              "userId is missing",
		`{"userId":"bot","password":"x"}`: "is not a full id",
		`{"userId":"@bot:example.org"}`:   "password is missing",
		`{"userId":"@bot:example.org","password":"x","homeserver":"ftp://example.org"}`:    "homeserver",
		`{"userId":"@bot:example.org","password":"x","maxMediaBytes":-1}`:                  "maxMediaBytes",
		`{"userId":"@bot:example.org","password":"x","maxConcurrentMediaDownloads":0}`:     "maxConcurrentMediaDownloads",
		`{"userId":"@bot:example.org","password":"x","groupPolicy":"everything"}`:          "groupPolicy",
		`{"userId":"@bot:example.org","password":"x","homeServer":"https://example.org/"}`: "homeserver",
	} {
		if _, err := chat.Read(json.RawMessage(section), defaults()); err == nil || !chat.IsFatal(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
	o, err := chat.Read(json.RawMessage(`{"userId":"@bot:example.org","password":"x","homeserver":"example.org/"}`), defaults())
	if err != nil || o.Homeserver != "https://example.org" {
		t.Errorf("a homeserver without a scheme: %+v, %v", o, err)
	}
}
