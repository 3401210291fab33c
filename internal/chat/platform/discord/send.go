package discord

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// outgoing is a message that is sent or edited.
type outgoing struct {
	Content    string      `json:"content"`
	Nonce      string      `json:"nonce,omitempty"`
	Enforce    bool        `json:"enforce_nonce,omitempty"`
	Flags      int         `json:"flags,omitempty"`
	Mentions   mentions    `json:"allowed_mentions"`
	Reference  *reference  `json:"message_reference,omitempty"`
	Components []component `json:"components,omitempty"`
}

// mentions says who a message notifies.
type mentions struct {
	Parse   []string `json:"parse"`
	Replied bool     `json:"replied_user"`
}

// noMentions keeps a text from notifying people, whatever the model wrote.
func noMentions() mentions { return mentions{Parse: []string{}} }

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	rows, list := buttons(out)
	m := outgoing{
		Content:    render(out, list),
		Mentions:   noMentions(),
		Flags:      flagNoEmbeds,
		Components: rows,
		Reference:  b.reference(out),
	}
	if quiet(out.Kind) {
		m.Flags |= flagSilent
	}
	if out.Key != "" {
		m.Nonce, m.Enforce = nonce(out.Key), true
	}

	files, err := b.open(ctx, out, &m)
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err != nil {
		return "", err
	}
	if len(files) == 0 && strings.TrimSpace(m.Content) == "" {
		return "", nil
	}

	sent, err := b.deliver(ctx, out.Route, func(to string) (string, error) { return b.post(ctx, to, m, files) })
	if is(err, codeTooLarge) && len(files) > 0 {
		for _, f := range files {
			m.Content = addLine(m.Content, f.Name, "too large")
		}
		sent, err = b.deliver(ctx, out.Route, func(to string) (string, error) { return b.post(ctx, to, m, nil) })
	}

	if err != nil {
		return "", err
	}

	if out.Question != nil && out.Question.Clean {
		_, id := split(sent, out.Route)
		b.clean.Put(id, true)
	}
	if m.Reference != nil {
		b.quoted.Put(m.Reference.MessageID, true)
	}
	return sent, nil
}

// nonce returns a key in the form of Discord: 25 characters at most.
func nonce(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// quiet reports whether a kind should not make phones ring.
func quiet(k bus.Kind) bool {
	return k == bus.Progress || k == bus.ToolHint || k == bus.Notice || k == bus.Reasoning
}

// reference returns the message that an answer refers to. In servers that is the one
// it answers, of the first part; elsewhere only one that is named on purpose.
func (b *bot) reference(out bus.Outbound) *reference {
	id := out.ReplyTo
	if id == "" || number(id) == 0 || quiet(out.Kind) || b.quoted.Has(id) {
		return nil
	}
	if id == out.Route.MessageID && !b.inServer(out.Route) {
		return nil
	}
	fail := false
	return &reference{MessageID: id, Fail: &fail}
}

func (b *bot) inServer(r bus.Route) bool {
	c, ok := b.places.known.Get(r.ChatID)
	return r.ThreadID != "" || ok && c.GuildID != ""
}

// open opens the files of a message. One that is too large for the place is
// named in the text instead.
func (b *bot) open(ctx context.Context, out bus.Outbound, m *outgoing) (files []*kit.Attachment, err error) {
	if len(out.Media) > maxFiles {
		return nil, chat.Permanent(fmt.Errorf("%d files at a time, got %d", maxFiles, len(out.Media)))
	}

	most := b.places.upload(target(out.Route))
	for _, saved := range out.Media {
		f, err := kit.OpenAttachment(ctx, b.deps, saved, most)
		if errors.Is(err, media.ErrTooLarge) {
			name := saved.Name
			if name == "" {
				name = saved.Path[strings.LastIndexAny(saved.Path, `/\`)+1:]
			}
			m.Content = addLine(m.Content, name, "too large")
			continue
		}

		if err != nil {
			return files, err
		}
		files = append(files, f)
	}

	return files, nil
}

// addLine adds what became of a file to a text, as long as there is room.
func addLine(s, name, why string) string {
	line := escape("[attachment: " + media.FileName(name) + " - " + why + "]")
	if s != "" {
		line = "\n" + line
	}
	if markdown.UTF16.Length(s)+markdown.UTF16.Length(line) > maxText {
		return s
	}
	return s + line
}

func (b *bot) post(ctx context.Context, to string, m outgoing, files []*kit.Attachment) (string, error) {
	var sent message
	err := b.calls.do(ctx, call{method: http.MethodPost, path: "/channels/" + to + "/messages", body: m, files: files}, &sent)
	if err == nil && sent.ID == "" {
		err = errors.New("Discord named no message") //nolint:staticcheck // a name begins the sentence
	}
	return sent.ID, err
}

// target returns the channel or thread of a route.
func target(r bus.Route) string {
	if r.ThreadID != "" {
		return r.ThreadID
	}
	return r.ChatID
}

// deliver runs a call for a route. A thread that is archived is opened again; if
// that is not possible, or the thread is gone, its channel gets the message.
func (b *bot) deliver(ctx context.Context, route bus.Route, try func(to string) (string, error)) (string, error) {
	to := target(route)
	if number(to) == 0 || number(route.ChatID) == 0 {
		return "", chat.Permanent(fmt.Errorf("%q is not a Discord channel: use its number (in Discord, switch on developer mode and choose Copy Channel ID)", to))
	}

	id, err := try(to)
	if is(err, codeArchived) {
		open := call{method: http.MethodPatch, path: "/channels/" + to, body: map[string]any{"archived": false}, patience: 5 * time.Second}
		if b.calls.do(ctx, open, nil) == nil {
			id, err = try(to)
		}
	}

	if route.ThreadID != "" && is(err, codeArchived, codeUnknownChannel) {
		if id, err = try(route.ChatID); err == nil {
			return route.ChatID + "/" + id, nil
		}
	}
	return id, classify(err)
}

// split takes an id of ours apart: the channel that a message is in, and its
// number.
func split(id string, route bus.Route) (channelID, message string) {
	if c, m, ok := strings.Cut(id, "/"); ok {
		return c, m
	}
	return target(route), id
}

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	to, m := split(id, out.Route)
	rows, list := buttons(out)
	body := outgoing{Content: render(out, list), Mentions: noMentions(), Components: rows}
	if strings.TrimSpace(body.Content) == "" {
		return nil
	}
	if number(to) == 0 || number(m) == 0 {
		return chat.Permanent(fmt.Errorf("%q is not a Discord message", id))
	}

	err := b.calls.do(ctx, call{method: http.MethodPatch, path: "/channels/" + to + "/messages/" + m, body: body}, nil)
	if err == nil && final && out.Question != nil && out.Question.Clean {
		b.clean.Put(m, true)
	}
	if err == nil && out.Route.MessageID != "" { // an earlier process may have begun the answer, and referred
		b.quoted.Put(out.Route.MessageID, true)
	}
	return classify(err)
}

// Erase implements chat.Streamer.
func (b *bot) Erase(ctx context.Context, route bus.Route, id string) error {
	to, m := split(id, route)
	if number(to) == 0 || number(m) == 0 {
		return chat.Permanent(fmt.Errorf("%q is not a Discord message", id))
	}
	err := b.calls.do(ctx, call{method: http.MethodDelete, path: "/channels/" + to + "/messages/" + m}, nil)
	if is(err, codeUnknownMessage, codeUnknownChannel) {
		return nil
	}
	return classify(err)
}

// mark is what is shown at a message of a person. Its lock is held while Discord
// is asked, so that the end comes after what it takes away.
type mark struct {
	mu      sync.Mutex
	waits   bool // for workingEmoji
	working bool // workingEmoji is shown
	ended   bool
}

// signalPatience is how long a reaction waits for its bucket, which is small.
const signalPatience = 5 * time.Second

// Signal implements chat.Signaller.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	switch phase {
	case chat.Working:
		err := b.calls.do(ctx, call{method: http.MethodPost, path: "/channels/" + target(route) + "/typing"}, nil)
		return errors.Join(classify(err), b.work(ctx, route))
	case chat.Seen:
		return b.react(ctx, route, http.MethodPut, b.o.ReadReceiptEmoji)
	}

	m, known := b.markOf(route.MessageID)
	m.mu.Lock()
	defer m.mu.Unlock()

	m.ended = true
	err := b.react(ctx, route, http.MethodDelete, b.o.ReadReceiptEmoji)
	if m.working || !known { // an earlier process may have set it
		err = errors.Join(err, b.react(ctx, route, http.MethodDelete, b.o.WorkingEmoji))
	}
	return err
}

// markOf returns the mark of a message, and whether it was known before.
func (b *bot) markOf(message string) (m *mark, known bool) {
	if m, known = b.marks.Get(message); !known {
		m = &mark{}
		b.marks.Put(message, m)
	}
	return m, known
}

// work shows workingEmoji after its delay, once per message.
func (b *bot) work(ctx context.Context, route bus.Route) error {
	if number(route.MessageID) == 0 || b.o.WorkingEmoji == "" {
		return nil
	}

	m, _ := b.markOf(route.MessageID)
	m.mu.Lock()
	first := !m.waits && !m.ended
	m.waits = true
	m.mu.Unlock()
	if !first || wait.For(ctx, b.o.workingDelay()) != nil {
		return nil
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	if m.ended {
		return nil
	}

	m.working = true
	return b.react(ctx, route, http.MethodPut, b.o.WorkingEmoji)
}

// react sets or removes a reaction of ours.
func (b *bot) react(ctx context.Context, route bus.Route, method, emoji string) error {
	if emoji == "" || number(route.MessageID) == 0 {
		return nil
	}
	path := "/channels/" + target(route) + "/messages/" + route.MessageID + "/reactions/" + url.PathEscape(emoji) + "/@me"
	err := b.calls.do(ctx, call{method: method, path: path, patience: signalPatience}, nil)
	if method == http.MethodDelete && is(err, codeUnknownMessage, codeUnknownEmoji) {
		return nil
	}
	return classify(err)
}
