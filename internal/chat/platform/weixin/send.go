package weixin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

var errSpent = errors.New("WeChat takes nothing more until the person writes again")

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	s, ok := b.account.session()
	if !ok {
		return "", chat.ErrNotReady
	}

	words := out.Text
	if !out.Plain {
		words = render(words)
	}

	if strings.TrimSpace(words) == "" && len(out.Media) == 0 {
		return "", nil
	}

	tool := b.o.ReplyProgressMessages && out.Kind == bus.ToolHint
	if tool && !b.showTool(out.Route.MessageID) {
		return "", nil
	}

	keep := 0
	if !out.Kind.Durable() {
		keep = (b.o.ContextMessageBudget + 1) / 2
	}

	user := out.Route.ChatID
	token, ok, ask := b.account.spend(user, keep)
	if !ok {
		if ask {
			if _, err := b.post(ctx, s, user, token, object{"type": itemText, "text_item": object{"text": moreFollows(out.Language)}}, bus.Outbound{}); err != nil {
				b.deps.Log.DebugContext(ctx, "the person could not be told that more follows", "err", err)
			}
		}
		return "", chat.Deferred(errSpent)
	}

	item, err := b.item(ctx, s, out, words, tool)
	var id string
	if err == nil {
		id, err = b.deliver(ctx, s, user, token, item, out)
	}
	if refusal(err) != nil {
		b.account.refund(user, token)
	}
	if refusedAs(err, codeRestricted) {
		b.account.useUp(user, token)
	}

	if refusedAs(err, codeStale) {
		select {
		case b.stale <- s.token.Reveal():
		default:
		}
	}
	return id, classify(err)
}

// showTool counts a tool that is shown for a message.
func (b *bot) showTool(message string) bool {
	n, _ := b.progress.Get(message)
	if n >= b.o.ReplyProgressMaxMessages {
		return false
	}
	b.progress.Put(message, n+1)
	return true
}

// item returns what a part is sent as.
func (b *bot) item(ctx context.Context, s session, out bus.Outbound, words string, tool bool) (object, error) {
	switch {
	case tool:
		return object{"type": itemTool, "create_time_ms": b.deps.Now().UnixMilli(), "is_completed": false, "tool_call_start_item": object{"tool_name": words}}, nil
	case len(out.Media) == 0:
		return object{"type": itemText, "text_item": object{"text": words}}, nil
	}

	f, err := kit.OpenAttachment(ctx, b.deps, out.Media[0], maxUpload)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // read only
	return b.upload(ctx, s, out.Route.ChatID, digest(out.Key + "/file")[:32], f)
}

// digest returns a name made of a key; without one it is random.
func digest(key string) string {
	if strings.HasPrefix(key, "/") || key == "" {
		key = rand.Text()
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// deliver sends an item. If its context token is of no use, it tries a newer
// one, if the service has one, or none, which it takes of some bots.
func (b *bot) deliver(ctx context.Context, s session, user, token string, item object, out bus.Outbound) (string, error) {
	id, err := b.post(ctx, s, user, token, item, out)
	if !refusedAs(err, codeRestricted) || token == "" || strings.Contains(refusal(err).Text, "rate limit") {
		return id, err
	}

	fresh, confErr := b.configure(ctx, s, user, token)
	if confErr != nil || fresh.Context == token {
		fresh.Context = ""
	}
	if fresh.Context != "" {
		b.account.admit(user, fresh.Context, b.deps.Now())
		b.account.spend(user, 0)
	}

	again, retryErr := b.post(ctx, s, user, fresh.Context, item, out)
	if retryErr != nil {
		return "", err
	}
	return again, nil
}

// post sends one message.
func (b *bot) post(ctx context.Context, s session, user, token string, item object, out bus.Outbound) (string, error) {
	msg := object{
		"from_user_id":  "",
		"to_user_id":    user,
		"client_id":     "nanobot-" + digest(out.Key)[:20],
		"message_type":  ownMessage,
		"message_state": 2,
		"item_list":     []object{item},
	}
	if token != "" {
		msg["context_token"] = token
	}
	if b.o.ReplyProgressMessages && out.Route.MessageID != "" {
		msg["run_id"] = digest(out.Route.MessageID)[:32]
	}

	var sent struct {
		ID ident `json:"message_id"`
	}
	err := b.client.post(ctx, callTime, s, "sendmessage", object{"msg": msg}, &sent)
	return string(sent.ID), err
}

// settings are what the service says about a chat.
type settings struct {
	Ticket  string `json:"typing_ticket"`
	Context string `json:"context_token"` // not documented
}

func (b *bot) configure(ctx context.Context, s session, user, token string) (settings, error) {
	var got settings
	body := object{"ilink_user_id": user}
	if token != "" {
		body["context_token"] = token
	}
	err := b.client.post(ctx, signalTime, s, "getconfig", body, &got)
	return got, err
}

// Signal implements chat.Signaller: WeChat can show that we type.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	status := 2 // not any more
	switch phase {
	case chat.Seen:
		return nil
	case chat.Working:
		status = 1
	}

	s, ok := b.account.session()
	if !ok {
		return chat.ErrNotReady
	}

	t, err := b.ticket(ctx, s, route.ChatID)
	if err != nil || t == "" {
		return err
	}
	return b.client.post(ctx, signalTime, s, "sendtyping", object{"ilink_user_id": route.ChatID, "typing_ticket": t, "status": status}, nil)
}

const (
	ticketLife  = 24 * time.Hour
	ticketRetry = 2.0    // seconds
	ticketLater = 3600.0 // at most
)

// ticket returns the permission to show a person that we type. After a failure, the
// pauses between requests for it grow.
func (b *bot) ticket(ctx context.Context, s session, user string) (string, error) {
	l := b.account
	now := float64(l.now().UnixMilli()) / 1000
	l.mu.Lock()
	known := ticket{Delay: ticketRetry}
	if t := l.record.Tickets[user]; t != nil {
		known = *t
	}

	token := l.record.Contexts[user]
	l.mu.Unlock()
	if now < known.Next {
		return known.Ticket, nil
	}

	got, err := b.configure(ctx, s, user, token)
	if err == nil {
		known = ticket{Ticket: got.Ticket, Ever: true, Next: now + mathrand.Float64()*ticketLife.Seconds(), Delay: ticketRetry} //nolint:gosec // only spreads load
	} else {
		if known.Next > 0 {
			known.Delay = min(2*max(known.Delay, ticketRetry), ticketLater)
		}
		known.Next = now + max(known.Delay, ticketRetry)
		err = fmt.Errorf("the permission to show typing: %w", err)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if token != "" { // of people who were let in
		l.record.Tickets[user] = &known
		l.touch()
	}
	return known.Ticket, err
}
