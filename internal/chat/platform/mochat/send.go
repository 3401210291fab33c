package mochat

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// sessionPrefix begins the ids of sessions.
const sessionPrefix = "session_"

// bare returns the id in a target that people write, such as panel:ID.
func bare(target string) string {
	target = strings.TrimSpace(target)
	for _, prefix := range []string{"mochat:", "group:", "channel:", "panel:"} {
		if len(target) >= len(prefix) && strings.EqualFold(target[:len(prefix)], prefix) {
			return strings.TrimSpace(target[len(prefix):])
		}
	}
	return target
}

// isPanel reports whether a chat is a panel. What is not known is one, unless it
// is named like a session.
func (b *bot) isPanel(chatID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if panel, known := b.chats[chatID]; known {
		return panel
	}
	return !strings.HasPrefix(chatID, sessionPrefix)
}

// recordKind stores what kind of chat it is.
func (b *bot) recordKind(chatID string, panel bool, group string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.chats) < 10*memory {
		b.chats[chatID] = panel
	}
	if panel && group != "" {
		b.groups.Put(chatID, group)
	}
}

// Address implements chat.Addresser.
func (b *bot) Address(_ context.Context, target string) (bus.Route, error) {
	chatID := bare(target)
	if chatID == "" {
		return bus.Route{}, errors.New("a chat of Mochat is needed: the id of a session, or panel:ID")
	}
	return bus.Route{Channel: b.deps.Name, ChatID: chatID}, nil
}

// Plan implements chat.Planner. Addresses of files are sent as text; of files
// of this machine only the names are.
func (b *bot) Plan(out bus.Outbound) []bus.Outbound {
	var files []bus.Media
	for _, m := range out.Media {
		if strings.HasPrefix(m.Path, "https://") || strings.HasPrefix(m.Path, "http://") {
			out.Text = strings.TrimSpace(out.Text + "\n" + m.Path)
		} else {
			files = append(files, m)
		}
	}

	out.Media = files
	return chat.Divide(b.caps, out)
}

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	chatID := bare(out.Route.ChatID)
	if chatID == "" {
		return "", chat.Permanent(errors.New("the message has no chat: the id of a session or of a panel is needed"))
	}

	said := strings.TrimSpace(text.Valid(out.Text))
	if said == "" {
		return "", nil
	}

	path, body := sendSession, map[string]any{"sessionId": chatID, "content": said}
	if b.isPanel(chatID) {
		path, body = sendPanel, map[string]any{"panelId": chatID, "content": said}
		if group := b.groupOf(chatID, out.Meta["group_id"]); group != "" {
			body["groupId"] = group
		}
	}

	if out.ReplyTo != "" {
		body["replyTo"] = out.ReplyTo
	}

	b.expect(chatID, said, out.Question)
	raw, err := b.api.post(ctx, callTime, path, body)
	if err != nil {
		b.own(chatID, said)
		return "", classify(err)
	}

	var made message
	object(raw, &made)
	return string(cmp.Or(made.MessageID, made.OtherID)), nil
}

func (b *bot) groupOf(panel, said string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if said == "" {
		said, _ = b.groups.Get(panel)
	}
	return said
}

// expect notes what will come back, and what people may answer.
func (b *bot) expect(chatID, said string, q *bus.Question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.o.AgentUserID == "" {
		n, _ := b.sent.Get(chatID + "\n" + said)
		b.sent.Put(chatID+"\n"+said, n+1)
	}
	if q != nil && q.Code != "" {
		b.asked.Put(chatID, q.Code)
	}
}

// own reports whether a text is one of ours that comes back, and takes it off
// the list.
func (b *bot) own(chatID, said string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, _ := b.sent.Get(chatID + "\n" + said)
	if n == 0 {
		return false
	}
	b.sent.Put(chatID+"\n"+said, n-1)
	return true
}

// answers reports whether a text names the last question in a chat.
func (b *bot) answers(chatID, said string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	code, ok := b.asked.Get(chatID)
	return ok && strings.HasSuffix(said, " "+code)
}
