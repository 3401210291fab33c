package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	directoryAge = 10 * time.Minute // how long lists of names count
	directoryMax = 50               // pages of a list
	pageSize     = 200
)

// names is what we know about people and channels.
type names struct {
	people *recent.Map[string, string] // id -> name
	direct *recent.Map[string, string] // id of a person -> conversation with them

	mu       sync.Mutex
	channels directory
	handles  directory
}

// directory maps names to ids.
type directory struct {
	ids  map[string]string
	read time.Time
}

func newNames() *names {
	return &names{people: recent.New[string, string](2000), direct: recent.New[string, string](2000)}
}

// cached returns the name of a person as far as it is known: nothing is asked.
func (c *client) cached(id string) string {
	name, ok := c.names.people.Get(id)
	if !ok {
		return id
	}
	return name
}

// person returns the name of a person, their id if it cannot be had.
func (c *client) person(ctx context.Context, id string) string {
	if name, ok := c.names.people.Get(id); ok {
		return name
	}
	if id == "" {
		return "an app"
	}

	u, err := call(ctx, func(ctx context.Context) (*api.User, error) { return c.api.GetUserInfoContext(ctx, id) })
	if err != nil {
		c.report(ctx, "the name of a person cannot be read", refusal(err), err)
		if refusal(err) != "" { // asking again would not help
			c.names.people.Put(id, id)
		}
		return id
	}

	name := cmp.Or(u.Profile.DisplayName, u.Profile.RealName, u.RealName, u.Name, id)
	name = cmp.Or(text.Speaker(name), id)
	c.names.people.Put(id, name)
	return name
}

// open returns the conversation with a person.
func (c *client) open(ctx context.Context, user string) (string, error) {
	if chatID, ok := c.names.direct.Get(user); ok {
		return chatID, nil
	}

	conversation, err := call(ctx, func(ctx context.Context) (*api.Channel, error) {
		conversation, _, _, err := c.api.OpenConversationContext(ctx, &api.OpenConversationParameters{Users: []string{user}})
		return conversation, err
	})
	if err != nil {
		return "", c.classify(err)
	}

	c.names.direct.Put(user, conversation.ID)
	return conversation.ID, nil
}

// Address implements chat.Addresser: a target is an id, a mention, #name,
// @handle, or a name.
func (b *bot) Address(ctx context.Context, target string) (bus.Route, error) {
	chatID, err := b.web.chat(ctx, strings.TrimSpace(target))
	return bus.Route{Channel: b.deps.Name, ChatID: chatID}, err
}

// chat returns the id of the conversation that a target names.
func (c *client) chat(ctx context.Context, target string) (string, error) {
	if inner, ok := strings.CutPrefix(target, "<"); ok {
		inner, _, _ = strings.Cut(strings.TrimSuffix(inner, ">"), "|")
		target = strings.TrimLeft(inner, "#@")
	}

	switch {
	case !isID(target):
	case strings.ContainsRune("UW", rune(target[0])):
		return c.open(ctx, target)
	default:
		return target, nil
	}

	name := strings.ToLower(strings.TrimLeft(target, "#@"))
	if name == "" {
		return "", chat.Permanent(errors.New("no target: name a channel (#general), a person (@ann) or an id"))
	}

	if !strings.HasPrefix(target, "@") {
		id, err := c.find(ctx, &c.names.channels, name, c.listChannels)
		if err != nil || id != "" {
			return id, err
		}
	}

	if !strings.HasPrefix(target, "#") {
		id, err := c.find(ctx, &c.names.handles, name, c.listPeople)
		if err != nil {
			return "", err
		}
		if id != "" {
			return c.open(ctx, id)
		}
	}

	return "", chat.Permanent(fmt.Errorf("Slack knows no %q that the bot can see: use the id of a channel or person, or invite the bot to a private channel first", target)) //nolint:staticcheck // a name begins the sentence
}

// isID reports whether a target is an id of Slack's.
func isID(s string) bool {
	if len(s) < 3 || !strings.ContainsRune("CDGUW", rune(s[0])) {
		return false
	}
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// find returns an id by a name in a directory that is read when it is too old.
func (c *client) find(ctx context.Context, d *directory, name string, list func(ctx context.Context, into map[string]string) error) (string, error) {
	c.names.mu.Lock()
	defer c.names.mu.Unlock()
	if now := c.deps.Now(); d.ids == nil || now.Sub(d.read) > directoryAge {
		ids := map[string]string{}
		if err := list(ctx, ids); err != nil {
			return "", c.classify(err)
		}
		d.ids, d.read = ids, now
	}

	return d.ids[name], nil
}

func (c *client) listChannels(ctx context.Context, into map[string]string) error {
	p := api.GetConversationsParameters{Types: []string{"public_channel", "private_channel"}, ExcludeArchived: true, Limit: pageSize}
	for range directoryMax {
		list, err := call(ctx, func(ctx context.Context) (list []api.Channel, err error) {
			list, p.Cursor, err = c.api.GetConversationsContext(ctx, &p)
			return list, err
		})
		if err != nil {
			return err
		}

		for i := range list {
			into[strings.ToLower(list[i].Name)] = list[i].ID
		}

		if p.Cursor == "" {
			break
		}
	}

	return nil
}

func (c *client) listPeople(ctx context.Context, into map[string]string) error {
	page := c.api.GetUsersPaginated(api.GetUsersOptionLimit(pageSize))
	for range directoryMax {
		next, err := call(ctx, page.Next)
		if page.Done(err) {
			break
		}
		if err != nil {
			return err
		}

		page = next
		for i := range page.Users {
			if u := &page.Users[i]; !u.Deleted && !u.IsBot {
				into[strings.ToLower(u.Name)] = u.ID
			}
		}
	}

	return nil
}
