package discord

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// The flags of an application whose bot may read what people write: of a bot in
// many servers, and of one in few.
const flagsContent = 1<<18 | 1<<19

// permissions are to view channels, send messages there and in threads, attach
// files, read the history and add reactions.
const permissions = 1<<10 | 1<<11 | 1<<38 | 1<<15 | 1<<16 | 1<<6

// probe asks Discord who we are and whether we may read what people write.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	ch, err := newChannel(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	b, ok := ch.(*bot)
	if !ok {
		return chat.Report{}, errors.New("not a Discord channel")
	}

	defer b.calls.rest.Client.CloseIdleConnections()
	var me user
	if err := b.calls.do(ctx, call{method: http.MethodGet, path: "/users/@me"}, &me); err != nil {
		if e := refusal(err); e != nil && e.Status == http.StatusUnauthorized {
			return chat.Report{}, b.badToken(err)
		}
		return chat.Report{}, err
	}

	b.me.Store(&me)
	var app struct {
		ID      string `json:"id"`
		Flags   int    `json:"flags"`
		Servers int    `json:"approximate_guild_count"`
	}
	if err := b.calls.do(ctx, call{method: http.MethodGet, path: "/applications/@me"}, &app); err != nil {
		return chat.Report{}, err
	}

	invite := "https://discord.com/oauth2/authorize?client_id=" + app.ID + "&scope=bot%20applications.commands&permissions=" + strconv.FormatInt(permissions, 10)
	content := chat.Check{Name: "message content", OK: true, Detail: "the bot reads what people write in servers"}
	switch {
	case b.o.Intents&intentContent == 0:
		content.Detail = "intents lacks Message Content (32768): in servers the bot reads only what names it"
	case app.Flags&flagsContent == 0:
		content.OK, content.Detail = false, "Message Content Intent is off: switch it on, on the Bot page of the developer portal"
	}

	servers := chat.Check{Name: "servers", OK: true, Detail: "to add the bot to a server, open " + invite}
	if app.Servers == 0 {
		servers.Detail = "the bot is in no server; people can write to it only if they share one. Open " + invite
	}
	return chat.Report{Identity: b.identity(), Checks: []chat.Check{{Name: "token", OK: true}, content, servers}}, nil
}
