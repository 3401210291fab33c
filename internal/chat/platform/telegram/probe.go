package telegram

import (
	"context"
	"encoding/json"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// probe asks Telegram who we are and whether another program stands in the way.
// It does not receive: that would take updates from a gateway that runs.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	b, err := newBot(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	defer b.calls.rest.Client.CloseIdleConnections()
	var me struct {
		user
		ReadsGroups bool `json:"can_read_all_group_messages"`
	}
	if err := b.calls.call(ctx, "getMe", nil, &me); err != nil {
		return chat.Report{}, b.refusedToken(err)
	}

	b.me.Store(&me.user)
	var hook struct {
		URL       string `json:"url"`
		LastError string `json:"last_error_message"`
	}
	if err := b.calls.call(ctx, "getWebhookInfo", nil, &hook); err != nil {
		return chat.Report{}, err
	}

	groups := chat.Check{Name: "groups", OK: true, Detail: "the bot sees only what names it or answers it"}
	if me.ReadsGroups {
		groups.Detail = "the bot sees all messages of its groups"
	} else if b.o.GroupPolicy == access.Open {
		groups.OK, groups.Detail = false, "groupPolicy is open, but the bot sees only what names it: switch off privacy mode with /setprivacy at @BotFather, then add the bot to the group again"
	}

	way := chat.Check{Name: "updates", OK: true, Detail: "by " + b.o.Mode}
	switch {
	case b.o.Mode == modePolling && hook.URL != "":
		way.Detail = "a webhook is set for this token and will be removed when the gateway starts"
	case b.o.Mode == modeWebhook && hook.URL != b.o.WebhookURL:
		way.Detail = "the webhook is set when the gateway starts"
	case b.o.Mode == modeWebhook && hook.LastError != "":
		way.OK, way.Detail = false, "Telegram could not reach webhookUrl last time: "+hook.LastError
	}

	return chat.Report{Identity: b.identity(), Checks: []chat.Check{{Name: "token", OK: true}, groups, way}}, nil
}
