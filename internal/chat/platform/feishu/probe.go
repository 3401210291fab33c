package feishu

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// needed returns the scopes without which something does not work: one of each
// group is enough.
func needed() [][]string {
	return [][]string{
		{"im:message", "im:message:send_as_bot"},
		{"im:message.p2p_msg:readonly", "im:message.p2p_msg", "im:message"},
		{"im:message.group_at_msg:readonly", "im:message.group_at_msg", "im:message.group_msg", "im:message"},
		{"im:resource"},
		{"cardkit:card:write"},
	}
}

// probe asks Feishu who we are, what we may do, and whether the long connection
// is on. It does not connect: events would be lost to a gateway that runs.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	b, err := newBot(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	defer b.calls.app.Client.CloseIdleConnections()
	me, err := b.calls.whoAmI(ctx)
	if err != nil {
		return chat.Report{}, b.refusedApp(err)
	}

	b.me.Store(&me)

	events := chat.Check{Name: "events", OK: true, Detail: "by requests to " + b.o.WebhookPath}
	if b.o.Mode == modeSocket {
		events.Detail = "by the long connection"
		if _, err := b.calls.endpoint(ctx); err != nil {
			events.OK, events.Detail = false, chat.Explain(err).Error()
		}
	}
	return chat.Report{Identity: b.identity(), Checks: []chat.Check{{Name: "app", OK: true}, b.calls.scopes(ctx), events}}, nil
}

// scopes looks which of the needed ones are granted.
func (c *client) scopes(ctx context.Context) chat.Check {
	check := chat.Check{Name: "scopes", OK: true}
	var got struct {
		Scopes []struct {
			Name    string `json:"scope_name"`
			Granted int    `json:"grant_status"`
		} `json:"scopes"`
	}
	if err := c.call(ctx, http.MethodGet, "/open-apis/application/v6/scopes", nil, &got); err != nil {
		check.Detail = "they cannot be read: " + chat.Explain(err).Error()
		return check
	}

	var lack []string
	for _, group := range needed() {
		found := false
		for _, s := range got.Scopes {
			found = found || s.Granted == 1 && slices.Contains(group, s.Name)
		}
		if !found {
			lack = append(lack, group[0])
		}
	}

	if len(lack) > 0 {
		check.OK = false
		check.Detail = "missing: " + strings.Join(lack, ", ") + "; add them in the developer console under Permissions & Scopes, and publish a version"
	}
	return check
}
