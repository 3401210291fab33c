package discord

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// placesKept is how many channels and threads are remembered; others are asked for.
const placesKept = 5000

// places is what is known about servers, their channels and threads.
type places struct {
	known  *recent.Map[string, place]
	people *recent.Map[string, string] // user name -> id, of people who may be here

	mu    sync.Mutex
	named map[string]map[string]bool // name of a channel -> ids
	roles map[string]string          // server -> role that Discord made for the bot
	tiers map[string]int             // server -> level of its boosts
}

func newPlaces() *places {
	return &places{
		known: recent.New[string, place](placesKept), people: recent.New[string, string](placesKept),
		named: map[string]map[string]bool{}, roles: map[string]string{}, tiers: map[string]int{},
	}
}

// enter notes a server.
func (p *places) enter(g guild, me *user) {
	for _, list := range [][]place{g.Channels, g.Threads} {
		for _, c := range list {
			c.GuildID = g.ID
			p.store(c)
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.tiers[g.ID] = g.Tier

	for _, r := range g.Roles {
		if me != nil && r.Tags.BotID == me.ID {
			p.roles[g.ID] = r.ID
		}
	}
}

func (p *places) store(c place) {
	p.drop(c.ID)
	p.known.Put(c.ID, c)
	if c.readable() && c.Name != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.named[c.Name] == nil {
			p.named[c.Name] = map[string]bool{}
		}
		p.named[c.Name][c.ID] = true
	}
}

func (p *places) drop(id string) {
	old, _ := p.known.Get(id)
	p.known.Delete(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.named[old.Name], id); len(p.named[old.Name]) == 0 {
		delete(p.named, old.Name)
	}
}

// called returns the channels and threads of a name.
func (p *places) called(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.named[name]))
}

func (p *places) role(guild string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roles[guild]
}

// upload returns the size of a file that can be sent to a place.
func (p *places) upload(id string) int64 {
	c, _ := p.known.Get(id)
	p.mu.Lock()
	defer p.mu.Unlock()

	switch p.tiers[c.GuildID] {
	case 2:
		return maxBoosted / 2
	case 3:
		return maxBoosted
	}
	return maxUpload
}

// find returns a channel or a thread, which is asked for if it is not known.
func (b *bot) find(ctx context.Context, id string) (place, error) {
	if c, ok := b.places.known.Get(id); ok {
		return c, nil
	}
	var c place
	if err := b.calls.do(ctx, call{method: http.MethodGet, path: "/channels/" + id, patience: 10 * time.Second}, &c); err != nil {
		return place{}, err
	}
	b.places.store(c)
	return c, nil
}

// route returns where a message of a channel belongs: a thread is part of its channel.
// A place that may not be looked at is a channel.
func (b *bot) route(ctx context.Context, guild, id string) (bus.Route, error) {
	r := bus.Route{Channel: b.deps.Name, ChatID: id}
	if guild == "" {
		return r, nil
	}

	c, err := b.find(ctx, id)
	if e := refusal(err); e != nil && (e.Status == http.StatusForbidden || e.Status == http.StatusNotFound) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	return b.routeIn(c), nil
}

// routeIn returns the route of a place that is known.
func (b *bot) routeIn(c place) bus.Route {
	if c.thread() && c.ParentID != "" {
		return bus.Route{Channel: b.deps.Name, ChatID: c.ParentID, ThreadID: c.ID}
	}
	return bus.Route{Channel: b.deps.Name, ChatID: c.ID}
}

// Address implements chat.Addresser: a target is the id of a channel, a thread
// or a person, the name of a channel such as #general, or the user name of
// a person who wrote to us, such as @ann.
func (b *bot) Address(ctx context.Context, target string) (bus.Route, error) {
	target = strings.TrimSpace(target)
	if name, ok := strings.CutPrefix(target, "#"); ok {
		switch ids := b.places.called(name); len(ids) {
		case 1:
			target = ids[0]
		case 0:
			return bus.Route{}, fmt.Errorf("no channel of Discord that the bot sees is called %q", target)
		default:
			return bus.Route{}, fmt.Errorf("several channels are called %q; use one of their ids: %s", target, strings.Join(ids, ", "))
		}
	}

	if name, ok := strings.CutPrefix(target, "@"); ok {
		id, known := b.places.people.Get(strings.ToLower(name))
		if !known {
			return bus.Route{}, fmt.Errorf("%q did not write to the bot since it started; use the number of the person", target)
		}
		return b.directChat(ctx, id)
	}

	if number(target) == 0 {
		return bus.Route{}, fmt.Errorf("%q is not a Discord channel: use its number, #name, @name or the number of a person", target)
	}

	_, err := b.find(ctx, target)
	if is(err, codeUnknownChannel) {
		return b.directChat(ctx, target)
	}
	if err != nil {
		return bus.Route{}, err
	}
	return b.route(ctx, target, target)
}

// directChat returns the chat with a person.
func (b *bot) directChat(ctx context.Context, person string) (bus.Route, error) {
	var c place
	err := b.calls.do(ctx, call{method: http.MethodPost, path: "/users/@me/channels", body: map[string]string{"recipient_id": person}, patience: 10 * time.Second}, &c)
	if e := refusal(err); e != nil && e.Status == http.StatusBadRequest {
		return bus.Route{}, fmt.Errorf("Discord knows neither a channel nor a person %s: %w", person, err) //nolint:staticcheck // a name begins the sentence
	}
	if err == nil && c.ID == "" {
		err = errors.New("Discord named no chat with this person") //nolint:staticcheck // a name begins the sentence
	}
	return bus.Route{Channel: b.deps.Name, ChatID: c.ID}, err
}
