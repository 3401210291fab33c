package signal

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// Sections of Python nanobot work as they are.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	const full = `{"enabled": true, "phoneNumber": "+1234567890", "daemonHost": "signal.lan", "daemonPort": 9090,
		"groupMessageBufferSize": 5, "attachmentsDir": "~/signal", "allowFrom": ["+1999", "GROUP="],
		"dm": {"enabled": true, "policy": "open", "allowFrom": ["+1999"]},
		"group": {"enabled": true, "policy": "open", "allowFrom": ["GROUP="], "requireMention": false}}`
	o, err := chat.Read(json.RawMessage(full), defaults())
	if err != nil {
		t.Fatal(err)
	}
	if o.base() != "http://signal.lan:9090" || o.local() || o.files("/home/ann") != "/home/ann/signal" {
		t.Errorf("base %s, local %v, files %s", o.base(), o.local(), o.files("/home/ann"))
	}
	if want := (dmOptions{Enabled: true, Policy: "open", AllowFrom: []string{"+1999"}}); !cmp.Equal(o.DM, want) {
		t.Errorf("dm %+v", o.DM)
	}
	if want := (groupOptions{Enabled: true, Policy: "open", AllowFrom: []string{"GROUP="}}); !cmp.Equal(o.Group, want) {
		t.Errorf("group %+v", o.Group)
	}
	if r := o.rules(); r.History != 5 {
		t.Errorf("history %d", r.History)
	}

	// What onboarding writes, with a number.
	const written = `{"enabled": false, "phoneNumber": "1234567890", "daemonHost": "localhost", "daemonPort": 8080,
		"groupMessageBufferSize": 20, "attachmentsDir": null, "allowFrom": [],
		"dm": {"enabled": true, "policy": "allowlist", "allowFrom": []},
		"group": {"enabled": false, "policy": "allowlist", "allowFrom": [], "requireMention": true}}`
	o, err = chat.Read(json.RawMessage(written), defaults())
	if err != nil {
		t.Fatal(err)
	}
	if o.PhoneNumber != "+1234567890" || !o.local() || !strings.HasSuffix(o.files("/home/ann"), "signal-cli/attachments") {
		t.Errorf("number %s, local %v, files %s", o.PhoneNumber, o.local(), o.files("/home/ann"))
	}
	if o.DM.Enabled != defaults().DM.Enabled || !o.Group.RequireMention {
		t.Errorf("dm %+v, group %+v", o.DM, o.Group)
	}
}

func TestWrongSections(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		`{}`:                      "phoneNumber is missing",
		`{"phoneNumber": "ann"}`:  "country code",
		`{"phoneNumber": "+1 2"}`: "country code",
		`{"phoneNumber": "+1234567", "daemonPort": 0}`:                   "daemonPort",
		`{"phoneNumber": "+1234567", "daemonHost": ""}`:                  "daemonHost",
		`{"phoneNumber": "+1234567", "groupMessageBufferSize": 0}`:       "groupMessageBufferSize",
		`{"phoneNumber": "+1234567", "dm": {"policy": "closed"}}`:        `dm.policy: "closed" must be allowlist or open`,
		`{"phoneNumber": "+1234567", "group": {"policy": "mention"}}`:    "group.policy",
		`{"phoneNumber": "+1234567", "phoneNumer": "+1234567"}`:          `did you mean "phoneNumber"?`,
		`{"phoneNumber": "+1234567", "group": {"requireMention": "so"}}`: "group.requireMention",
	} {
		if _, err := chat.Read(json.RawMessage(section), defaults()); err == nil || !strings.Contains(err.Error(), want) || !chat.IsFatal(err) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
}
