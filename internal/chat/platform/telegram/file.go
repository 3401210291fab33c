package telegram

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	maxUpload  = 50_000_000 // bytes of a file a bot may send
	maxPhoto   = 10_000_000 // bytes of a file that is shown as a photo
	maxCaption = 1024       // UTF-16 units without the markup
)

// sendFile sends the first file of a message. What Telegram does not take as
// a photo, a voice message or the like goes as a document.
func (b *bot) sendFile(ctx context.Context, to outgoing, out bus.Outbound, sent *message) error {
	if len(out.Media) != 1 {
		return chat.Permanent(fmt.Errorf("one file at a time, got %d", len(out.Media)))
	}
	err := b.sendAs(ctx, "", to, out, sent)
	if e := refusal(err); e != nil && e.Code == http.StatusBadRequest && e.MigrateTo == 0 && aboutFile(e) {
		return b.sendAs(ctx, "document", to, out, sent)
	}
	return err
}

// aboutFile recognises refusals of the file, not of the chat.
func aboutFile(e *apiError) bool {
	return e.mentions("PHOTO_", "IMAGE_", "VIDEO_", "AUDIO_", "VOICE_", "wrong file", "wrong type", "failed to get http url content", "file of wrong")
}

// sendAs opens the file and sends it. An empty kind is looked up.
func (b *bot) sendAs(ctx context.Context, kind string, to outgoing, out bus.Outbound, sent *message) error {
	f, err := kit.OpenAttachment(ctx, b.deps, out.Media[0], maxUpload)
	if err != nil {
		return err
	}

	defer f.Close() //nolint:errcheck // read only
	if kind == "" {
		kind = shownAs(f)
	}
	return b.caption(to, out, func(to outgoing, caption string) error {
		params, err := to.params()
		if err != nil {
			return err
		}

		if caption != "" {
			params["caption"] = caption
		}
		if kind == "video" {
			params["supports_streaming"] = "true"
		}

		method := "send" + strings.ToUpper(kind[:1]) + kind[1:]
		return b.calls.upload(ctx, method, params, kind, f, sent)
	})
}

// caption tries with the text under the file, with and without markup.
func (b *bot) caption(to outgoing, out bus.Outbound, try func(to outgoing, caption string) error) error {
	if strings.TrimSpace(out.Text) == "" {
		return try(to, "")
	}
	if markdown.UTF16.Length(out.Text) > maxCaption {
		return chat.Permanent(fmt.Errorf("the text under a file is over %d characters", maxCaption))
	}

	out.Media = nil
	return b.formatted(to, out, func(to outgoing) error {
		text := to.Text
		to.Text = ""
		return try(to, text)
	})
}

// shownAs returns what Telegram shows a file as; it is the name of the method and of
// the field as well.
func shownAs(f *kit.Attachment) string {
	switch f.MIME {
	case "image/gif":
		return "animation"
	case "image/jpeg", "image/png", "image/webp":
		if f.Size() <= maxPhoto {
			return "photo"
		}
	case "audio/mpeg", "audio/mp4", "audio/wave", "audio/aac":
		return "audio"
	}

	switch f.Kind {
	case kit.VoiceFile:
		return "voice"
	case kit.VideoFile:
		return "video"
	}
	return "document"
}
