package discord

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	directMost  = 100     // direct chats that are read after a pause
	pageSize    = 100     // messages of one request
	pagesMost   = 10      // of one channel
	catchUpMost = 100     // channels of a server that are read after a pause
	openMost    = 20      // direct chats that are opened for people on the lists
	allChats    = "*"     // the cursor of all chats together: all that was written before is taken
	personMark  = "user:" // precedes a person, whose cursor names the direct chat
)

// progress is how far was read: one cursor for all chats, since the gateway keeps
// their order, and one for each direct chat, to know them after a restart.
type progress struct {
	log *slog.Logger

	mu      sync.Mutex
	cursors *kit.Cursors // nil before the first session
	last    uint64
	reading int // channels that are being caught up with; the cursor waits for them
}

// begin says who we are, and returns the newest message that was taken and the
// direct chats, the last used first.
func (p *progress) begin(ctx context.Context, d chat.Deps, bot string) (last uint64, direct []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.cursors == nil {
		if p.cursors, err = kit.OpenCursors(d, bot); err != nil {
			return 0, nil, err
		}
		p.last = number(p.cursors.Get(allChats))
	}

	if p.last == 0 { // the first session ever: what is written from now on counts
		p.last = snowflake(d.Now())
		p.advance(ctx)
		return 0, nil, nil
	}

	direct = slices.DeleteFunc(p.cursors.Chats(), func(s string) bool { return number(s) == 0 })
	return p.last, direct[:min(len(direct), directMost)], nil
}

// saw notes a message that is durable or not for us.
func (p *progress) saw(ctx context.Context, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.last, number(id))
	p.advance(ctx)
}

// advance moves the cursor. The lock is held.
func (p *progress) advance(ctx context.Context) {
	if p.cursors != nil && p.reading == 0 && p.last > 0 {
		p.setCursor(ctx, allChats, strconv.FormatUint(p.last, 10))
	}
}

// direct notes a message in a direct chat of a person who is admitted.
func (p *progress) direct(ctx context.Context, chatID, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cursors != nil {
		p.setCursor(ctx, chatID, message)
	}
}

// setCursor stores how far a chat was read. The lock is held.
func (p *progress) setCursor(ctx context.Context, chatID, at string) {
	if err := p.cursors.Set(chatID, at); err != nil { // what is read again is known by its ids
		p.log.WarnContext(ctx, "cannot save how far was read", "err", err)
	}
}

// hasCursor reports whether there is a cursor.
func (p *progress) hasCursor(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cursors == nil || p.cursors.Get(key) != ""
}

// begun and done count the channels that are being caught up with.
func (p *progress) begun() { p.mu.Lock(); p.reading++; p.mu.Unlock() }

func (p *progress) done(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading--
	p.advance(ctx)
}

// flush writes the cursors at the end of a run.
func (p *progress) flush(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cursors == nil {
		return
	}
	if err := p.cursors.Flush(); err != nil {
		p.log.WarnContext(ctx, "cannot save how far was read", "err", err)
	}
}

// pause is what was written while no events came, and is still to be read.
type pause struct {
	mu     sync.Mutex
	since  uint64          // what was written after this id; 0 is none
	guilds map[string]bool // servers that did not come online since the session began
	behind map[string]bool // channels that will be read because events could not be held
}

// begin sets what is to be read in a new session.
func (p *pause) begin(since uint64, guilds []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = since
	p.guilds = map[string]bool{}
	for _, id := range guilds {
		p.guilds[id] = true
	}
}

// guildCame returns since when the channels of a server are to be read; 0 is not at
// all, as for a server that came before or is a new one.
func (p *pause) guildCame(id string) (since uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.guilds[id] {
		return 0
	}
	delete(p.guilds, id)
	return p.since
}

// fallBehind records a channel of which an event could not be held, and reports
// whether it is the first one since the channel was read.
func (p *pause) fallBehind(channel string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind[channel] {
		return false
	}
	p.behind[channel] = true
	return true
}

// catchUp records that a channel is read now: what comes from now on is not in it.
func (p *pause) catchUp(channel string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.behind, channel)
}

// missed is a channel whose messages after one are to be read.
type missed struct {
	channel, guild string
	after          uint64
}

// began is the beginning of a session: direct chats are caught up with, servers
// when they come online.
func (rc *receiver) began(ctx context.Context, bot string, guilds []string) error {
	last, direct, err := rc.read.begin(ctx, rc.bot.deps, bot)
	if err != nil {
		return err
	}

	rc.once.Do(func() { close(rc.ready) })
	since := rc.from(last)
	rc.pause.begin(since, guilds)
	if since == 0 {
		return nil
	}

	for _, id := range direct {
		rc.catchUp(ctx, missed{channel: id, after: since})
	}
	return nil
}

// openDirect finds out the direct chats of people on the lists, once each:
// Discord does not list them, and what is written there during a pause would not
// be found. People do not see it.
func (rc *receiver) openDirect(ctx context.Context) {
	people := slices.DeleteFunc(slices.Concat(rc.bot.o.Owners, rc.bot.o.AllowFrom), func(s string) bool { return number(s) == 0 })
	for _, id := range people[:min(len(people), openMost)] {
		if rc.read.hasCursor(personMark + id) {
			continue
		}

		to, err := rc.bot.directChat(ctx, id)
		if err != nil {
			rc.bot.deps.Log.DebugContext(ctx, "find the direct chat of a person", "person", id, "err", err)
			continue
		}

		rc.read.direct(ctx, to.ChatID, "0")
		rc.read.direct(ctx, personMark+id, to.ChatID)
	}
}

// from returns where reading begins: where it ended, but not longer ago than the
// settings say. 0: nothing is read.
func (rc *receiver) from(last uint64) uint64 {
	const slack = 5000 << 22 // five seconds: numbers of different channels may be out of order
	oldest, wanted := rc.bot.deps.Gate.Backlog()
	if last == 0 || !wanted {
		return 0
	}
	return max(last-min(last, slack), snowflake(oldest), 1)
}

// guildCame catches up with the channels of a server in which something was
// written, those with the newest messages first.
func (rc *receiver) guildCame(ctx context.Context, g guild) {
	since := rc.pause.guildCame(g.ID)
	if since == 0 {
		return
	}
	all := slices.DeleteFunc(slices.Concat(g.Channels, g.Threads), func(c place) bool { return !c.readable() || number(c.LastMessage) <= since })
	sort.Slice(all, func(i, j int) bool { return number(all[i].LastMessage) > number(all[j].LastMessage) })
	for _, c := range all[:min(len(all), catchUpMost)] {
		rc.catchUp(ctx, missed{channel: c.ID, guild: g.ID, after: since})
	}
}

// catchUp queues the reading of a channel, before anything that comes live.
func (rc *receiver) catchUp(ctx context.Context, m missed) {
	rc.read.begun()
	rc.in.Add(m.channel, event{Missed: &m}, func() { rc.read.done(ctx) })
}

// fallBehind reads a channel later, because a message of it could not be held.
func (rc *receiver) fallBehind(ctx context.Context, m *message) {
	first := rc.pause.fallBehind(m.ChannelID)
	if n := number(m.ID); first && n > 0 {
		rc.catchUp(ctx, missed{channel: m.ChannelID, guild: m.GuildID, after: n - 1})
	}
}

// catchUpWith handles the messages of a channel after one. Those that were handled are
// known by their ids.
func (rc *receiver) catchUpWith(ctx context.Context, m *missed) error {
	rc.pause.catchUp(m.channel)
	after := m.after
	for range pagesMost {
		var page []json.RawMessage
		path := "/channels/" + m.channel + "/messages?limit=" + strconv.Itoa(pageSize) + "&after=" + strconv.FormatUint(after, 10)
		err := rc.bot.calls.do(ctx, call{method: http.MethodGet, path: path, patience: time.Minute}, &page)
		if e := refusal(err); e != nil && e.Status/100 == 4 && e.Status != http.StatusTooManyRequests {
			rc.bot.deps.Log.InfoContext(ctx, "a channel cannot be read to catch up", "channel", m.channel, "err", err)
			return nil
		}
		if err != nil {
			return err
		}

		list := make([]message, 0, len(page))
		for _, raw := range page {
			var one message
			if err := json.Unmarshal(raw, &one); err != nil {
				rc.trouble.Warn(ctx, "history", "a message of Discord cannot be read", "err", err)
				continue
			}
			one.ChannelID, one.GuildID = m.channel, m.guild
			list = append(list, one)
		}

		sort.Slice(list, func(i, j int) bool { return number(list[i].ID) < number(list[j].ID) })
		for i := range list {
			after = max(after, number(list[i].ID))
			if rc.concerns(&list[i]) {
				if err := rc.written(ctx, &list[i], backlog); err != nil {
					return err
				}
			}
		}

		if len(page) < pageSize || len(list) == 0 {
			return nil
		}
	}

	rc.bot.deps.Log.WarnContext(ctx, "too much was written to catch up with all of it", "channel", m.channel, "messages", pagesMost*pageSize)
	return nil
}
