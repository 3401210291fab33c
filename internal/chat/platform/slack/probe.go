package slack

import (
	"context"
	"encoding/json"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// probe asks Slack who we are, what we may do, and whether Socket Mode works.
// It does not connect: events would be lost to a gateway that runs.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	b, err := newBot(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	defer b.http.CloseIdleConnections()
	me, err := b.api.AuthTestContext(ctx)
	if err != nil {
		return chat.Report{}, b.web.refusedToken("botToken", err)
	}

	b.me.Store(me)

	scopes := chat.Check{Name: "scopes", OK: true}
	if lack := missing(me.Header, needed()); lack != "" {
		scopes.OK, scopes.Detail = false, "missing: "+lack+"; add them in the app's settings under OAuth & Permissions and install the app again"
	}

	events := chat.Check{Name: "events", OK: true, Detail: "by requests to " + b.o.WebhookPath}
	if b.o.Mode == modeSocket {
		events.Detail = "by Socket Mode"
		if _, _, err := b.api.StartSocketModeContext(ctx); err != nil {
			events.OK, events.Detail = false, chat.Explain(b.web.refusedToken("appToken", err)).Error()
		}
	}
	return chat.Report{Identity: b.identity(), Checks: []chat.Check{{Name: "token", OK: true}, scopes, events}}, nil
}
