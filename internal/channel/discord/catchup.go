package discord

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/channel"
)

const (
	directMost  = 100 // direct chats that are read after a pause
	pageSize    = 100 // messages of one request
	pagesMost   = 10  // of one channel
	catchUpMost = 100 // channels of a server that are read after a pause
	allChats    = "*" // the cursor of all chats together: all that was written before is taken
)

// progress is how far was read: one cursor for all chats, since the gateway keeps
// their order, and one for each direct chat, to know them after a restart.
type progress struct {
	log *slog.Logger

	mu      sync.Mutex
	cursors *channel.Cursors // nil before the first session
	last    uint64
	reading int // channels that are being caught up with; the cursor waits for them
}

// begin says who we are, and returns the newest message that was taken and the
// direct chats, the last used first.
func (p *progress) begin(d channel.Deps, bot string) (last uint64, direct []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cursors == nil {
		if p.cursors, err = channel.OpenCursors(d, bot); err != nil {
			return 0, nil, err
		}
		p.last = number(p.cursors.Get(allChats))
	}
	direct = slices.DeleteFunc(p.cursors.Chats(), func(s string) bool { return s == allChats })
	return p.last, direct[:min(len(direct), directMost)], nil
}

// saw notes a message that is durable or not for us.
func (p *progress) saw(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = max(p.last, number(id))
	p.note()
}

// note moves the cursor. The lock is held.
func (p *progress) note() {
	if p.cursors != nil && p.reading == 0 && p.last > 0 {
		p.report(p.cursors.Set(allChats, strconv.FormatUint(p.last, 10)))
	}
}

// direct notes a message in a direct chat of somebody who may be here.
func (p *progress) direct(chat, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cursors != nil {
		p.report(p.cursors.Set(chat, message))
	}
}

// begun and done count the channels that are being caught up with.
func (p *progress) begun() { p.mu.Lock(); p.reading++; p.mu.Unlock() }

func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading--
	p.note()
}

// flush writes the cursors at the end of a run.
func (p *progress) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cursors != nil {
		p.report(p.cursors.Flush())
	}
}

func (p *progress) report(err error) {
	if err != nil { // what is read again is known by its ids
		p.log.Warn("how far was read cannot be noted", "err", err)
	}
}

// missed is a channel whose messages after one are to be read.
type missed struct {
	channel, guild string
	after          uint64
}

// began is the beginning of a session: direct chats are caught up with, servers
// when they come online.
func (rc *receiver) began(bot string, guilds []string) error {
	last, direct, err := rc.read.begin(rc.bot.deps, bot)
	if err != nil {
		return err
	}
	rc.mu.Lock()
	rc.since = rc.from(last)
	rc.guilds = map[string]bool{}
	for _, id := range guilds {
		rc.guilds[id] = true
	}
	since := rc.since
	rc.mu.Unlock()
	if since == 0 {
		return nil
	}
	for _, id := range direct {
		rc.catchUp(missed{channel: id, after: since})
	}
	return nil
}

// from is where reading begins: where it ended, but not longer ago than the
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
func (rc *receiver) guildCame(g guild) {
	rc.mu.Lock()
	since, expected := rc.since, rc.guilds[g.ID]
	delete(rc.guilds, g.ID)
	rc.mu.Unlock()
	if since == 0 || !expected {
		return
	}
	all := slices.DeleteFunc(slices.Concat(g.Channels, g.Threads), func(c place) bool { return !c.readable() || number(c.LastMessage) <= since })
	slices.SortFunc(all, func(a, b place) int {
		if number(a.LastMessage) > number(b.LastMessage) {
			return -1
		}
		return 1
	})
	for _, c := range all[:min(len(all), catchUpMost)] {
		rc.catchUp(missed{channel: c.ID, guild: g.ID, after: since})
	}
}

// catchUp queues the reading of a channel, before anything that comes live.
func (rc *receiver) catchUp(m missed) {
	rc.read.begun()
	rc.in.Add(m.channel, event{Missed: &m}, rc.read.done)
}

// fallBehind reads a channel later, because a message of it could not be held.
func (rc *receiver) fallBehind(m *message) {
	rc.mu.Lock()
	already := rc.behind[m.ChannelID]
	rc.behind[m.ChannelID] = true
	rc.mu.Unlock()
	if n := number(m.ID); !already && n > 0 {
		rc.catchUp(missed{channel: m.ChannelID, guild: m.GuildID, after: n - 1})
	}
}

// catchUpWith handles the messages of a channel after one. Those that were handled are
// known by their ids.
func (rc *receiver) catchUpWith(ctx context.Context, m *missed) error {
	rc.mu.Lock()
	delete(rc.behind, m.channel) // what comes from now on is not in what is read
	rc.mu.Unlock()
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
				rc.warn(ctx, "history", "a message of Discord cannot be read", err)
				continue
			}
			one.ChannelID, one.GuildID = m.channel, m.guild
			list = append(list, one)
		}
		slices.SortFunc(list, func(a, b message) int {
			if number(a.ID) < number(b.ID) {
				return -1
			}
			return 1
		})
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
