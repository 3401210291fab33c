package mattermost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// draft is a post to be made.
type draft struct {
	ChannelID string         `json:"channel_id"`
	RootID    string         `json:"root_id,omitempty"`
	Message   string         `json:"message"`
	FileIDs   []string       `json:"file_ids,omitempty"`
	Pending   string         `json:"pending_post_id,omitempty"`
	Props     map[string]any `json:"props,omitempty"`
}

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	me := b.me.Load()
	if me == nil {
		return "", chat.ErrNotReady
	}

	d := draft{ChannelID: out.Route.ChatID, RootID: out.Route.ThreadID, Message: b.render(out), Props: b.props(out)}
	if d.Message == "" && len(out.Media) == 0 {
		return "", nil
	}

	if out.Key != "" {
		key := hash(out.Key)
		d.Props[keyProp], d.Pending = key, me.ID+":"+key
		if id, err := b.keys.find(ctx, me.ID, d.ChannelID, key); id != "" || err != nil {
			return id, classify(err)
		}
	}

	if err := b.attach(ctx, &d, out.Media); err != nil {
		return "", classify(err)
	}

	id, err := b.create(ctx, d)
	if err != nil {
		return "", classify(err)
	}

	if q := out.Question; q != nil && out.Kind == bus.Ask {
		b.asked.Put(id, *q)
	}
	return id, nil
}

// create makes a post. A thread that is gone does not hold it up.
func (b *bot) create(ctx context.Context, d draft) (string, error) {
	var made post
	err := b.calls.call(ctx, http.MethodPost, "/posts", d, &made)
	if e := refusal(err); e != nil && d.RootID != "" && e.Code == http.StatusBadRequest && strings.Contains(e.ID, "root_id") {
		d.RootID = ""
		err = b.calls.call(ctx, http.MethodPost, "/posts", d, &made)
	}

	key, _ := d.Props[keyProp].(string)
	switch {
	case err == nil && made.ID == "":
		return "", errors.New("POST /posts: no post in the answer")
	case err == nil && key != "":
		b.keys.sent.Put(d.ChannelID+"/"+key, made.ID)
	case err != nil && !refusal(err).refused(): // it may have been made
		b.keys.searched.Delete(d.ChannelID)
	}

	if e := refusal(err); e != nil && e.Code == http.StatusForbidden {
		err = fmt.Errorf("%w; add %s to the channel, and let it post there", err, b.identity())
	}
	return made.ID, err
}

// attach uploads files. One that cannot be sent is named in the text instead.
func (b *bot) attach(ctx context.Context, d *draft, files []bus.Media) error {
	for _, m := range files {
		id, err := b.upload(ctx, d.ChannelID, m)
		switch {
		case err == nil:
			d.FileIDs = append(d.FileIDs, id)
		case chat.IsPermanent(err) || refusal(err).refused() && refusal(err).Code != http.StatusForbidden:
			b.deps.Log.WarnContext(ctx, "a file cannot be sent", "chat", d.ChannelID, "err", err)
			d.Message = strings.TrimSpace(d.Message + "\n[attachment: " + media.FileName(m.Name) + " - upload failed]")
		default:
			return err
		}
	}
	return nil
}

func (b *bot) upload(ctx context.Context, chatID string, m bus.Media) (string, error) {
	f, err := kit.OpenAttachment(ctx, b.deps, m, b.most.Load())
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	return b.calls.upload(ctx, chatID, f)
}

// props returns those of every post of ours.
func (b *bot) props(out bus.Outbound) map[string]any {
	props := map[string]any{}
	if !b.o.LinkPreviews {
		props["unsafe_links"] = "true" // the server fetches none of the addresses
	}
	if list := b.buttons(out); list != nil {
		props["attachments"] = list
	}
	return props
}

// render returns the text of a post. Mattermost shows Markdown as models write it.
func (b *bot) render(out bus.Outbound) string {
	s := strings.TrimSpace(text.Valid(out.Text))
	if out.Kind == bus.ToolHint && s != "" {
		s = "> " + strings.ReplaceAll(s, "\n", "\n> ")
	}
	return harmless(s, b.o.LinkPreviews)
}

// Edit implements chat.Streamer.
func (b *bot) Edit(ctx context.Context, out bus.Outbound, id string, final bool) error {
	s := b.render(out)
	if !final {
		s = text.Ellipsis(s, b.o.StreamingMaxChars)
	}
	if s == "" {
		return nil
	}
	return classify(b.calls.call(ctx, http.MethodPut, "/posts/"+id+"/patch", map[string]string{"message": s}, nil))
}

// Erase implements chat.Streamer.
func (b *bot) Erase(ctx context.Context, _ bus.Route, id string) error {
	err := b.calls.call(ctx, http.MethodDelete, "/posts/"+id, nil, nil)
	e := refusal(err)
	if e == nil || e.Code != http.StatusForbidden && e.Code != http.StatusNotFound {
		return classify(err)
	}
	// The server says the same of a post that is gone and of one that must stay.
	if look := b.calls.call(ctx, http.MethodGet, "/posts/"+id, nil, nil); look == nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return nil
}

// Signal implements chat.Signaller.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	if phase == chat.Working {
		return b.typing(ctx, route)
	}

	me, id := b.me.Load(), route.MessageID
	if me == nil || id == "" {
		return nil
	}

	react := func(emoji string) error {
		if emoji == "" {
			return nil
		}
		return b.calls.call(ctx, http.MethodPost, "/reactions", map[string]string{"user_id": me.ID, "post_id": id, "emoji_name": emoji}, nil)
	}
	if phase == chat.Seen {
		return react(b.o.ReactEmoji)
	}

	var err error
	if b.o.ReactEmoji != "" {
		err = b.calls.call(ctx, http.MethodDelete, "/users/"+me.ID+"/posts/"+id+"/reactions/"+b.o.ReactEmoji, nil, nil)
	}
	if phase == chat.Answered {
		err = errors.Join(err, react(b.o.DoneEmoji))
	}
	return err
}

// typing shows that we write. The server's answer does not matter.
func (b *bot) typing(ctx context.Context, route bus.Route) error {
	c := b.conn.Load()
	if c == nil {
		return chat.ErrNotReady
	}
	return c.Send(ctx, request(b.seq.Add(1), "user_typing", map[string]string{"channel_id": route.ChatID, "parent_id": route.ThreadID}))
}
