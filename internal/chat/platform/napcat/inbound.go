package napcat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	nameShown   = 64
	quoteMost   = 4000 // characters of a message that is answered or passed on
	lineMost    = 500  // characters of one message of several that are passed on
	forwardMost = 100  // of them
)

// receiver makes messages for the agent of what comes during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle deals with an event. An error means that it is not durable yet.
func (rc *receiver) handle(ctx context.Context, e event) error {
	b := rc.bot
	var f frame
	if me := b.me.Load(); me != nil && string(me.ID) != e.Account {
		return nil // of the account that this section was for before
	}
	if err := json.Unmarshal(e.Raw, &f); err != nil {
		return nil //nolint:nilerr // it could be read when it came
	}
	if f.PostType == "notice" {
		return rc.joined(ctx, e, &f)
	}

	list, err := segments(f.Message)
	if err != nil {
		b.once(ctx, "the content of a message is not as expected", "err", err)
		return nil
	}
	return rc.written(ctx, e, &f, list)
}

func (rc *receiver) visitor(e event, f *frame) access.Visitor {
	return access.Visitor{
		IDs:    []string{string(f.UserID)},
		Name:   text.Speaker(cmp.Or(f.Sender.Card, f.Sender.Name, string(f.UserID))),
		Direct: f.Type == "private",
		Route:  bus.Route{Channel: rc.bot.deps.Name, ChatID: f.chat(), MessageID: string(f.MessageID)},
		At:     time.UnixMilli(e.At), // by our clock: NapCat sends nothing later
	}
}

// written hands over what a person wrote.
func (rc *receiver) written(ctx context.Context, e event, f *frame, list []segment) error {
	b, self := rc.bot, e.Account
	m := parts{self: self}
	m.read(list)
	v := rc.visitor(e, f)
	v.Text = m.words()
	v.Mentioned = m.named || m.all && b.o.ReplyToAll || b.sent.Has(m.reply) || b.o.forUs(string(f.GroupID), string(f.MessageID))
	var answered *frame
	if m.reply != "" && b.deps.Gate.Knows(ctx, v) {
		answered = rc.fetch(ctx, m.reply)
		v.Mentioned = v.Mentioned || answered != nil && string(answered.Sender.UserID) == self
	}

	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	in := pass.Inbound(string(f.MessageID), "")
	in.Untrusted = false
	in.Meta = map[string]string{
		"message_id": string(f.MessageID), "is_group": strconv.FormatBool(!v.Direct), "nickname": v.Name, "reply_to": m.reply,
	}

	if in.Answer = m.answers(answered, self); in.Answer != nil {
		in.Text = m.words()
		return rc.submit(ctx, in)
	}

	files := kit.NewFiles(b.deps)
	for _, s := range m.files {
		files.Add(ctx, b.received(s))
	}

	quotes := rc.answers(ctx, answered, files)
	for _, s := range m.forwards {
		quotes = append(quotes, rc.forwarded(ctx, s)...)
	}

	if len(m.along) > 0 {
		quotes = append(quotes, bus.Quote{About: "sent along", Text: text.Ellipsis(strings.Join(m.along, "\n"), quoteMost)})
	}

	said := strings.TrimSpace(strings.Join(append([]string{m.words()}, files.Spoken...), "\n"))
	in.Media = files.Media
	in.Quoted = append(quotes, files.Quotes()...)
	if said == "" && len(in.Quoted) == 0 {
		said = "[empty message]"
	}
	if in.Text = said; !v.Direct && !strings.HasPrefix(said, "/") {
		in.Text = strings.TrimSpace(v.Name + ": " + said)
	}
	return pass.Submit(ctx, in, rc.submit)
}

// joined tells the agent of a person who joined a group.
func (rc *receiver) joined(ctx context.Context, e event, f *frame) error {
	b := rc.bot
	v := rc.visitor(e, f)
	v.Mentioned, v.Route.MessageID = true, ""
	if !b.deps.Gate.Knows(ctx, v) {
		return nil
	}

	var who sender
	params := map[string]any{"group_id": number(f.GroupID), "user_id": number(f.UserID), "no_cache": true}
	if err := b.call(ctx, "get_group_member_info", params, &who); err != nil {
		b.deps.Log.DebugContext(ctx, "the name of a person who joined is not known", "err", err)
	}

	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}

	name := text.Speaker(cmp.Or(who.Card, who.Name, string(f.UserID)))
	in := pass.Inbound(fmt.Sprintf("join.%s.%s.%d", f.GroupID, f.UserID, f.Time), fmt.Sprintf("[group event] new member %s joined group %s", name, f.GroupID))
	in.Meta = map[string]string{"is_group": "true", "event": "group_increase"} // the text stays untrusted: the platform wrote it
	return rc.submit(ctx, in)
}

// fetch returns a message, nil if it is gone.
func (rc *receiver) fetch(ctx context.Context, message string) *frame {
	var f frame
	if err := rc.bot.call(ctx, "get_msg", map[string]any{"message_id": number(id(message))}, &f); err != nil {
		rc.bot.deps.Log.DebugContext(ctx, "a message that is answered cannot be read", "err", err)
		return nil
	}
	return &f
}

// answers quotes the message that is answered, with its files.
func (rc *receiver) answers(ctx context.Context, f *frame, files *kit.Files) []bus.Quote {
	if f == nil {
		return nil
	}

	m := parts{}
	if list, err := segments(f.Message); err == nil {
		m.read(list)
	}

	for _, s := range m.files {
		r := rc.bot.received(s)
		if r.Kind == kit.VoiceFile {
			r.Kind = kit.AudioFile // another person spoke it
		}
		files.Add(ctx, r)
	}

	said := strings.TrimSpace(m.words() + "\n" + strings.Join(m.along, "\n"))
	if said == "" {
		said = "a message without words"
	}
	return []bus.Quote{{About: "what this answers", Text: "[Reply to: " + text.Ellipsis(said, quoteMost) + "]"}}
}

// forwarded reads messages that were passed on together.
func (rc *receiver) forwarded(ctx context.Context, s segment) []bus.Quote {
	var got struct {
		Messages []struct {
			frame
			Content json.RawMessage `json:"content"` // in other programs than NapCat
		} `json:"messages"`
	}
	if err := rc.bot.call(ctx, "get_forward_msg", map[string]any{"id": s.get("id")}, &got); err != nil {
		rc.bot.deps.Log.WarnContext(ctx, "forwarded messages cannot be read", "err", err)
		return []bus.Quote{{About: "forwarded", Text: "[forwarded messages: cannot be read]"}}
	}

	var lines []string
	for _, f := range got.Messages[:min(len(got.Messages), forwardMost)] {
		raw := f.Message
		if len(raw) == 0 {
			raw = f.Content
		}

		m := parts{}
		if list, err := segments(raw); err == nil {
			m.read(list)
		}
		lines = append(lines, text.Speaker(f.Sender.Name)+": "+text.Label(m.words()+" "+strings.Join(m.along, " "), lineMost))
	}

	return []bus.Quote{{About: "forwarded", Text: text.Ellipsis(strings.Join(lines, "\n"), quoteMost)}}
}

// number returns an id as the platform's number, or as it is.
func number(v id) any {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n
	}
	return string(v)
}

// parts are what a message is made of.
type parts struct {
	self     string
	typed    []string
	along    []string // cards and the like
	files    []segment
	forwards []segment
	reply    string // the message that is answered
	named    bool
	all      bool
}

func (m *parts) read(list []segment) {
	for _, s := range list {
		switch s.Type {
		case "text":
			m.add(s.get("text"))
		case "at":
			switch who := s.get("qq"); who {
			case m.self:
				m.named = true
			case "all":
				m.all = true
				m.add("@all")
			default:
				m.add("@" + who)
			}

		case "reply":
			m.reply = s.get("id")
		case "face":
			m.add("[face:" + s.get("id") + "]")
		case "mface":
			m.add(cmp.Or(s.get("summary"), "[sticker]"))
		case "image", "record", "video", "file":
			m.files = append(m.files, s)
		case "forward":
			m.forwards = append(m.forwards, s)
		case "json":
			var card struct {
				Prompt string `json:"prompt"`
			}
			_ = json.Unmarshal([]byte(s.get("data")), &card) // what is not one has no prompt
			m.along = append(m.along, cmp.Or(text.Valid(card.Prompt), "[card]"))

		case "markdown":
			m.along = append(m.along, text.Valid(s.get("content")))
		default:
			m.along = append(m.along, "["+text.Label(s.Type, nameShown)+"]")
		}
	}
}

func (m *parts) add(s string) {
	if s = strings.TrimSpace(text.Valid(s)); s != "" {
		m.typed = append(m.typed, s)
	}
}

func (m *parts) words() string { return strings.Join(m.typed, " ") }

// answers returns the answer that a message gives by being a reply to a question of
// ours. Only a short word counts.
func (m *parts) answers(to *frame, self string) *bus.Answer {
	if to == nil || string(to.Sender.UserID) != self || len(m.files)+len(m.along)+len(m.forwards) > 0 {
		return nil
	}

	list, err := segments(to.Message)
	if err != nil {
		return nil
	}

	var asked parts
	for _, s := range list {
		if s.Type == "text" {
			asked.typed = append(asked.typed, s.get("text"))
		}
	}

	q, ok := chat.AskedIn(asked.words())
	if !ok {
		return nil
	}

	word := strings.TrimSuffix(m.words(), " "+q.Code)
	if _, remark, ok := q.Choose(word); !ok || remark != "" || strings.HasPrefix(word, "/") {
		return nil
	}
	return &bus.Answer{QuestionID: q.Code, Option: word}
}

// received returns a file of a message.
func (b *bot) received(s segment) kit.Received {
	kinds := map[string]kit.FileKind{"image": kit.ImageFile, "record": kit.VoiceFile, "video": kit.VideoFile}
	r := kit.Received{Kind: kinds[s.Type], Name: cmp.Or(s.get("name"), s.get("file"), s.Type)}
	most := b.deps.Media.Max
	if r.Kind == "" {
		r.Kind = kit.OtherFile
	}
	if s.Type == "image" {
		most = min(most, b.o.MaxImageBytes)
	}

	r.Size, _ = strconv.ParseInt(s.get("file_size"), 10, 64) // 0: not known
	r.Open = func(ctx context.Context) (io.ReadCloser, error) {
		if r.Size > most {
			return nil, media.ErrTooLarge
		}
		data, err := b.content(ctx, s, most)
		return io.NopCloser(bytes.NewReader(data)), err
	}
	return r
}

// content fetches a file: by its address, or else from NapCat. Paths are those
// of its machine.
func (b *bot) content(ctx context.Context, s segment, most int64) ([]byte, error) {
	if address := s.get("url"); strings.HasPrefix(address, "http") {
		return b.download(ctx, address, most)
	}

	name, params := "get_file", map[string]any{"file": s.get("file"), "file_id": cmp.Or(s.get("file_id"), s.get("file"))}
	if s.Type == "record" {
		name, params["out_format"] = "get_record", "mp3"
	}

	var got struct {
		URL    string `json:"url"`
		Base64 string `json:"base64"`
	}
	if err := b.call(ctx, name, params, &got); err != nil {
		return nil, err
	}

	switch {
	case int64(len(got.Base64))/4*3 > most+3:
		return nil, media.ErrTooLarge
	case got.Base64 != "":
		return base64.StdEncoding.DecodeString(got.Base64)
	case strings.HasPrefix(got.URL, "http"):
		return b.download(ctx, got.URL, most)
	}

	return nil, errors.New("NapCat gives no address of a file; set enableLocalFile2Url in its settings")
}

// download gets what an address has that a stranger may have written. Redirects
// are not followed. An error does not show the address, which may be a key.
func (b *bot) download(ctx context.Context, address string, most int64) ([]byte, error) {
	h, err := b.deps.Fetch()
	if err != nil {
		return nil, err
	}

	defer h.CloseIdleConnections()
	direct := *h
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := kit.Download(ctx, &direct, address, nil)
	if err != nil {
		return nil, err
	}

	defer res.Body.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = media.ErrTooLarge
	}
	return data, err
}
