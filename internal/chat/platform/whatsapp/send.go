package whatsapp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const jitter = 400 * time.Millisecond // before a message: programs that write in step are blocked

// Send implements chat.Channel.
func (b *bot) Send(ctx context.Context, out bus.Outbound) (string, error) {
	f := frame{To: target(out.Route.ChatID), Key: out.Key}
	if f.To == "" {
		return "", chat.Permanent(noChat(out.Route.ChatID))
	}

	f.Type, f.Text = typeSend, out.Text
	if !out.Plain {
		f.Text = render(out.Text)
	}
	if text.Blank(f.Text) {
		f.Text = ""
	}

	if len(out.Media) > 0 {
		clean, err := b.attach(ctx, &f, out.Media[0])
		defer clean()
		if err != nil {
			return "", err
		}
	} else if f.Text == "" {
		return "", nil
	}

	quote := b.quotes(out)
	if quote != "" {
		f.ReplyTo = &reply{}
		f.ReplyTo.ID, f.ReplyTo.Participant, _ = strings.Cut(quote, "/")
		f.ReplyTo.Text, _ = b.words.Get(quote)
	}

	if err := wait.For(ctx, rand.N(b.jitter)); err != nil { //nolint:gosec // only spreads load
		return "", err
	}

	answer, err := b.request(ctx, f)
	if err != nil {
		return "", err
	}

	if quote != "" {
		b.quoted.Put(quote, true)
	}
	return answer.MessageID, nil
}

// attach makes a file part of a frame: the other side reads it from the disk.
// One from an address is written there first, until clean is called.
func (b *bot) attach(ctx context.Context, f *frame, m bus.Media) (clean func(), err error) {
	clean = func() {}
	most := int64(maxUpload)
	remote := strings.HasPrefix(m.Path, "http://") || strings.HasPrefix(m.Path, "https://")
	if remote {
		most = maxRemote
	}

	a, err := kit.OpenAttachment(ctx, b.deps, m, most)
	if err != nil {
		return clean, err
	}

	defer a.Close() //nolint:errcheck // read only
	path, err := filepath.Abs(m.Path)
	if remote {
		var kept bus.Media
		kept, err = b.deps.Media.Save(ctx, a.Name, a)
		path, clean = kept.Path, func() { _ = os.Remove(kept.Path) }
	}

	if err != nil {
		return clean, err
	}

	f.Type = typeMedia
	f.FilePath = path
	f.FileName = a.Name
	f.Caption = f.Text
	f.Text = ""
	f.Kind, f.MIME = shownAs(a)
	return clean, nil
}

// shownAs returns what WhatsApp shows a file as. Older bridges go by the type, so one
// that is not played is given a type that is not a sound.
func shownAs(a *kit.Attachment) (kind, mime string) {
	mime, _, _ = strings.Cut(a.MIME, ";")
	switch a.Kind {
	case kit.ImageFile:
		if mime == "image/jpeg" || mime == "image/png" || mime == "image/webp" || mime == "image/gif" {
			return "image", mime
		}
	case kit.VideoFile:
		if mime == "video/mp4" || mime == "video/3gpp" {
			return "video", mime
		}
	case kit.VoiceFile:
		return "voice", "audio/ogg; codecs=opus"
	case kit.AudioFile:
		switch mime {
		case "audio/aac", "audio/amr", "audio/mp4", "audio/mpeg":
			return "audio", mime
		}

	case kit.OtherFile:
		if !strings.HasPrefix(mime, "image/") && !strings.HasPrefix(mime, "audio/") && !strings.HasPrefix(mime, "video/") {
			return "document", mime
		}
	}

	return "document", "application/octet-stream"
}

// quotes returns the message an answer quotes, "" if none: in groups the one that it
// belongs to, so that people see whom it is for.
func (b *bot) quotes(out bus.Outbound) string {
	_, modern := b.connection()
	answer := out.Kind == bus.Final || out.Kind == bus.Message
	switch {
	case !modern, out.ReplyTo == "", !isGroup(out.Route):
		return ""
	case !answer, b.quoted.Has(out.ReplyTo):
		return "" // each message is quoted once, by what answers it
	}
	return out.ReplyTo
}

// Signal implements chat.Signaller.
func (b *bot) Signal(ctx context.Context, route bus.Route, phase chat.Phase) error {
	c, modern := b.connection()
	to := target(route.ChatID)
	if c == nil || !modern || to == "" {
		return nil // an older bridge can neither
	}

	switch phase {
	case chat.Seen:
		if !b.o.ReadReceipts || route.MessageID == "" {
			return nil
		}
		id, participant, _ := strings.Cut(route.MessageID, "/")
		return send(ctx, c, frame{Type: typeRead, To: to, MessageID: id, Participant: participant})
	case chat.Working:
		return send(ctx, c, frame{Type: typePresence, To: to, State: "composing"})
	}

	return send(ctx, c, frame{Type: typePresence, To: to, State: "paused"})
}

// Address implements chat.Addresser: a phone number as people write it, or an
// id of WhatsApp.
func (b *bot) Address(_ context.Context, name string) (bus.Route, error) {
	jid := target(strings.NewReplacer(" ", "", "(", "", ")", "", "/", "").Replace(name))
	if jid == "" {
		return bus.Route{}, noChat(name)
	}
	var p person
	p.add(jid)
	return bus.Route{Channel: b.deps.Name, ChatID: b.facts.chat(p, jid)}, nil
}

func noChat(name string) error {
	return fmt.Errorf("%q is not a WhatsApp chat: use a phone number with its country code, or an id that ends in @s.whatsapp.net, @lid or @g.us", name)
}
