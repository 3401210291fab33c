package feishu

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxFile   = 30 << 20
	maxImage  = 10 << 20
	chunkMost = 3500 // characters of a text that stands for a card
	repeated  = 3 * time.Second
	sameUUID  = 32 // characters

	streamingFor = 9 * time.Minute // Feishu ends the streaming mode of a card after ten
	seqJump      = 1000            // beyond the changes that an earlier process may have made
)

// record is what we know of a message that we sent.
type record struct {
	kind   string    // text, post or interactive
	card   string    // id of its card entity
	seq    int64     // of the last change of that
	text   string    // what that says, as Markdown; "" if it is not known
	live   time.Time // when its streaming mode began; zero: it is off, or not known
	unsure bool      // an earlier try may have sent it, with another card
}

func messagePath(id string) string { return "/open-apis/im/v1/messages/" + url.PathEscape(id) }

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if b.me.Load() == nil {
		return "", chat.ErrNotReady
	}
	if len(out.Media) > 0 {
		return b.sendFile(ctx, out)
	}

	if out.Kind == bus.Gone && out.Question != nil {
		b.ask.resolve(ctx, out.Question.ID, out.Text != "")
	}

	if strings.TrimSpace(out.Text) == "" {
		return "", nil
	}

	if out.Kind == bus.ToolHint {
		out.Text = b.o.hint(out.Text)
	}

	id, err := b.sendDivider(ctx, out)
	if id == "" && err == nil {
		id, err = b.ask.send(ctx, out)
	}
	if id == "" && err == nil {
		id, err = b.sendWords(ctx, out)
	}

	if err != nil {
		return "", classify(err)
	}

	if q := out.Question; q != nil && out.Kind == bus.Ask {
		b.ask.asked.Put(id, asking{*q, sessionOf(out)})
		b.ask.askedIn.Put(q.ID, id)
		b.ask.askedIn.Put(q.Code, id)
	}
	return id, nil
}

// sendDivider shows the confirmation of a new conversation as a line across the
// chat. "" without an error: it is not one, or Feishu does not take it.
func (b *bot) sendDivider(ctx context.Context, out bus.Outbound) (string, error) {
	if out.Kind != bus.Final || !b.fresh.Has(out.Route.MessageID) || out.Turn == nil || out.Turn.Error != "" {
		return "", nil
	}

	words := text.Label(out.Text, nameShown)
	content, err := encode(map[string]any{"type": "divider", "params": map[string]any{"divider_text": map[string]string{"text": words}}})
	if err != nil {
		return "", err
	}

	out.Route.ThreadID, out.ReplyTo = "", ""
	id, err := b.deliver(ctx, out, shape{"system", content}, out.Key)
	if refused(err) {
		return "", nil
	}
	return id, err
}

// sendWords sends a text: the beginning of a stream as a card entity, others in
// the form that suits them, and as plain text if Feishu refuses that.
func (b *bot) sendWords(ctx context.Context, out bus.Outbound) (string, error) {
	if out.StreamID != "" && !b.plain.Load() {
		id, err := b.sendEntity(ctx, out)
		switch {
		case refusal(err) == codeScope:
			b.plain.Store(true)
			b.once(ctx, "the app may not use cards that grow, so answers appear when they are complete; add the scope cardkit:card:write in the developer console, and publish a version", "err", err)
		case !misshapen(err):
			return id, err
		}
	}

	if out.Kind == bus.Delta {
		return "", nil // the end of the answer will say it
	}

	for _, tables := range []int{maxTables, 0} {
		s, err := shapeOf(out, tables)
		if err != nil {
			return "", err
		}

		id, err := b.deliver(ctx, out, s, out.Key)
		if !misshapen(err) || s.kind == "text" {
			return id, err
		}

		b.deps.Log.InfoContext(ctx, "the form of a message is refused; a simpler one is tried", "form", s.kind, "err", err)
		if s.kind != "interactive" {
			break
		}
	}

	return b.sendPlain(ctx, out)
}

// misshapen reports whether Feishu refused the form of a message.
func misshapen(err error) bool {
	switch code := refusal(err); code {
	case codeFormat, codeCard, codeTooLong:
		return true
	default:
		return code >= 300000 && code < 301000 || code >= 200000 && code < 201000 // of cards
	}
}

// sendPlain sends the words of a message as one or more texts.
func (b *bot) sendPlain(ctx context.Context, out bus.Outbound) (first string, err error) {
	for i, part := range markdown.Split(markdown.Plain(markdown.Parse(out.Text)), chunkMost, markdown.Runes) {
		s, err := textShape(part)
		if err != nil {
			return "", err
		}

		key := out.Key
		if key != "" {
			key += "/text" + strconv.Itoa(i)
		}

		id, err := b.deliver(ctx, out, s, key)
		if err != nil {
			return "", err
		}
		first = cmp.Or(first, id)
	}
	return first, nil
}

// sendEntity makes a card that can grow, and sends it. A card that was made for
// an earlier try is used again.
func (b *bot) sendEntity(ctx context.Context, out bus.Outbound) (string, error) {
	card, ok := b.opened.Get(out.Key)
	said, now := "", b.deps.Now()
	if !ok || out.Key == "" {
		said = cardMarkdown(out, maxTables)
		var got struct {
			ID string `json:"card_id"`
		}
		data, err := encode(cardOf(said, out.Kind == bus.Delta))
		if err == nil {
			err = b.calls.call(ctx, http.MethodPost, "/open-apis/cardkit/v1/cards", map[string]string{"type": "card_json", "data": string(data)}, &got)
		}

		if err != nil {
			return "", err
		}

		if card = got.ID; out.Key != "" {
			b.opened.Put(out.Key, card)
		}
	}

	content, err := encode(map[string]any{"type": "card", "data": map[string]string{"card_id": card}})
	if err != nil {
		return "", err
	}

	id, err := b.deliver(ctx, out, shape{"interactive", content}, out.Key, card)
	if r, ok := b.sent.Get(id); ok && err == nil && said != "" && r.card == card && !r.unsure {
		r.text = said
		if out.Kind == bus.Delta {
			r.live = now
		}
	}
	return id, err
}

// draft is a message to be sent.
type draft struct {
	To       string `json:"receive_id,omitempty"`
	Type     string `json:"msg_type"`
	Content  string `json:"content"`
	UUID     string `json:"uuid,omitempty"`
	InThread bool   `json:"reply_in_thread,omitempty"`
}

// deliver sends a message: as a reply where one is wanted, else to the chat.
func (b *bot) deliver(ctx context.Context, out bus.Outbound, s shape, key string, card ...string) (string, error) {
	d := draft{Type: s.kind, Content: string(s.content)}
	if key != "" {
		sum := sha256.Sum256([]byte(b.deps.Name + " " + key))
		d.UUID = hex.EncodeToString(sum[:])[:sameUUID]
	}

	var made item
	err := errNoTarget
	if to := b.target(out); to != "" {
		d.InThread = b.o.ReplyToMessage && b.Caps().Group(out.Route)
		err = b.calls.call(ctx, http.MethodPost, messagePath(to)+"/reply", d, &made)
		d.InThread = false
	}

	if errors.Is(err, errNoTarget) || gone(err) {
		d.To = out.Route.ChatID
		err = b.calls.call(ctx, http.MethodPost, "/open-apis/im/v1/messages?receive_id_type="+idType(d.To), d, &made)
	}

	if err != nil {
		return "", err
	}
	if made.ID == "" {
		return "", errors.New("send a message: no id in the answer")
	}

	if _, ok := b.sent.Get(made.ID); !ok {
		r := &record{kind: cmp.Or(made.Type, s.kind)}
		if len(card) > 0 {
			r.card = card[0]
		}
		_, grew := b.opened.Get(key)
		r.unsure = r.kind != s.kind || grew && len(card) == 0 || b.sentBefore(made)
		b.sent.Put(made.ID, r)
	}

	return made.ID, nil
}

// sentBefore reports whether a message may be one that Feishu sent for the same
// key before: for an earlier try, or for a process that died.
func (b *bot) sentBefore(made item) bool {
	at := millis(made.Created)
	if at.IsZero() {
		return false
	}
	at = b.calls.clock.Here(at)
	return b.deps.Now().Sub(at) > repeated || at.Sub(b.began) < repeated
}

var errNoTarget = errors.New("not a reply")

// gone reports whether the message that should be answered cannot be.
func gone(err error) bool {
	switch refusal(err) {
	case codeRecalled, codeInvisible, codeNoTarget, codeNoMessage:
		return true
	case codeFormat:
		return strings.Contains(err.Error(), "open_message_id")
	}
	return false
}

// target returns the message to answer: in a topic each part is a reply, else the
// first one if the settings say so.
func (b *bot) target(out bus.Outbound) string {
	switch out.Kind {
	case bus.ToolHint, bus.Progress, bus.Notice, bus.Reasoning:
		if out.Route.ThreadID == "" {
			return ""
		}
	}

	switch {
	case out.Route.ThreadID != "":
		return cmp.Or(out.Route.MessageID, out.Route.ThreadID)
	case b.o.ReplyToMessage:
		return out.ReplyTo
	}
	return ""
}

// idType returns what kind of id a chat or a person has.
func idType(id string) string {
	switch {
	case strings.HasPrefix(id, "oc_"):
		return "chat_id"
	case strings.HasPrefix(id, "ou_"):
		return "open_id"
	case strings.HasPrefix(id, "on_"):
		return "union_id"
	case strings.Contains(id, "@"):
		return "email"
	}
	return "user_id"
}

// sendFile uploads a file and sends it.
func (b *bot) sendFile(ctx context.Context, out bus.Outbound) (string, error) {
	f, err := kit.OpenAttachment(ctx, b.deps, out.Media[0], maxFile)
	if err != nil {
		return "", err
	}

	defer f.Close() //nolint:errcheck // read only
	if f.Size() == 0 {
		return "", chat.Permanent(fmt.Errorf("%s is empty, and Feishu takes no empty files", f.Name))
	}

	kind, form := fileForm(f)
	var got struct {
		Image string `json:"image_key"`
		File  string `json:"file_key"`
	}
	key := map[string]string{}
	if kind == "image" {
		err = b.calls.upload(ctx, "/open-apis/im/v1/images", "image", f, [][2]string{{"image_type", "message"}}, &got)
		key["image_key"] = got.Image
	} else {
		err = b.calls.upload(ctx, "/open-apis/im/v1/files", "file", f, [][2]string{{"file_type", form}, {"file_name", f.Name}}, &got)
		key["file_key"] = got.File
	}

	if err != nil {
		return "", classify(err)
	}

	content, err := encode(key)
	if err != nil {
		return "", err
	}

	id, err := b.deliver(ctx, out, shape{kind, content}, out.Key)
	return id, classify(err)
}

// fileForm returns what a file is shown as, and what its upload is called.
func fileForm(f *kit.Attachment) (kind, form string) {
	ext := strings.TrimPrefix(strings.ToLower(path.Ext(f.Name)), ".")
	switch {
	case f.Kind == kit.ImageFile && f.Size() <= maxImage && f.MIME != "image/heic" && f.MIME != "image/avif":
		return "image", ""
	case f.Kind == kit.VoiceFile:
		return "audio", "opus"
	case f.MIME == "video/mp4" || f.MIME == "video/quicktime":
		return "media", "mp4"
	case ext == "pdf" || ext == "doc" || ext == "xls" || ext == "ppt":
		return "file", ext
	case ext == "docx" || ext == "xlsx" || ext == "pptx":
		return "file", ext[:3]
	}

	return "file", "stream"
}

// Erase implements chat.Streamer.
func (b *bot) Erase(ctx context.Context, _ bus.Route, id string) error {
	err := b.calls.call(ctx, http.MethodDelete, messagePath(id), nil, nil)
	if gone(err) {
		return nil
	}
	return classify(err)
}

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	if strings.TrimSpace(out.Text) == "" {
		return nil
	}

	r, ok := b.sent.Get(id)
	if !ok { // of an earlier process
		r = &record{kind: "interactive", unsure: true}
	}

	if r.unsure && r.kind == "interactive" {
		card, err := b.cards.of(ctx, id)
		if err != nil {
			return classify(err)
		}
		r.card, r.unsure = card, false
		b.sent.Put(id, r)
	}

	if r.card != "" {
		return classify(b.cards.grow(ctx, r, out, final))
	}

	s := shape{kind: r.kind}
	var err error
	switch r.kind {
	case "interactive":
		s.content, err = encode(cardOf(cardMarkdown(out, maxTables), false))
	case "post":
		s, err = postShape(markdown.Parse(strings.TrimSpace(text.Valid(out.Text))))
	default:
		s, err = textShape(markdown.Plain(markdown.Parse(text.Valid(out.Text))))
	}

	if err != nil {
		return err
	}
	if r.kind == "interactive" {
		return classify(b.calls.call(ctx, http.MethodPatch, messagePath(id), draft{Content: string(s.content)}, nil))
	}
	return classify(b.calls.call(ctx, http.MethodPut, messagePath(id), draft{Type: s.kind, Content: string(s.content)}, nil))
}

// Signal implements chat.Signaller: reactions show how far a message is.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	if route.MessageID == "" || phase == chat.Working {
		return nil
	}
	return b.marks.show(ctx, route.MessageID, phase)
}
