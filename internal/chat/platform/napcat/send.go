package napcat

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// target returns a chat in the words of OneBot.
func target(to bus.Route) (map[string]any, error) {
	kind, digits, _ := strings.Cut(to.ChatID, ":")
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil || n <= 0:
	case kind == "group":
		return map[string]any{"message_type": kind, "group_id": n}, nil
	case kind == "private":
		return map[string]any{"message_type": kind, "user_id": n}, nil
	}

	return nil, chat.Permanent(fmt.Errorf("%q is not a chat: group:NUMBER or private:NUMBER is needed", text.Label(to.ChatID, nameShown)))
}

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	to, err := target(out.Route)
	if err != nil {
		return "", err
	}

	var list []segment
	for _, m := range out.Media {
		s, err := b.attach(ctx, to, m)
		if err != nil {
			return "", classify(err)
		}
		if s != nil {
			list = append(list, *s)
		}
	}

	if s := render(out); s != "" {
		list = append(list, segment{"text", map[string]any{"text": s}})
	}

	if len(list) == 0 {
		return "", nil
	}

	if out.ReplyTo != "" && isGroup(out.Route) && list[0].Type == "text" {
		list = append([]segment{{"reply", map[string]any{"id": out.ReplyTo}}}, list...)
	}

	to["message"] = list
	var made struct {
		ID id `json:"message_id"`
	}
	if err := b.call(ctx, "send_msg", to, &made); err != nil {
		return "", classify(err)
	}

	if made.ID != "" {
		b.sent.Put(string(made.ID), true)
	}
	return string(made.ID), nil
}

// attach makes a segment of a file. What is neither a picture nor a sound nor a
// video is uploaded, and nil is returned. NapCat may run on another machine, so
// the content goes along.
func (b *bot) attach(ctx context.Context, to map[string]any, m bus.Media) (*segment, error) {
	f, err := kit.OpenAttachment(ctx, b.deps, m, fileMost)
	if err != nil {
		return nil, err
	}

	defer f.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read the file to send: %w", err)
	}

	content := "base64://" + base64.StdEncoding.EncodeToString(data)
	kinds := map[kit.FileKind]string{kit.ImageFile: "image", kit.VideoFile: "video", kit.AudioFile: "record", kit.VoiceFile: "record"}
	if kind := kinds[f.Kind]; kind != "" {
		return &segment{kind, map[string]any{"file": content, "name": f.Name}}, nil
	}

	params := map[string]any{"file": content, "name": f.Name}
	name := "upload_private_file"
	if group, ok := to["group_id"]; ok {
		name, params["group_id"] = "upload_group_file", group
	} else {
		params["user_id"] = to["user_id"]
	}
	return nil, b.call(ctx, name, params, nil)
}

// render returns a text as QQ shows it, which knows no markup.
func render(out bus.Outbound) string {
	s := strings.TrimSpace(text.Valid(out.Text))
	if out.Plain || s == "" {
		return s
	}
	return markdown.Plain(markdown.Parse(s))
}

// Signal implements chat.Signaller: in a group a reaction, else that we write.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	to, err := target(route)
	if err != nil {
		return err
	}

	switch {
	case isGroup(route) && phase != chat.Working:
		if b.o.ReactEmoji == "" || route.MessageID == "" {
			return nil
		}
		params := map[string]any{"message_id": number(id(route.MessageID)), "emoji_id": b.o.ReactEmoji, "set": phase == chat.Seen}
		return b.call(ctx, "set_msg_emoji_like", params, nil)
	case !isGroup(route) && phase == chat.Working:
		return b.call(ctx, "set_input_status", map[string]any{"user_id": to["user_id"], "event_type": 1}, nil)
	}

	return nil
}
