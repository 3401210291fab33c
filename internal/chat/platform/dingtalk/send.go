package dingtalk

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	titleMost     = 20          // characters of a title
	webhookMargin = time.Minute // before the end of a session webhook it is not used
	mentionMost   = 80          // characters of a name in a heading
	reactTimeout  = 5 * time.Second
)

// Send implements chat.Channel. An answer goes by the session webhook of the
// message, which does not need a permission and mentions the person; all else by the API.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if strings.TrimSpace(strings.TrimPrefix(out.Route.ChatID, groupPrefix)) == "" {
		return "", chat.Permanent(fmt.Errorf("%q is not a chat of DingTalk: use the id of a person, or group: and the id of a conversation", out.Route.ChatID))
	}
	if len(out.Media) > 0 {
		return b.sendFile(ctx, out)
	}
	if strings.TrimSpace(out.Text) == "" {
		return "", nil
	}
	if id, ok, err := b.cards.send(ctx, out); ok || err != nil {
		return id, err
	}

	plain, words := render(out)
	if webhook := b.webhook(out); webhook != "" {
		err := b.calls.classify(b.reply(ctx, webhook, out, plain, words))
		if !chat.IsPermanent(err) {
			return "", err
		}
		b.deps.Log.DebugContext(ctx, "a session webhook refused a message; the API is tried", "err", err)
	}

	if plain {
		return b.push(ctx, out.Route, "sampleText", map[string]string{"content": words})
	}

	if name := out.Meta[metaName]; isGroup(out.Route) && name != "" && out.ReplyTo != "" {
		words = "# @" + escape(text.Label(name, mentionMost)) + "\n\n" + words
	}
	return b.push(ctx, out.Route, "sampleMarkdown", map[string]string{"title": title(words), "text": words})
}

// webhook returns the address that a message is answered at, "" if there is none that
// is good for long enough.
func (b *bot) webhook(out bus.Outbound) string {
	address := out.Meta[metaWebhook]
	ms, err := strconv.ParseInt(out.Meta[metaExpires], 10, 64)
	if address == "" || err != nil || !b.origin.Has(address) || b.deps.Now().Add(webhookMargin).After(time.UnixMilli(ms)) {
		return ""
	}
	return address
}

// reply answers by a session webhook. The first part of an answer in a group
// mentions the person.
func (b *bot) reply(ctx context.Context, webhook string, out bus.Outbound, plain bool, words string) error {
	body := map[string]any{}
	if staff := out.Meta[metaSender]; isGroup(out.Route) && staff != "" && out.ReplyTo != "" {
		body["at"] = map[string]any{"atUserIds": []string{staff}, "isAtAll": false}
		words = "@" + staff + "\n\n" + words
	}

	if plain {
		body["msgtype"], body["text"] = "text", map[string]string{"content": words}
	} else {
		body["msgtype"], body["markdown"] = "markdown", map[string]string{"title": title(out.Text), "text": words}
	}
	return b.calls.post(ctx, webhook, body, nil)
}

// push sends a message by the API, which needs a permission.
func (b *bot) push(ctx context.Context, to bus.Route, key string, param map[string]string) (string, error) {
	data, err := json.Marshal(param)
	if err != nil {
		return "", err
	}

	body := map[string]any{"robotCode": b.o.ClientID, "msgKey": key, "msgParam": string(data)}
	path := "/v1.0/robot/oToMessages/batchSend"
	if id, ok := strings.CutPrefix(to.ChatID, groupPrefix); ok {
		path, body["openConversationId"] = "/v1.0/robot/groupMessages/send", id
	} else {
		body["userIds"] = []string{to.ChatID}
	}

	var a struct {
		Key     string   `json:"processQueryKey"`
		Invalid []string `json:"invalidStaffIdList"`
		Limited []string `json:"flowControlledStaffIdList"`
	}
	if err := b.calls.do(ctx, path, body, &a); err != nil {
		return "", b.calls.classify(err)
	}

	switch {
	case len(a.Limited) > 0:
		return "", chat.RateLimited(b.calls.limit, fmt.Errorf("DingTalk slows messages to %s down", to.ChatID))
	case len(a.Invalid) > 0:
		return "", chat.Permanent(fmt.Errorf("DingTalk does not know the person %s", to.ChatID))
	}
	return a.Key, nil
}

// render returns the text of a message, and whether it is sent without markup: because
// it has none, or because DingTalk would load its pictures, and what is in such
// an address would leave without a click.
func render(out bus.Outbound) (plain bool, words string) {
	if out.Plain || out.Kind == bus.ToolHint {
		return true, out.Text
	}
	tree := markdown.Parse(out.Text)
	if tree.Has(markdown.Image) {
		return true, markdown.Plain(tree)
	}
	return false, tables(out.Text)
}

// tables writes tables as DingTalk reads them: after an empty line, and with a
// colon in each column of the separator.
func tables(s string) string {
	lines := strings.Split(s, "\n")
	var out []string
	fence := false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fence = !fence
		}

		switch {
		case fence:
		case i+1 < len(lines) && strings.Contains(line, "|") && separator(lines[i+1]) && i > 0 && strings.TrimSpace(lines[i-1]) != "":
			out = append(out, "")
		case separator(line) && !strings.Contains(line, ":"):
			line = strings.ReplaceAll(strings.ReplaceAll(line, "| -", "| :-"), "|-", "|:-")
		}

		out = append(out, line)
	}

	return strings.Join(out, "\n")
}

// separator reports whether a line is the one below the head of a table.
func separator(line string) bool {
	line = strings.TrimSpace(line)
	return strings.Contains(line, "|") && strings.Contains(line, "---") && strings.Trim(line, "|-: ") == ""
}

// title returns what a phone shows of a message: its first line without markup.
func title(s string) string {
	for line := range strings.Lines(s) {
		if words := strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "#*>`|-_ ")); words != "" && !strings.HasPrefix(words, "@") {
			return text.Ellipsis(words, titleMost)
		}
	}
	return "nanobot"
}

// escape keeps a name from being read as markup.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\*_`[]()#>~|!", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Signal implements chat.Signaller: a reaction while the agent works.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	conversation, ok := b.talks.Get(route.MessageID)
	if !ok || b.o.Reaction == "" || phase == chat.Working {
		return nil
	}

	body := map[string]any{
		"robotCode": b.o.ClientID, "openMsgId": route.MessageID, "openConversationId": conversation, "emotionType": 2, "emotionName": b.o.Reaction,
		"textEmotion": map[string]string{"emotionId": "2659900", "emotionName": b.o.Reaction, "text": b.o.Reaction, "backgroundId": "im_bg_1"},
	}
	if phase == chat.Seen {
		// A request that is cut off may have set the reaction, so this one is
		// finished, and the next phase waits for it.
		done := make(chan struct{})
		defer close(done)
		b.marks.Put(route.MessageID, done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reactTimeout)
		defer cancel()
		return b.calls.classify(b.calls.do(ctx, "/v1.0/robot/emotion/reply", body, nil))
	}

	set, ok := b.marks.Get(route.MessageID)
	if !ok {
		return nil
	}

	b.marks.Delete(route.MessageID)
	select {
	case <-set:
	case <-ctx.Done():
	}
	return b.calls.classify(b.calls.do(ctx, "/v1.0/robot/emotion/recall", body, nil))
}
