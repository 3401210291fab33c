package qq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	postTries   = 16 // ways to say a message
	typingFor   = 10 // seconds
	buttonsMost = 25
	rowMost     = 5
	labelMost   = 30 // characters of a button
)

// socketPause ends a connection and makes the next one after a moment.
func socketPause(err error) error { return socket.After(time.Second, err) }

// target is where a message goes to.
type target struct {
	kind kind
	id   string
}

// target finds it. The kind of a chat came with the message that is answered, or
// is known from earlier ones.
func (b *bot) target(out bus.Outbound) (target, error) {
	chatID := out.Route.ChatID
	t := target{kind: b.book.kind(chatID), id: chatID}
	if k := kind(out.Meta[metaKind]); t.kind == direct && k == group {
		t.kind = group
	}

	t.id = strings.TrimPrefix(strings.TrimPrefix(chatID, guildPrefix), guildDirectPrefix)
	if t.id == "" || strings.ContainsAny(t.id, "/?# \n") {
		return t, chat.Permanent(fmt.Errorf("%q is not a chat of QQ: use the openid of a person or a group", chatID))
	}
	return t, nil
}

// path returns that of what the chat has: messages or files.
func (t target) path(what string) string {
	id := url.PathEscape(t.id)
	switch t.kind {
	case group:
		return "/v2/groups/" + id + "/" + what
	case guild:
		return "/channels/" + id + "/" + what
	case guildDirect:
		return "/dms/" + id + "/" + what
	case direct:
	}

	return "/v2/users/" + id + "/" + what
}

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	to, err := b.target(out)
	if err != nil {
		return "", err
	}
	if ms, err := strconv.ParseInt(out.Meta[metaAt], 10, 64); err == nil { // an earlier process may have received it
		b.book.record(out.Route.ChatID, to.kind, out.Route.MessageID, time.UnixMilli(ms))
	}
	return b.reply(ctx, to, out, hash(out.Key))
}

// reply sends a message as a reply with the number of its key, in the best way that
// QQ takes.
func (b *bot) reply(ctx context.Context, to target, out bus.Outbound, key string) (string, error) {
	most := repliesMost
	if quiet(out.Kind) {
		most = progressMost
	}

	answers := out.ReplyTo
	if answers == "" {
		answers = out.Route.MessageID
	}

	var list []version
	var body outgoing
	refused := false
	for range postTries {
		r, err := b.book.reserve(out.Route.ChatID, answers, key, most)
		switch {
		case r.sent:
			return "", nil
		case errors.Is(err, errNoReply) && (answers != "" || quiet(out.Kind)):
			return "", chat.Deferred(err)
		case err != nil && !errors.Is(err, errNoReply):
			return "", err
		}

		if list == nil && body.Media == nil && body.picture == nil { // only now: it costs an upload
			if body, list, err = b.content(ctx, to, out); err != nil {
				return "", err
			}
			if len(list) == 0 && body.Media == nil && body.picture == nil {
				return "", nil
			}
		}

		m := body
		if len(list) > 0 {
			m = list[0].body(to, out)
		}

		id, err := b.post(ctx, to, m, r)
		switch c := code(err); {
		case err == nil, c == codeDuplicate && r.again && !refused:
			b.book.arrived(r)
			return id, nil
		case c == codeDuplicate:
			b.book.disown(r)
			continue
		case closed(c) && r.message != "":
			b.book.close(r)
			continue
		case (c == codeTooLong || c == codeTooLongToo) && len(list) > 0:
			return b.halve(ctx, to, out, key, err)
		case business(err) && b.another(&list, c, out):
			refused = true
			continue
		case r.message == "" && (business(err) || c == codeTooMany):
			return "", chat.Permanent(fmt.Errorf("QQ does not let bots write first: a person must write in this chat, and the bot can answer for an hour in a direct chat and five minutes in a group (%w)", err))
		}

		return "", classify(err)
	}

	return "", errors.New("QQ refuses every way to say it")
}

// another goes on to the next way to say a message, and reports whether there is
// one. A file that is refused is named.
func (b *bot) another(list *[]version, c int, out bus.Outbound) bool {
	if len(*list) == 0 {
		*list = []version{{text: lost(fileName(out.Media[0]), phrase.In(out.Language, "send failed"))}}
		return true
	}

	rest := (*list)[1:]
	for len(rest) > 0 && rest[0].urls && c != codeURL && c != codeURLModern {
		rest = rest[1:]
	}

	if len(rest) == 0 {
		return false
	}

	*list = rest
	return true
}

// content returns what a message says: a file, or a text in several versions. A file
// that cannot be sent is named.
func (b *bot) content(ctx context.Context, to target, out bus.Outbound) (outgoing, []version, error) {
	if len(out.Media) == 0 {
		if strings.TrimSpace(out.Text) == "" {
			return outgoing{}, nil, nil
		}
		return outgoing{}, b.versions(out, to.kind), nil
	}

	m, err := b.upload(ctx, to, out.Media[0])
	if chat.IsPermanent(err) {
		b.deps.Log.WarnContext(ctx, "cannot send a file", "err", err)
		return outgoing{}, []version{{text: lost(fileName(out.Media[0]), phrase.In(out.Language, "send failed"))}}, nil
	}
	return m, nil, err
}

func fileName(m bus.Media) string {
	if m.Name != "" {
		return m.Name
	}
	return filepath.Base(m.Path)
}

// body returns a version as QQ wants it.
func (v version) body(to target, out bus.Outbound) outgoing {
	if !to.kind.modern() {
		return outgoing{Content: v.text}
	}
	what := typeText
	if !v.markdown {
		return outgoing{Type: &what, Content: v.text}
	}
	what = typeMarkdown
	return outgoing{Type: &what, Markdown: &markdownBody{v.text}, Keyboard: keyboard(out)}
}

// halve sends a text that is too long for QQ as two.
func (b *bot) halve(ctx context.Context, to target, out bus.Outbound, key string, err error) (string, error) {
	parts := markdown.Split(out.Text, max(len([]rune(out.Text))/2+1, 100), markdown.Runes)
	if len(parts) < 2 {
		return "", chat.Permanent(err)
	}

	id := ""
	for i, part := range parts {
		out.Text = part
		if id, err = b.reply(ctx, to, out, hash(key+"."+strconv.Itoa(i))); err != nil {
			return "", err
		}
	}
	return id, nil
}

// post sends a message. Without a message that it replies to, it is one that
// was not asked for.
func (b *bot) post(ctx context.Context, to target, m outgoing, r reply) (string, error) {
	m.MsgID = r.message
	if m.MsgSeq = r.number; !to.kind.modern() {
		m.MsgSeq = 0
	}
	var sent struct {
		ID string `json:"id"`
	}
	err := b.calls.send(ctx, kit.Call{Method: http.MethodPost, Path: to.path("messages"), Body: m.encode()}, &sent)
	return sent.ID, err
}

// quiet are the kinds that are not an answer.
func quiet(k bus.Kind) bool {
	return k == bus.Progress || k == bus.ToolHint || k == bus.Notice || k == bus.Reasoning
}

// keyboard returns the answers to a question. Those of a question that the program
// asks call back; others write the answer into the person's own line.
func keyboard(out bus.Outbound) map[string]any {
	q := out.Question
	if q == nil || len(q.Options) == 0 || len(q.Options) > buttonsMost {
		return nil
	}

	var rows []map[string]any
	var row []map[string]any
	for i, label := range q.Options {
		if len([]rune(label)) > labelMost || strings.TrimSpace(label) == "" {
			return nil // the text lists them
		}

		action := map[string]any{"type": 2, "permission": map[string]any{"type": 2}, "data": label, "unsupport_tips": label}
		if out.Kind == bus.Ask {
			action["type"], action["data"] = 1, askMark+q.ID+askMark+label
		}

		row = append(row, map[string]any{
			"id": strconv.Itoa(i), "render_data": map[string]any{"label": label, "visited_label": label, "style": 1}, "action": action,
		})
		if len(row) == rowMost || i == len(q.Options)-1 {
			rows = append(rows, map[string]any{"buttons": row})
			row = nil
		}
	}

	return map[string]any{"content": map[string]any{"rows": rows}}
}

// Signal implements chat.Signaller: ackMessage, and typing in direct chats.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	k := b.book.kind(route.ChatID)
	switch {
	case phase == chat.Seen && b.o.AckMessage != "" && route.MessageID != "":
		out := bus.Outbound{
			Kind:    bus.Notice,
			Route:   route,
			ReplyTo: route.MessageID,
			Text:    b.o.AckMessage,
			Plain:   true,
			Key:     "ack:" + route.MessageID,
		}

		_, err := b.Send(ctx, out)
		return err
	case phase == chat.Working && k == direct:
		message := b.book.last(route.ChatID)
		if message == "" {
			return nil
		}

		what := typeTyping
		m := outgoing{Type: &what, Typing: map[string]any{"input_type": 1, "input_second": typingFor}}
		// A number that no reply has: this is not one.
		_, err := b.post(ctx, target{kind: k, id: route.ChatID}, m, reply{message: message, number: 1000 + rand.IntN(1<<20)}) //nolint:gosec // only differs
		return classify(err)
	}

	return nil
}
