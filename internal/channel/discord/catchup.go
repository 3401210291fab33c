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
	dmsKept     = 100 // direct chats that are read after a pause
	pageSize    = 100 // messages of one request
	pagesMost   = 10  // of one channel
	catchUpMost = 100 // channels that are read after a pause
)

// facts are what survives a restart.
type facts struct {
	state *channel.State
	log   *slog.Logger

	mu      sync.Mutex
	loaded  bool
	dirty   bool
	reading int // channels that are being caught up with; the cursor waits for them
	last    uint64
	v       struct {
		Bot      string   `json:"bot"`                // whose facts these are
		Cursor   string   `json:"cursor,omitempty"`   // the newest message that was taken; all before it were, too
		Direct   []string `json:"direct,omitempty"`   // direct chats, the last used first
		Commands string   `json:"commands,omitempty"` // what was registered, as a hash
	}
}

// open reads the facts at the beginning of a run.
func (f *facts) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading = 0
	if f.loaded {
		return nil
	}
	if err := f.state.Load(&f.v); err != nil {
		return err
	}
	f.loaded, f.last = true, number(f.v.Cursor)
	return nil
}

// begin says who we are. The facts of another bot say nothing about this one.
func (f *facts) begin(bot string) (cursor uint64, direct []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.v.Bot != bot {
		f.v.Bot, f.v.Cursor, f.v.Direct, f.v.Commands, f.dirty, f.last = bot, "", nil, "", true, 0
	}
	return f.last, slices.Clone(f.v.Direct)
}

// saw notes a message that is durable or not for us.
func (f *facts) saw(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := number(id); n > f.last {
		f.last, f.dirty = n, true
	}
}

// direct notes a direct chat of somebody who may be here.
func (f *facts) direct(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.v.Direct) > 0 && f.v.Direct[0] == id {
		return
	}
	list := slices.DeleteFunc(slices.Clone(f.v.Direct), func(s string) bool { return s == id })
	f.v.Direct = append([]string{id}, list[:min(len(list), dmsKept-1)]...)
	f.dirty = true
}

// begun and done count the channels that are being caught up with.
func (f *facts) begun() { f.mu.Lock(); f.reading++; f.mu.Unlock() }

func (f *facts) done() { f.mu.Lock(); f.reading--; f.dirty = true; f.mu.Unlock() }

// registered reports whether these commands were registered, and notes them.
func (f *facts) registered(hash string, note bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	same := f.v.Commands == hash
	if note && !same {
		f.v.Commands, f.dirty = hash, true
	}
	return same
}

// save writes the facts if they changed: with each heartbeat, and at the end.
// What was not written is read again, and known to the agent.
func (f *facts) save() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.loaded || !f.dirty {
		return
	}
	if f.reading == 0 && f.last > 0 {
		f.v.Cursor = strconv.FormatUint(f.last, 10)
	}
	if err := f.state.Save(f.v); err != nil {
		f.log.Error("save the state of the channel", "err", err)
		return
	}
	f.dirty = false
}

// missed is a channel whose messages after one are to be read.
type missed struct {
	channel, guild string
	after          uint64
}

// began is the beginning of a session: direct chats are caught up with, servers
// when they come online.
func (rc *receiver) began(bot string, guilds []string) {
	cursor, direct := rc.bot.facts.begin(bot)
	rc.mu.Lock()
	rc.since = rc.from(cursor)
	rc.guilds = map[string]bool{}
	for _, id := range guilds {
		rc.guilds[id] = true
	}
	since := rc.since
	rc.mu.Unlock()
	if since == 0 {
		return
	}
	for _, id := range direct {
		rc.catchUp(missed{channel: id, after: since})
	}
}

// from is where reading begins: where it ended, but not longer ago than the
// settings say. 0: nothing is read.
func (rc *receiver) from(cursor uint64) uint64 {
	o := &rc.bot.o
	if cursor == 0 || o.CatchUp != nil && !*o.CatchUp {
		return 0
	}
	const slack = 5000 << 22 // five seconds: numbers of different channels may be out of order
	return max(cursor-min(cursor, slack), snowflake(rc.bot.deps.Now().Add(-o.maxAge())))
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
	rc.bot.facts.begun()
	rc.in.Add(m.channel, event{Missed: &m}, rc.bot.facts.done)
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

// read handles the messages of a channel after one. Those that were handled are
// known by their ids.
func (rc *receiver) read(ctx context.Context, m *missed) error {
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
				if err := rc.written(ctx, &list[i], false); err != nil {
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
