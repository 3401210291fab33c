package discord

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/recent"
)

// placesKept is how many channels and threads are remembered; others are asked for.
const placesKept = 5000

// places is what is known about servers, their channels and threads.
type places struct {
	known *recent.Map[string, place]

	mu    sync.Mutex
	roles map[string]string // server -> role that Discord made for the bot
	tiers map[string]int    // server -> level of its boosts
}

func newPlaces() *places {
	return &places{known: recent.New[string, place](placesKept), roles: map[string]string{}, tiers: map[string]int{}}
}

// enter notes a server.
func (p *places) enter(g guild, me *user) {
	for _, list := range [][]place{g.Channels, g.Threads} {
		for _, c := range list {
			c.GuildID = g.ID
			p.put(c)
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

func (p *places) put(c place) { p.known.Put(c.ID, c) }

func (p *places) drop(id string) { p.known.Delete(id) }

func (p *places) role(guild string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roles[guild]
}

// upload is the size of a file that can be sent to a place.
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

// find is a channel or a thread, which is asked for if it is not known.
func (b *bot) find(ctx context.Context, id string) (place, error) {
	if c, ok := b.places.known.Get(id); ok {
		return c, nil
	}
	var c place
	if err := b.calls.do(ctx, call{method: http.MethodGet, path: "/channels/" + id, patience: 10 * time.Second}, &c); err != nil {
		return place{}, err
	}
	b.places.put(c)
	return c, nil
}

// route is where a message of a channel belongs: a thread is part of its channel.
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
	if c.thread() && c.ParentID != "" {
		r.ChatID, r.ThreadID = c.ParentID, id
	}
	return r, nil
}
