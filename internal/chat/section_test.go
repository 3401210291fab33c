package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	type own struct {
		chat.Common
		Token string `json:"token"`
	}
	for section, want := range map[string]string{
		`{"tokn":"x"}`:                 `unknown key "tokn", did you mean "token"?`,
		`{"groupPolicy":"never"}`:      `groupPolicy: "never" must be mention, open or allowlist`,
		`[]`:                           "the section is not a JSON object: json: cannot unmarshal array into Go value of type map[string]jsontext.Value",
		`{"token":"x","enabled":true}`: "",
		`{"token":["sk-secret"]}`:      "token: a text is needed",
		`{"maxMediaBytes":"much"}`:     "maxMediaBytes: a whole number is needed",
		`{"maxMediaBytes":1.5}`:        "maxMediaBytes: a whole number is needed",
		`{"streaming":"perhaps"}`:      "streaming: true or false is needed",
		`{"allowFrom":"ann"}`:          "allowFrom: a list is needed",
	} {
		var o own
		err := chat.Decode(json.RawMessage(section), &o)
		got := ""
		if err != nil {
			got = err.Error()
			if !chat.IsFatal(err) {
				t.Errorf("%s: not fatal", section)
			}
		}
		if strings.HasPrefix(want, "the section") {
			got, want = got[:min(len(got), 20)], want[:20]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", section, d)
		}
	}
}

// Environment variables know only texts, and people write numbers in quotes.
func TestDecodeRelaxed(t *testing.T) {
	t.Parallel()
	type own struct {
		chat.Common
		Token string  `json:"token"`
		Port  int     `json:"port"`
		Every float64 `json:"every"`
	}
	for _, section := range []string{
		`{"enabled":true,"streaming":false,"maxMediaBytes":1000,"token":"42","port":993,"every":0.5}`,
		`{"enabled":"true","streaming":"off","maxMediaBytes":"1000","token":42,"port":"993","every":"0.5"}`,
		`{"enabled":[true],"streaming":[ false ],"maxMediaBytes":1000,"token":"42","port":993,"every":0.5}`,
		`{"enabled":1,"streaming":"No","maxMediaBytes":1e3,"token":"42","port":993.0,"every":"5e-1"}`,
	} {
		var got own
		if err := chat.Decode(json.RawMessage(section), &got); err != nil {
			t.Errorf("%s: %v", section, err)
			continue
		}
		off := false
		want := own{chat.Common{Enabled: true, Streaming: &off, MaxMediaBytes: 1000}, "42", 993, 0.5}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", section, d)
		}
	}
}
