package signal

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxUpload = 100_000_000 // bytes of a file that Signal takes
	maxInline = 16 << 20    // bytes of files that are sent within a request
)

// address is whom a request is for.
func (b *bot) address(chatID string) (map[string]any, error) {
	if id, ok := strings.CutPrefix(chatID, groupPrefix); ok {
		return map[string]any{"groupId": id}, nil
	}

	switch id := normal(chatID); {
	case isNumber(id), isUUID(id):
		return map[string]any{"recipient": []string{id}}, nil
	case strings.HasPrefix(id, "u:"):
		return map[string]any{"username": []string{strings.TrimPrefix(id, "u:")}}, nil
	case isGroup(chatID):
		return map[string]any{"groupId": chatID}, nil
	}

	return nil, chat.Permanent(fmt.Errorf("%q is not a Signal chat: use a number with its country code, a UUID, u:NAME.NUMBER or group.ID", chatID))
}

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	params, err := b.address(out.Route.ChatID)
	if err != nil {
		return "", err
	}

	words, styles := out.Text, []string(nil)
	if !out.Plain {
		words, styles = render(out.Text)
	}
	if text.Blank(words) {
		words, styles = "", nil
	}

	if words == "" && len(out.Media) == 0 {
		return "", nil
	}

	params["message"] = words
	if len(styles) > 0 {
		params["textStyle"] = styles
	}

	if len(out.Media) > 0 {
		if params["attachments"], err = b.attach(ctx, out.Media); err != nil {
			return "", err
		}
	}

	quote := b.quotes(out)
	if at, author, ok := parseID(quote); ok {
		params["quoteTimestamp"], params["quoteAuthor"] = at, author
	}

	id, err := b.send(ctx, out.Route.ChatID, params)
	if err != nil {
		return "", err
	}

	if quote != "" {
		b.quoted.Put(quote, true)
	}

	b.vanish.answered(out)
	return id, nil
}

// send sends, and once more after a new safety number was accepted.
func (b *bot) send(ctx context.Context, chatID string, params map[string]any) (string, error) {
	id, err := b.try(ctx, params)
	e, ok := errors.AsType[*rpcError](err)
	if !ok || e.Code != codeUntrusted && !e.mentions("untrusted") {
		return id, classify(err)
	}
	if !b.o.TrustChangedKeys {
		return "", chat.Permanent(fmt.Errorf("%w; the safety number of %s changed: verify it and run signal-cli -a %s trust -v SAFETY_NUMBER %s, or set trustChangedKeys", err, chatID, b.o.PhoneNumber, chatID))
	}
	if err := b.rpc.call(ctx, "trust", map[string]any{"recipient": chatID, "trustAllKnownKeys": true}, nil); err != nil {
		return "", classify(err)
	}

	b.deps.Log.WarnContext(ctx, "a changed safety number was accepted (trustChangedKeys)", "chat", chatID)
	id, err = b.try(ctx, params)
	return id, classify(err)
}

func (b *bot) try(ctx context.Context, params map[string]any) (string, error) {
	var sent struct {
		Timestamp int64    `json:"timestamp"`
		Results   []result `json:"results"`
	}
	if err := b.rpc.call(ctx, "send", params, &sent); err != nil {
		return "", err
	}

	var worst *rpcError
	for _, r := range sent.Results {
		switch r.Type {
		case "SUCCESS", "":
			return strconv.FormatInt(sent.Timestamp, 10), nil
		case "IDENTITY_FAILURE":
			worst = &rpcError{Method: "send", Code: codeUntrusted, Message: "untrusted identity"}
		case "RATE_LIMIT_FAILURE", "PROOF_REQUIRED_FAILURE":
			worst = &rpcError{Method: "send", Code: codeRateLimit, Message: "rate limited"}
			worst.Data.Response.Results = []result{r}
		case "UNREGISTERED_FAILURE":
			worst = &rpcError{Method: "send", Code: codeUser, Message: "the person is not on Signal any more"}
		default:
			return "", fmt.Errorf("send: %s", r.Type)
		}
	}

	if worst != nil {
		return "", worst
	}
	return strconv.FormatInt(sent.Timestamp, 10), nil
}

// classify puts an error of signal-cli into the words of the manager.
func classify(err error) error {
	e, ok := errors.AsType[*rpcError](err)
	switch {
	case !ok:
		return err
	case e.Code == codeRateLimit || e.mentions("rate limit"):
		return chat.RateLimited(cmp.Or(e.wait(), time.Minute), err)
	case e.Code == codeUser || e.Code <= -32600 && e.Code >= -32602, e.Code == codeUntrusted:
		return chat.Permanent(err)
	}

	return err
}

// wait returns how long signal-cli asks us to wait, 0 if it does not say.
func (e *rpcError) wait() time.Duration {
	for _, r := range e.Data.Response.Results {
		if r.RetryAfter > 0 {
			return time.Duration(r.RetryAfter) * time.Second
		}
	}
	return 0
}

// attach makes files part of a request: as data, which works wherever the
// daemon runs and whatever it may read, or as a path if they are large.
func (b *bot) attach(ctx context.Context, list []bus.Media) ([]string, error) {
	var out []string
	room := int64(maxInline)
	for _, m := range list {
		f, err := kit.OpenAttachment(ctx, b.deps, m, b.o.caps().MaxMedia)
		if err != nil {
			return nil, err
		}

		if f.Size() > room && b.o.local() && filepath.IsAbs(m.Path) {
			out = append(out, m.Path)
			_ = f.Close()
			continue
		}

		room -= f.Size()
		data, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("read the file to send: %w", err)
		}

		mime, _, _ := strings.Cut(f.MIME, ";")
		out = append(out, "data:"+mime+";filename="+strings.NewReplacer(";", "_", ",", "_").Replace(f.Name)+";base64,"+base64.StdEncoding.EncodeToString(data))
	}

	return out, nil
}

// quotes returns the message an answer quotes, "" if none. Every answer names the
// message it belongs to; whether that is quoted is a setting.
func (b *bot) quotes(out bus.Outbound) string {
	if !b.o.ReplyToMessage || out.ReplyTo == "" || out.Kind != bus.Final && out.Kind != bus.Message || b.quoted.Has(out.ReplyTo) {
		return ""
	}
	return out.ReplyTo
}

// parseID divides the id of a message into its time and its author.
func parseID(id string) (at int64, author string, ok bool) {
	stamp, author, _ := strings.Cut(id, "/")
	at, err := strconv.ParseInt(stamp, 10, 64)
	return at, author, err == nil && author != ""
}

// Signal implements chat.Signaller.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	params, err := b.address(route.ChatID)
	if err != nil {
		return err
	}

	switch phase {
	case chat.Working:
		return classify(b.rpc.call(ctx, "sendTyping", params, nil))
	case chat.TurnFailed, chat.TurnStopped: // an answer ends it by itself
		params["stop"] = true
		if err := b.rpc.call(ctx, "sendTyping", params, nil); err != nil {
			return classify(err)
		}
		delete(params, "stop")
	}

	at, author, ok := parseID(route.MessageID)
	if b.o.ReactEmoji == "" || !ok {
		return nil
	}

	params["emoji"] = b.o.ReactEmoji
	params["targetAuthor"] = author
	params["targetTimestamp"] = at
	if phase != chat.Seen {
		params["remove"] = true
	}
	return classify(b.rpc.call(ctx, "sendReaction", params, nil))
}

// Address implements chat.Addresser: a number, a UUID, a user name, the id of
// a group or its name.
func (b *bot) Address(ctx context.Context, target string) (bus.Route, error) {
	route := bus.Route{Channel: b.deps.Name}
	if id, ok := strings.CutPrefix(target, groupPrefix); ok || isGroup(target) {
		route.ChatID = id
		return route, nil
	}
	if _, err := b.address(target); err == nil {
		route.ChatID = b.facts.chat([]string{normal(target)})
		return route, nil
	}

	var groups []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	if err := b.rpc.call(ctx, "listGroups", nil, &groups); err != nil {
		return route, classify(err)
	}

	for _, g := range groups {
		if !strings.EqualFold(g.Name, target) {
			continue
		}
		if route.ChatID != "" {
			return bus.Route{}, fmt.Errorf("several groups have the name %q: use group.ID", target)
		}
		route.ChatID = g.ID
	}

	if route.ChatID == "" {
		return route, fmt.Errorf("%q is neither a group of this account nor a number with its country code, a UUID, u:NAME.NUMBER or group.ID", target)
	}
	return route, nil
}
