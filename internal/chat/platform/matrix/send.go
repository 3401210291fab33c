package matrix

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	typingEvery  = 20 * time.Second
	typingFor    = 30 * time.Second
	fallbackMost = 500 // bytes of an edit for clients that know no edits
)

// outgoing is the content of a message of ours.
type outgoing struct {
	Type     string      `json:"msgtype"`
	Body     string      `json:"body"`
	Format   string      `json:"format,omitempty"`
	HTML     string      `json:"formatted_body,omitempty"`
	Mentions struct{}    `json:"m.mentions"` // empty, whatever stands in the text
	Relates  *relation   `json:"m.relates_to,omitempty"`
	New      *outgoing   `json:"m.new_content,omitempty"`
	Filename string      `json:"filename,omitempty"`
	URL      string      `json:"url,omitempty"`
	File     *lockedFile `json:"file,omitempty"`
	Info     *fileInfo   `json:"info,omitempty"`
	Voice    *struct{}   `json:"org.matrix.msc3245.voice,omitempty"`
}

type fileInfo struct {
	MIME string `json:"mimetype"`
	Size int64  `json:"size"`
}

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	if len(out.Media) == 0 && strings.TrimFunc(out.Text, invisible) == "" {
		return "", nil
	}

	r, err := b.rooms.get(ctx, out.Route.ChatID)
	if err != nil {
		return "", b.noRoom(err)
	}

	var m *outgoing
	if len(out.Media) > 0 {
		m, err = b.file(ctx, out, r)
	} else {
		m = wordsOf(out, out.Kind != bus.Delta)
	}

	if err != nil {
		return "", err
	}

	m.Relates = relates(out)
	id, err := b.sendMessage(ctx, out.Route.ChatID, r, m, transaction(out.Key))
	if err != nil {
		return "", err
	}

	b.ours.Put(id, true)
	if out.Kind == bus.Ask { // the person's turn: a message does not end typing by itself
		_ = b.typing(ctx, out.Route, false) // cosmetic
	}
	return id, nil
}

// noRoom explains why a room cannot be written to.
func (b *bot) noRoom(err error) error {
	if e := refusal(err); e != nil && (e.Code == "M_FORBIDDEN" || e.Code == "M_NOT_FOUND") {
		return chat.Permanent(fmt.Errorf("%s is not in the room: invite it (%w)", b.o.UserID, err))
	}
	return classify(err)
}

// transaction returns what a message is sent by: a homeserver that gets it again
// answers with the message that it knows.
func transaction(key string) string {
	if key == "" {
		return rand.Text()
	}
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// answerOf returns the content of a part of an answer.
func answerOf(words string, whole bool) *outgoing {
	return wordsOf(bus.Outbound{Kind: bus.Final, Text: words}, whole)
}

// wordsOf returns the content of a message of words. One that is not whole has no
// markup.
func wordsOf(out bus.Outbound, whole bool) *outgoing {
	m := &outgoing{Type: "m.text", Body: strings.Map(printable, text.Valid(out.Text))}
	switch out.Kind {
	case bus.Progress, bus.ToolHint, bus.Notice, bus.Reasoning: // no phone rings for it
		m.Type = "m.notice"
	}

	switch {
	case !whole: // its markup may not be complete
		if s := markdown.Plain(markdown.Parse(m.Body)); strings.TrimFunc(s, invisible) != "" {
			m.Body = s
		}
	case !out.Plain && out.Kind != bus.ToolHint:
		if page := toHTML(m.Body); page != "" {
			m.Format, m.HTML = "org.matrix.custom.html", page
		}
	}

	return m
}

// printable drops what no client shows and what takes six bytes in JSON.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}

// relates says which thread a message belongs to and what it answers. Whether
// it answers the message that it was asked in is left to the reader's eyes.
func relates(out bus.Outbound) *relation {
	reply := out.ReplyTo
	if reply == out.Route.MessageID {
		reply = ""
	}

	if root := out.Route.ThreadID; root != "" {
		rel := &relation{Type: relThread, Event: root, Answers: &answered{reply}}
		if reply == "" {
			rel.Answers.Event, rel.Falling = root, true
			if out.Route.MessageID != "" {
				rel.Answers.Event = out.Route.MessageID
			}
		}
		return rel
	}

	if reply != "" {
		return &relation{Answers: &answered{reply}}
	}
	return nil
}

// sendMessage posts into a room, encrypted where the room is.
func (b *bot) sendMessage(ctx context.Context, id string, r *room, m *outgoing, txn string) (string, error) {
	data, err := m.fit()
	if err != nil {
		return "", err
	}
	return b.post(ctx, id, r, "m.room.message", data, txn)
}

// sendNotice posts a remark about the conversation itself.
func (b *bot) sendNotice(ctx context.Context, to bus.Route, words string) {
	if _, err := b.Send(ctx, bus.Outbound{Kind: bus.Notice, Route: to, Plain: true, Text: words}); err != nil {
		b.deps.Log.DebugContext(ctx, "a notice cannot be sent", "room", to.ChatID, "err", err)
	}
}

// post sends an event into a room, encrypted if the room is.
func (b *bot) post(ctx context.Context, id string, r *room, kind string, data json.RawMessage, txn string) (string, error) {
	if r.encrypted != nil {
		c, err := b.keys()
		if err != nil {
			return "", err
		}
		if data, err = c.encrypt(ctx, id, r, kind, data); err != nil {
			return "", fmt.Errorf("encrypt a message: %w", err)
		}
		kind = "m.room.encrypted"
	}

	var got struct {
		ID string `json:"event_id"`
	}
	if err := b.client.call(ctx, http.MethodPut, roomPath(id, "send", kind, txn), data, &got); err != nil {
		if is(err, "M_FORBIDDEN") {
			b.rooms.forget(id)
			return "", b.noRoom(err)
		}
		return "", classify(err)
	}

	return got.ID, nil
}

// fit returns the JSON of a message within the limit of an event, without its markup
// if that is too much. Encryption makes it a third longer, and escapes signs.
func (m *outgoing) fit() (json.RawMessage, error) {
	for _, page := range []bool{true, false} {
		if !page {
			m.Format, m.HTML = "", ""
			if m.New != nil {
				m.New.Format, m.New.HTML = "", ""
			}
		}

		escaped, err := json.Marshal(m)
		if err != nil {
			return nil, chat.Permanent(err)
		}
		if len(escaped)*4/3+1000 <= maxEvent {
			break
		}
	}

	data, err := kit.MarshalPlain(m)
	if err != nil {
		return nil, chat.Permanent(err)
	}
	return data, nil
}

// file returns the content of a message with a file, which is stored first.
func (b *bot) file(ctx context.Context, out bus.Outbound, r *room) (*outgoing, error) {
	if len(out.Media) != 1 {
		return nil, chat.Permanent(fmt.Errorf("one file at a time, got %d", len(out.Media)))
	}

	f, err := kit.OpenAttachment(ctx, b.deps, out.Media[0], b.limit.Load())
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // read only

	m := &outgoing{Type: "m.file", Body: f.Name, Filename: f.Name, Info: &fileInfo{f.MIME, f.Size()}}
	switch f.Kind {
	case kit.ImageFile:
		m.Type = "m.image"
	case kit.VideoFile:
		m.Type = "m.video"
	case kit.AudioFile:
		m.Type = "m.audio"
	case kit.VoiceFile:
		m.Type, m.Voice = "m.audio", &struct{}{}
	}

	if out.Text != "" {
		m.Body = text.Valid(out.Text)
	}

	if r.encrypted == nil {
		if m.URL, err = b.client.upload(ctx, f, f.Size(), f.MIME); err != nil {
			return nil, classify(err)
		}
		return m, nil
	}

	if _, err := b.keys(); err != nil {
		return nil, err
	}

	l, err := newLocker(f)
	if err != nil {
		return nil, err
	}

	address, err := b.client.upload(ctx, l, f.Size(), "application/octet-stream")
	if err != nil {
		return nil, classify(err)
	}

	m.File = l.done(address)
	return m, nil
}

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	if strings.TrimFunc(out.Text, invisible) == "" {
		return nil
	}

	r, err := b.rooms.get(ctx, out.Route.ChatID)
	if err != nil {
		return b.noRoom(err)
	}

	m := wordsOf(out, final)
	edit := &outgoing{Type: m.Type, Body: "* " + text.Ellipsis(m.Body, fallbackMost), New: m, Relates: &relation{Type: relReplace, Event: id}}
	_, err = b.sendMessage(ctx, out.Route.ChatID, r, edit, rand.Text())
	return err
}

// Erase implements chat.Streamer.
func (b *bot) Erase(ctx context.Context, route bus.Route, id string) error {
	err := b.client.call(ctx, http.MethodPut, roomPath(route.ChatID, "redact", id, rand.Text()), struct{}{}, nil)
	if is(err, "M_NOT_FOUND") {
		return nil
	}
	return classify(err)
}

// Signal implements chat.Signaller: a receipt when a message is taken, and
// typing while it is worked on.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	if phase == chat.Seen {
		body := map[string]string{}
		if route.ThreadID != "" {
			body["thread_id"] = route.ThreadID
		}
		return classify(b.client.call(ctx, http.MethodPost, roomPath(route.ChatID, "receipt", "m.read", route.MessageID), body, nil))
	}
	return b.typing(ctx, route, phase == chat.Working)
}

// typing shows whether we write.
func (b *bot) typing(ctx context.Context, route bus.Route, on bool) error {
	body := map[string]any{"typing": on}
	if on {
		body["timeout"] = typingFor.Milliseconds()
	}
	return classify(b.client.call(ctx, http.MethodPut, roomPath(route.ChatID, "typing", b.o.UserID), body, nil))
}

// Address implements chat.Addresser: the id or the alias of a room, or a
// person who may talk to us, in a room that is made if there is none.
func (b *bot) Address(ctx context.Context, target string) (bus.Route, error) {
	route := bus.Route{Channel: b.deps.Name, ChatID: target}
	switch {
	case strings.HasPrefix(target, "!"):
		return route, nil
	case strings.HasPrefix(target, "#"):
		var got struct {
			Room string `json:"room_id"`
		}
		if err := b.client.call(ctx, http.MethodGet, path(clientV3+"/directory/room", target), nil, &got); err != nil {
			return route, fmt.Errorf("find the room %s: %w", target, err)
		}
		route.ChatID = got.Room
		return route, nil

	case strings.HasPrefix(target, "@") && strings.Contains(target, ":"):
		id, err := b.directRoom(ctx, target)
		route.ChatID = id
		return route, err
	}

	return route, fmt.Errorf("%q is not a Matrix room: use !id:server, #alias:server or @person:server", target)
}

// directRoom returns where we are alone with a person.
func (b *bot) directRoom(ctx context.Context, user string) (string, error) {
	if !b.deps.Gate.Knows(ctx, access.Visitor{IDs: []string{user}, Direct: true, Route: bus.Route{Channel: b.deps.Name}}) {
		return "", fmt.Errorf("%s is not in channels.%s.allowFrom and is not paired", user, b.deps.Name)
	}

	data := path(clientV3+"/user", b.o.UserID, "account_data", "m.direct")
	known := map[string][]string{}
	if err := b.client.call(ctx, http.MethodGet, data, nil, &known); err != nil && !is(err, "M_NOT_FOUND") {
		return "", err
	}

	for _, id := range known[user] {
		if r, err := b.rooms.get(ctx, id); err == nil && r.direct() {
			if _, there := r.members[user]; there {
				return id, nil
			}
		}
	}

	body := map[string]any{"is_direct": true, "preset": "trusted_private_chat", "invite": []string{user}}
	if _, err := b.keys(); err == nil {
		body["initial_state"] = []map[string]any{{"type": "m.room.encryption", "state_key": "", "content": map[string]string{"algorithm": "m.megolm.v1.aes-sha2"}}}
	}

	var got struct {
		Room string `json:"room_id"`
	}
	if err := b.client.call(ctx, http.MethodPost, clientV3+"/createRoom", body, &got); err != nil {
		return "", fmt.Errorf("make a room with %s: %w", user, err)
	}

	known[user] = append(known[user], got.Room)
	if err := b.client.call(ctx, http.MethodPut, data, known, nil); err != nil {
		b.deps.Log.WarnContext(ctx, "cannot save the room of a person", "sender", user, "err", err)
	}
	return got.Room, nil
}
