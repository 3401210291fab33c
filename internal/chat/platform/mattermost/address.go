package mattermost

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// Address implements chat.Addresser: ~channel or #channel, @person, or the id
// of a channel or a person.
func (b *bot) Address(ctx context.Context, target string) (bus.Route, error) {
	target = strings.TrimSpace(target)
	var id string
	var err error
	switch name := strings.TrimLeft(target, "~#@"); {
	case name == "":
		return bus.Route{}, chat.Permanent(fmt.Errorf("%q is not a Mattermost chat: use ~channel, @person or an id", target))
	case target[0] == '~' || target[0] == '#':
		id, err = b.calls.channelNamed(ctx, b.o.TeamID, name)
	case target[0] == '@':
		var who user
		if err = b.calls.call(ctx, http.MethodGet, "/users/username/"+url.PathEscape(strings.ToLower(name)), nil, &who); err == nil {
			id, err = b.calls.directTo(ctx, b.me.Load(), who.ID)
		}

	default:
		id, err = b.calls.byID(ctx, b.me.Load(), name)
	}

	if refusal(err).refused() {
		err = chat.Permanent(fmt.Errorf("%q is not a chat that %s can write to: %w", target, b.identity(), err))
	}

	if err != nil {
		return bus.Route{}, err
	}
	return bus.Route{Channel: b.deps.Name, ChatID: id}, nil
}

// byID returns the channel of an id, or the direct one of a person's id.
func (c *client) byID(ctx context.Context, me *user, id string) (string, error) {
	var channel conversation
	err := c.call(ctx, http.MethodGet, "/channels/"+url.PathEscape(id), nil, &channel)
	if !refusal(err).refused() {
		return channel.ID, err
	}

	var who user
	if c.call(ctx, http.MethodGet, "/users/"+url.PathEscape(id), nil, &who) != nil {
		return "", err
	}
	return c.directTo(ctx, me, who.ID)
}

// directTo returns the direct channel of a person and us; me is nil before
// the server said who we are.
func (c *client) directTo(ctx context.Context, me *user, id string) (string, error) {
	if me == nil {
		return "", chat.ErrNotReady
	}
	var channel conversation
	err := c.call(ctx, http.MethodPost, "/channels/direct", []string{me.ID, id}, &channel)
	return channel.ID, err
}

// channelNamed finds a channel by its name: in a team, or with the id "" in
// all teams that we are in. A name that is in several of them is an error.
func (c *client) channelNamed(ctx context.Context, team, name string) (string, error) {
	teams := []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}{{ID: team}}
	if team == "" {
		if err := c.call(ctx, http.MethodGet, "/users/me/teams", nil, &teams); err != nil {
			return "", err
		}
	}

	found, in := "", ""
	last := error(&apiError{Call: "find a channel", Code: http.StatusNotFound, Message: "no team has it; add the bot to the team"})
	for _, t := range teams {
		var channel conversation
		err := c.call(ctx, http.MethodGet, "/teams/"+url.PathEscape(t.ID)+"/channels/name/"+url.PathEscape(strings.ToLower(name)), nil, &channel)
		switch {
		case refusal(err).refused():
			last = err
		case err != nil:
			return "", err
		case found != "":
			return "", chat.Permanent(fmt.Errorf("~%s is in the teams %s and %s: use the id of the channel, or set teamId", name, in, t.Name))
		default:
			found, in = channel.ID, t.Name
		}
	}

	if found == "" {
		return "", last
	}
	return found, nil
}

// probe asks the server who we are and where we are.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	ch, err := newChannel(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	b := ch.(*bot) //nolint:errcheck // what newChannel makes
	defer b.calls.rest.Client.CloseIdleConnections()
	var me user
	if err := b.calls.call(ctx, http.MethodGet, "/users/me", nil, &me); err != nil {
		return chat.Report{}, b.refusedToken(err)
	}

	b.me.Store(&me)
	var chats []conversation
	if err := b.calls.call(ctx, http.MethodGet, "/users/me/channels", nil, &chats); err != nil {
		return chat.Report{}, err
	}

	account := chat.Check{Name: "account", OK: true, Detail: "a bot account"}
	if !me.IsBot {
		account.Detail = "the token belongs to a person; answers appear in their name"
	}

	places := chat.Check{Name: "channels", OK: true, Detail: fmt.Sprintf("the bot is in %d channels", len(chats))}
	if len(chats) == 0 {
		places.Detail = "the bot is in no channel yet: add it to a team and to channels, or write to it directly"
	}
	return chat.Report{Identity: b.identity(), Checks: []chat.Check{{Name: "token", OK: true}, account, places}}, nil
}
