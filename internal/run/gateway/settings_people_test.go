package gateway_test

import (
	"strings"
	"testing"
)

// What the pages about channels and skills need besides the configuration.
func TestManageChannelsAndSkills(t *testing.T) {
	t.Parallel()
	o := newOffice(t, echo(t))
	if _, _, body := o.get("settings/channel-schema?name=telegram"); !strings.Contains(body, `"needed":["token"]`) || !strings.Contains(body, `"settings":{`) || strings.Contains(body, "token-of-telegram") {
		t.Errorf("schema: %s", body)
	}
	if got := o.do("settings.channel.restart", `{"name": "party"}`); got["name"] != "party" {
		t.Errorf("restart: %v", got)
	}
	if _, _, body := o.get("settings/nanobot-features"); !strings.Contains(body, `"logout":true`) {
		t.Errorf("features: %s", body)
	}
	o.do("settings.channel.logout", `{"name": "party"}`)
	if o.party.left != 1 {
		t.Errorf("%d logouts", o.party.left)
	}
	o.do("skill.disable", `{"name": "weather"}`)
	if text := strings.Join(strings.Fields(o.file()), ""); !strings.Contains(text, `"disabledSkills":["weather"]`) {
		t.Errorf("disabled: %s", text)
	}
	o.do("skill.enable", `{"name": "weather"}`)
	if strings.Contains(o.file(), "weather") {
		t.Errorf("enabled: %s", o.file())
	}
	for _, c := range []struct {
		action, payload string
		status          int
		want            string
	}{
		{"settings.channel.restart", `{"name": "telegram"}`, 409, "not switched on"},
		{"settings.channel.restart", `{"name": "websocket"}`, 409, "carries this page"},
		{"settings.channel.logout", `{"name": "telegram"}`, 501, "needs no login"},
		{"settings.channel.logout", `{"name": "party.second"}`, 409, "not configured"},
		{"settings.channel.logout", `{"name": "moon"}`, 404, "unknown channel"},
		{"settings.pairing.invite", `{"name": "telegram"}`, 409, "not connected"},
		{"settings.pairing.invite", `{"name": "party"}`, 501, "no links"},
		{"settings.pairing.invite", `{"name": "moon"}`, 404, "unknown channel"},
		{"skill.disable", `{"name": "none"}`, 404, "no skill"},
	} {
		o.refused(c.action, c.payload, c.status, c.want)
	}
}
