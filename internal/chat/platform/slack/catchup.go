package slack

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/nanobot-go/nanobot/internal/base/wait"
)

const (
	catchPlaces = 50  // conversations and threads that are read after a connection was made
	catchMost   = 100 // messages of one of them
)

// place returns where a message was written: a conversation, or a thread in one.
func place(chat, thread string) string { return strings.TrimSuffix(chat+"/"+thread, "/") }

// seen notes a message that is durable.
func (b *bot) seen(ctx context.Context, m *message) {
	where := place(m.Channel, m.Thread)
	if m.TS <= b.cursors.Get(where) {
		return
	}
	if err := b.cursors.Set(where, m.TS); err != nil {
		b.web.report(ctx, "how far a conversation was read cannot be noted", "cursor", err)
	}
}

// catchUp reads what was written in the places we know while the bot was away.
func (b *bot) catchUp(ctx context.Context) {
	since, wanted := b.deps.Gate.Backlog()
	if !wanted {
		return
	}

	first := fmt.Sprintf("%d.000000", since.Unix())
	places := b.cursors.Chats()
	for _, where := range places[:min(len(places), catchPlaces)] {
		after := max(b.cursors.Get(where), first)
		err := b.catchPlace(ctx, where, after)
		if limited, ok := errors.AsType[*api.RateLimitedError](err); ok {
			if wait.For(ctx, limited.RetryAfter) != nil {
				return
			}
			err = b.catchPlace(ctx, where, after)
		}

		if ctx.Err() != nil {
			return
		}

		if err != nil {
			b.web.report(ctx, "messages that came meanwhile cannot be read", refusal(err), err)
		}
	}
}

func (b *bot) catchPlace(ctx context.Context, where, after string) error {
	chat, thread, _ := strings.Cut(where, "/")
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

	sort.Slice(list, func(i, j int) bool { return list[i].Timestamp < list[j].Timestamp })
	for i := range list {
		m := fromHistory(chat, &list[i].Msg)
		in := b.in.Load()
		if m.TS <= after || in == nil || !b.concerns(m) {
			continue
		}
		if err := in.Hold(ctx, chat, b.id(m), event{Message: m, Bot: b.me.Load().UserID, Backlog: true}); err != nil {
			return err
		}
	}

	return nil
}

// fromHistory returns a message of a history as an event would tell it.
func fromHistory(chat string, m *api.Msg) *message {
	out := &message{
		Type: "message", SubType: m.SubType, Channel: chat, User: m.User, BotID: m.BotID, Text: m.Text,
		TS: m.Timestamp, Thread: m.ThreadTimestamp, ThreadOf: m.ParentUserId,
	}
	for i := range m.Files {
		f := &m.Files[i]
		out.Files = append(out.Files, file{
			ID:       f.ID,
			Name:     f.Name,
			MIME:     f.Mimetype,
			Mode:     f.Mode,
			Size:     int64(f.Size),
			URL:      f.URLPrivate,
			Download: f.URLPrivateDownload,
		})
	}

	for i := range m.Attachments {
		a := &m.Attachments[i]
		out.Attachments = append(out.Attachments, attachment{Shared: a.AuthorName != "" && a.FromURL != "", Author: a.AuthorName, Text: a.Text, Fallback: a.Fallback})
	}
	return out
}
