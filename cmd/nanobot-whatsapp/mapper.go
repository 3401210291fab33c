package main

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"
	"google.golang.org/protobuf/proto"
)

// mapper makes frames of WhatsApp's messages.
type mapper struct {
	selfChat bool
	sent     func(id string) bool // whether this program sent a message
}

// self is the account by its two ids, without devices.
type self struct{ phone, lid types.JID }

func (s self) is(j types.JID) bool {
	return j.User != "" && (j.User == s.phone.User && j.Server == s.phone.Server || j.User == s.lid.User && j.Server == s.lid.Server)
}

func (s self) named(jid string) bool {
	j, err := types.ParseJID(jid)
	return err == nil && s.is(j)
}

// frame returns what nanobot is told of a message, nil if that is nothing.
func (m *mapper) frame(evt *events.Message, me self) *frame {
	info := evt.Info
	own := info.IsFromMe
	if own && (!m.selfChat || !me.is(info.Chat) || m.sent(info.ID)) {
		return nil
	}

	switch info.Chat.Server {
	case types.DefaultUserServer, types.LegacyUserServer, types.HiddenUserServer, types.GroupServer:
	default: // stories, broadcasts, channels
		return nil
	}

	msg, edited, id := unwrap(evt.Message, info.ID)
	if msg == nil {
		return nil
	}

	f := &frame{
		Type:        "message",
		ID:          id,
		Sender:      info.Chat.ToNonAD().String(),
		Timestamp:   info.Timestamp.Unix(),
		IsGroup:     info.IsGroup,
		Participant: info.Sender.ToNonAD().String(),
		Name:        info.PushName,
		Edited:      edited || evt.IsEdit,
		Self:        own,
	}
	if alt := info.SenderAlt.ToNonAD(); !alt.IsEmpty() {
		f.ParticipantAlt = alt.String()
		if !info.IsGroup {
			f.PN = f.ParticipantAlt
		}
	}

	content(f, msg)
	if c := contextOf(msg); c != nil {
		m.context(f, c, me)
	}

	if f.Content == "" && len(f.Files) == 0 && len(f.Notes) == 0 {
		return nil
	}
	return f
}

// unwrap takes a message out of its envelopes.
func unwrap(msg *waE2E.Message, id string) (out *waE2E.Message, edited bool, _ string) {
	for range 5 {
		var inner *waE2E.Message
		for _, e := range []*waE2E.FutureProofMessage{
			msg.GetEphemeralMessage(), msg.GetViewOnceMessage(), msg.GetViewOnceMessageV2(), msg.GetViewOnceMessageV2Extension(),
			msg.GetDocumentWithCaptionMessage(), msg.GetEditedMessage(),
		} {
			if e.GetMessage() != nil {
				inner = e.GetMessage()
			}
		}

		if d := msg.GetDeviceSentMessage().GetMessage(); d != nil {
			inner = d
		}

		if p := msg.GetProtocolMessage(); p.GetType() == waE2E.ProtocolMessage_MESSAGE_EDIT && p.GetEditedMessage() != nil {
			inner = p.GetEditedMessage()
			edited = true
			id = p.GetKey().GetID()
		}

		if inner == nil {
			return msg, edited, id
		}
		msg = inner
	}
	return nil, false, ""
}

// content takes over text, files and what else is in a message.
func content(f *frame, m *waE2E.Message) {
	switch {
	case m.GetConversation() != "":
		f.Content = m.GetConversation()
	case m.GetExtendedTextMessage() != nil:
		f.Content = m.GetExtendedTextMessage().GetText()
	case m.GetImageMessage() != nil:
		x := proto.CloneOf(m.GetImageMessage())
		f.Content = x.GetCaption()
		x.JPEGThumbnail, x.ContextInfo = nil, nil
		f.add("image", "image"+extension(x.GetMimetype(), ".jpg"), x.GetMimetype(), x.GetFileLength(), &waE2E.Message{ImageMessage: x})

	case m.GetVideoMessage() != nil:
		x := proto.CloneOf(m.GetVideoMessage())
		f.Content = x.GetCaption()
		x.JPEGThumbnail, x.ContextInfo = nil, nil
		f.add("video", "video"+extension(x.GetMimetype(), ".mp4"), x.GetMimetype(), x.GetFileLength(), &waE2E.Message{VideoMessage: x})

	case m.GetAudioMessage() != nil:
		x := proto.CloneOf(m.GetAudioMessage())
		x.ContextInfo, x.Waveform = nil, nil
		kind := "audio"
		if x.GetPTT() {
			kind = "voice"
		}
		f.add(kind, kind+extension(x.GetMimetype(), ".ogg"), x.GetMimetype(), x.GetFileLength(), &waE2E.Message{AudioMessage: x})

	case m.GetDocumentMessage() != nil:
		x := proto.CloneOf(m.GetDocumentMessage())
		f.Content = x.GetCaption()
		x.JPEGThumbnail, x.ContextInfo = nil, nil
		name := x.GetFileName()
		if name == "" {
			name = "document" + extension(x.GetMimetype(), "")
		}
		f.add("document", name, x.GetMimetype(), x.GetFileLength(), &waE2E.Message{DocumentMessage: x})

	case m.GetStickerMessage() != nil:
		x := proto.CloneOf(m.GetStickerMessage())
		x.PngThumbnail, x.ContextInfo = nil, nil
		f.add("sticker", "sticker.webp", x.GetMimetype(), x.GetFileLength(), &waE2E.Message{StickerMessage: x})
	}
	f.Notes = notes(m)
}

// add notes a file that can be fetched later.
func (f *frame) add(kind, name, mime string, size uint64, m *waE2E.Message) {
	data, err := proto.Marshal(m)
	if err != nil {
		return
	}

	f.Files = append(f.Files, file{
		Kind: kind,
		Name: name,
		MIME: mime,
		Size: int64(min(size, 1<<50)),
		Ref:  base64.StdEncoding.EncodeToString(data),
	})
}

func extension(mime, usual string) string {
	mime, _, _ = strings.Cut(mime, ";")
	switch mime {
	case "image/png":
		return ".png"
	case "image/webp":
		return ".webp"
	case "audio/mp4":
		return ".m4a"
	case "audio/mpeg":
		return ".mp3"
	case "application/pdf":
		return ".pdf"
	}

	return usual
}

// notes returns the parts of a message that are neither text nor files.
func notes(m *waE2E.Message) []string {
	var out []string
	if l := m.GetLocationMessage(); l != nil {
		out = append(out, strings.TrimSpace(fmt.Sprintf("[location: %v, %v] %s", l.GetDegreesLatitude(), l.GetDegreesLongitude(), l.GetName())))
	}
	if l := m.GetLiveLocationMessage(); l != nil {
		out = append(out, fmt.Sprintf("[location: %v, %v]", l.GetDegreesLatitude(), l.GetDegreesLongitude()))
	}

	cards := slices.Clone(m.GetContactsArrayMessage().GetContacts())
	if c := m.GetContactMessage(); c != nil {
		cards = append(cards, c)
	}

	for _, c := range cards {
		out = append(out, "[contact: "+c.GetDisplayName()+phones(c.GetVcard())+"]")
	}

	if p := m.GetPollCreationMessageV3(); p != nil {
		var options []string
		for _, o := range p.GetOptions() {
			options = append(options, o.GetOptionName())
		}
		out = append(out, "[poll: "+p.GetName()+" - "+strings.Join(options, " / ")+"]")
	}

	return out
}

// phones returns the numbers of a card.
func phones(card string) string {
	out := ""
	for line := range strings.Lines(card) {
		if name, number, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && strings.Contains(strings.ToUpper(name), "TEL") {
			out += ", " + number
		}
	}
	return out
}

// contextOf returns what a message refers to.
func contextOf(m *waE2E.Message) *waE2E.ContextInfo {
	for _, c := range []*waE2E.ContextInfo{
		m.GetExtendedTextMessage().GetContextInfo(), m.GetImageMessage().GetContextInfo(), m.GetVideoMessage().GetContextInfo(),
		m.GetDocumentMessage().GetContextInfo(), m.GetAudioMessage().GetContextInfo(), m.GetStickerMessage().GetContextInfo(),
	} {
		if c != nil {
			return c
		}
	}
	return nil
}

func (m *mapper) context(f *frame, c *waE2E.ContextInfo, me self) {
	f.Forwarded = c.GetIsForwarded()
	for _, jid := range c.GetMentionedJID() {
		if !me.named(jid) {
			continue
		}
		f.WasMentioned = true
		user, _, _ := strings.Cut(jid, "@")
		f.Content = strings.TrimSpace(strings.ReplaceAll(f.Content, "@"+user, ""))
	}

	if c.GetStanzaID() == "" {
		return
	}

	f.ReplyTo = &reply{ID: c.GetStanzaID(), Participant: c.GetParticipant(), Ours: me.named(c.GetParticipant())}
	var quoted frame
	if q, _, _ := unwrap(c.GetQuotedMessage(), ""); q != nil {
		content(&quoted, q)
	}

	f.ReplyTo.Text = quoted.Content
	for _, a := range quoted.Files {
		f.ReplyTo.Text = strings.TrimSpace(f.ReplyTo.Text + " [" + a.Kind + "]")
	}
}
