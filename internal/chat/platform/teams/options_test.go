package teams

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// The section that Python nanobot writes loads as it is. Version 0.1.5 had no
// Teams.
func TestPythonSection(t *testing.T) {
	t.Parallel()
	const head = `{"enabled": true, "appId": "app", "appPassword": "secret", "tenantId": "tenant", "host": "0.0.0.0", "port": 3978,
		"path": "/api/messages", "allowFrom": ["aad-id"], "replyInThread": true, "mentionOnlyResponse": "Hi — what can I help with?",
		"validateInboundAuth": true, "refTtlDays": 30, "pruneWebChatRefs": true, "pruneNonPersonalRefs": true, "refTouchIntervalS": 300,
		"trustedServiceUrlHosts": ["smba.trafficmanager.net", "smba.infra.gcc.teams.microsoft.com", "smba.infra.gov.teams.microsoft.us",
		"smba.infra.dod.teams.microsoft.us", "*.botframework.com"]}`
	o, err := chat.Read(json.RawMessage(head), defaults())
	if err != nil {
		t.Fatal(err)
	}
	want := *defaults()
	if o.Host != "0.0.0.0" || o.Port != want.Port || o.Path != want.Path || !o.ReplyInThread || o.MentionOnlyResponse != want.MentionOnlyResponse ||
		!o.ValidateInboundAuth || o.RefTTLDays != 30 || o.RefTouchIntervalS != 300 || len(o.TrustedServiceURLHosts) != 5 || o.AllowFrom[0] != "aad-id" {
		t.Errorf("the section is read as %+v", o)
	}
	const other = `{"appId": "app", "appPassword": "secret", "trustedServiceUrlHosts": ["smba.infra.gov.teams.microsoft.us"]}`
	if _, err := chat.Read(json.RawMessage(other), defaults()); err != nil {
		t.Errorf("a section that trusts one cloud only: %v", err)
	}
	if want.Host != "127.0.0.1" {
		t.Errorf("the bot listens on %s unless the section says otherwise", want.Host)
	}
}

func TestBadSections(t *testing.T) {
	t.Parallel()
	for changes, want := range map[string]string{
		`"appId": ""`:                          "appId is missing",
		`"appPassword": ""`:                    "appPassword is missing",
		`"tenantId": "../x"`:                   "tenantId",
		`"path": "api"`:                        "path",
		`"port": 70000`:                        "port",
		`"refTtlDays": 0`:                      "refTtlDays",
		`"refTouchIntervalS": -1`:              "refTouchIntervalS",
		`"loginBase": "http://example.com"`:    "loginBase",
		`"openIdUrl": "x"`:                     "openIdUrl",
		`"serviceUrl": "https://example.com/"`: "serviceUrl",
		`"trustedServiceUrlHosts": []`:         "serviceUrl",
		`"appPasword": "secret-value"`:         `did you mean "appPassword"`,
		`"groupPolicy": "sometimes"`:           "groupPolicy",
		`"streaming": "perhaps"`:               "streaming",
	} {
		_, err := chat.Read(json.RawMessage(`{"appId": "app", "appPassword": "secret-value", `+changes+`}`), defaults())
		if !chat.IsFatal(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%s: %v", changes, err)
		}
	}
	if o, err := chat.Read(json.RawMessage(`{"appId": "a", "appPassword": "b", "streaming": false}`), defaults()); err != nil || o.caps().EditEvery != 0 {
		t.Errorf("streaming: false leaves %v, %v", o.caps().EditEvery, err)
	}
}
