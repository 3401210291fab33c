package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/wait"
)

const (
	placesMost  = 200              // conversations and threads that are remembered
	catchPlaces = 50               // of them that are read after a connection was made
	catchMost   = 100              // messages of one of them
	catchAge    = 10 * time.Minute // older messages are not answered
	saveEvery   = 10 * time.Second
)

// facts are what survives a restart: where people last wrote to us.
type facts struct {
	state *channel.State
	mu    sync.Mutex
	dirty bool
	saved time.Time
	v     struct {
		Bot  string            `json:"bot"`  // whose facts these are
		Last map[string]string `json:"last"` // channel, or channel/thread -> time stamp of the last message
	}
}

// open reads the facts at the beginning of a run. Those of another bot say
// nothing about this one.
func (f *facts) open(bot string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.state.Load(&f.v); err != nil {
		return err
	}
	if f.v.Bot != bot || f.v.Last == nil {
		f.v.Bot, f.v.Last = bot, map[string]string{}
	}
	return nil
}

// seen notes a message. A new place is saved at once, later messages now and
// then: what is read twice is known by its id.
func (f *facts) seen(chat, thread, ts string, now time.Time, log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	place := strings.TrimSuffix(chat+"/"+thread, "/")
	old, known := f.v.Last[place]
	if ts <= old {
		return
	}
	f.v.Last[place] = ts
	f.dirty = true
	if len(f.v.Last) > placesMost {
		oldest := slices.SortedFunc(maps.Keys(f.v.Last), func(a, b string) int { return cmp.Compare(f.v.Last[a], f.v.Last[b]) })[0]
		delete(f.v.Last, oldest)
	}
	if !known || now.Sub(f.saved) >= saveEvery {
		f.save(now, log)
	}
}

// save writes the facts. The lock is held.
func (f *facts) save(now time.Time, log *slog.Logger) {
	if err := f.state.Save(f.v); err != nil {
		log.Error("save the state of the channel", "err", err)
		return
	}
	f.dirty, f.saved = false, now
}

// flush saves what is left at the end of a run.
func (f *facts) flush(_ context.Context, log *slog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dirty {
		f.save(f.saved, log)
	}
}

// places are where people wrote, the last ones first.
func (f *facts) places() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(f.v.Last), func(a, b string) int { return cmp.Compare(f.v.Last[b], f.v.Last[a]) })
	out := map[string]string{}
	for _, k := range keys[:min(len(keys), catchPlaces)] {
		out[k] = f.v.Last[k]
	}
	return out
}

// catchUp reads what was written in the places we know while nobody listened.
func (b *bot) catchUp(ctx context.Context) {
	if c := b.o.CatchUp; c != nil && !*c {
		return
	}
	first := fmt.Sprintf("%d.000000", b.deps.Now().Add(-catchAge).Unix())
	for place, last := range b.facts.places() {
		err := b.catchPlace(ctx, place, max(last, first))
		if limited, ok := errors.AsType[*api.RateLimitedError](err); ok {
			if wait.For(ctx, limited.RetryAfter) != nil {
				return
			}
			err = b.catchPlace(ctx, place, max(last, first))
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.web.report(ctx, "messages that came meanwhile cannot be read", refusal(err), err)
		}
	}
}

func (b *bot) catchPlace(ctx context.Context, place, after string) error {
	chat, thread, _ := strings.Cut(place, "/")
	list, err := call(ctx, func(ctx context.Context) ([]api.Message, error) {
		if thread != "" {
			list, _, _, err := b.api.GetConversationRepliesContext(ctx, &api.GetConversationRepliesParameters{ChannelID: chat, Timestamp: thread, Oldest: after, Limit: catchMost})
			return list, err
		}
		res, err := b.api.GetConversationHistoryContext(ctx, &api.GetConversationHistoryParameters{ChannelID: chat, Oldest: after, Limit: catchMost})
		if err != nil {
			return nil, err
		}
		return res.Messages, nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(x, y api.Message) int { return cmp.Compare(x.Timestamp, y.Timestamp) })
	for i := range list {
		m := fromHistory(chat, &list[i].Msg)
		in := b.in.Load()
		if m.TS <= after || in == nil || !b.concerns(m) {
			continue
		}
		if err := in.Hold(ctx, chat, b.id(m), event{Message: m, Bot: b.me.Load().UserID}); err != nil {
			return err
		}
	}
	return nil
}

// fromHistory is a message of a history as an event would tell it.
func fromHistory(chat string, m *api.Msg) *message {
	out := &message{
		Type: "message", SubType: m.SubType, Channel: chat, User: m.User, BotID: m.BotID, Text: m.Text,
		TS: m.Timestamp, Thread: m.ThreadTimestamp, ThreadOf: m.ParentUserId,
	}
	for i := range m.Files {
		f := &m.Files[i]
		out.Files = append(out.Files, file{
			ID: f.ID, Name: f.Name, MIME: f.Mimetype, Mode: f.Mode, Size: int64(f.Size), URL: f.URLPrivate, Download: f.URLPrivateDownload,
		})
	}
	for i := range m.Attachments {
		a := &m.Attachments[i]
		out.Attachments = append(out.Attachments, attachment{Shared: a.AuthorName != "" && a.FromURL != "", Author: a.AuthorName, Text: a.Text, Fallback: a.Fallback})
	}
	return out
}
