package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"google.golang.org/protobuf/proto"
)

const (
	maxFile      = 100_000_000 // bytes
	refreshEvery = time.Hour   // of the devices of one chat
)

// messageID makes the id of a message of its key, so that WhatsApp shows what is
// sent twice once. Without a key the library makes one.
func messageID(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return "3EB0" + strings.ToUpper(hex.EncodeToString(sum[:9]))
}

// errPermanent marks what trying again does not change.
var errPermanent = errors.New("")

func permanent(format string, args ...any) error {
	return fmt.Errorf("%w%w", errPermanent, fmt.Errorf(format, args...))
}

func recipient(to string) (types.JID, error) {
	jid, err := types.ParseJID(to)
	switch {
	case err != nil || jid.User == "":
		return jid, permanent("%q is not an id of WhatsApp", to)
	case jid.Server != types.DefaultUserServer && jid.Server != types.HiddenUserServer && jid.Server != types.GroupServer:
		return jid, permanent("%q is neither a person nor a group", to)
	}
	return jid.ToNonAD(), nil
}

// send sends a text or a file.
func (b *bridge) send(ctx context.Context, f *frame) (string, error) {
	to, err := recipient(f.To)
	if err != nil {
		return "", err
	}

	var msg *waE2E.Message
	if f.Type == "send_media" {
		msg, err = b.media(ctx, f)
	} else {
		msg, err = text(f)
	}

	if err != nil {
		return "", err
	}

	id := messageID(f.Key)
	if id != "" {
		b.recordSent(id)
	}

	id, err = b.sendTwice(ctx, to, msg, id)
	if err == nil {
		b.recordSent(id)
	}
	return id, err
}

// sendTwice sends a message, and once more if WhatsApp says that we know the
// devices of its recipients wrongly: they are asked for before. That helps or it
// does not, so it is done for a chat once an hour.
func (b *bridge) sendTwice(ctx context.Context, to types.JID, msg *waE2E.Message, id string) (string, error) {
	sent, err := b.wa.Send(ctx, to, msg, id)
	if !unknownDevices(err) || !b.mayRefresh(to) {
		return sent, err
	}
	if why := b.wa.Refresh(ctx, to); why != nil {
		return sent, fmt.Errorf("%w; the devices of %s cannot be asked for: %w", err, to, why)
	}
	return b.wa.Send(ctx, to, msg, id)
}

// unknownDevices tells the codes with which WhatsApp refuses a message for
// devices or hidden ids that are out of date.
func unknownDevices(err error) bool {
	return errors.Is(err, whatsmeow.ErrServerReturnedError) && (strings.HasSuffix(err.Error(), " 463") || strings.HasSuffix(err.Error(), " 479"))
}

func (b *bridge) mayRefresh(to types.JID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.refreshed[to]) < refreshEvery {
		return false
	}
	b.refreshed[to] = now
	return true
}

func text(f *frame) (*waE2E.Message, error) {
	if strings.TrimSpace(f.Text) == "" {
		return nil, permanent("the message is empty")
	}
	if f.ReplyTo == nil {
		return &waE2E.Message{Conversation: proto.String(f.Text)}, nil
	}
	return &waE2E.Message{ExtendedTextMessage: &waE2E.ExtendedTextMessage{Text: proto.String(f.Text), ContextInfo: quoting(f.ReplyTo)}}, nil
}

func quoting(r *reply) *waE2E.ContextInfo {
	if r == nil {
		return nil
	}
	return &waE2E.ContextInfo{
		StanzaID: proto.String(r.ID), Participant: proto.String(r.Participant),
		QuotedMessage: &waE2E.Message{Conversation: proto.String(r.Text)},
	}
}

// media uploads a file and makes a message of it.
func (b *bridge) media(ctx context.Context, f *frame) (*waE2E.Message, error) {
	data, err := readFile(f.FilePath)
	if err != nil {
		return nil, err
	}

	kind := f.Kind
	if kind == "" { // a client of the older protocol
		kind, _, _ = strings.Cut(f.MIME, "/")
	}

	app := map[string]whatsmeow.MediaType{
		"image": whatsmeow.MediaImage, "video": whatsmeow.MediaVideo, "audio": whatsmeow.MediaAudio, "voice": whatsmeow.MediaAudio,
	}[kind]
	if app == "" {
		kind, app = "document", whatsmeow.MediaDocument
	}

	up, err := b.wa.Upload(ctx, data, app)
	if err != nil {
		return nil, err
	}

	caption, about := optional(f.Caption), quoting(f.ReplyTo)
	size := proto.Uint64(up.FileLength)
	switch kind {
	case "image":
		return &waE2E.Message{ImageMessage: &waE2E.ImageMessage{
			Caption: caption, Mimetype: &f.MIME, URL: &up.URL, DirectPath: &up.DirectPath, MediaKey: up.MediaKey,
			FileEncSHA256: up.FileEncSHA256, FileSHA256: up.FileSHA256, FileLength: size, ContextInfo: about,
		}}, nil

	case "video":
		return &waE2E.Message{VideoMessage: &waE2E.VideoMessage{
			Caption: caption, Mimetype: &f.MIME, URL: &up.URL, DirectPath: &up.DirectPath, MediaKey: up.MediaKey,
			FileEncSHA256: up.FileEncSHA256, FileSHA256: up.FileSHA256, FileLength: size, ContextInfo: about,
		}}, nil

	case "audio", "voice":
		return &waE2E.Message{AudioMessage: &waE2E.AudioMessage{
			PTT:           proto.Bool(kind == "voice"),
			Mimetype:      &f.MIME,
			URL:           &up.URL,
			DirectPath:    &up.DirectPath,
			MediaKey:      up.MediaKey,
			FileEncSHA256: up.FileEncSHA256,
			FileSHA256:    up.FileSHA256,
			FileLength:    size,
			ContextInfo:   about,
		}}, nil
	}

	name := f.FileName
	if name == "" {
		name = filepath.Base(f.FilePath)
	}
	return &waE2E.Message{DocumentMessage: &waE2E.DocumentMessage{
		Caption:       caption,
		Title:         &name,
		FileName:      &name,
		Mimetype:      &f.MIME,
		URL:           &up.URL,
		DirectPath:    &up.DirectPath,
		MediaKey:      up.MediaKey,
		FileEncSHA256: up.FileEncSHA256,
		FileSHA256:    up.FileSHA256,
		FileLength:    size,
		ContextInfo:   about,
	}}, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, permanent("open the file to send: %w", err)
	}

	defer f.Close() //nolint:errcheck // read only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, permanent("the file to send is not a regular file")
	}

	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = permanent("the file to send is larger than %d bytes", maxFile)
	}
	return data, err
}

// download fetches a file of a message and writes it for nanobot.
func (b *bridge) download(ctx context.Context, ref string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(ref)
	msg := &waE2E.Message{}
	if err != nil || proto.Unmarshal(data, msg) != nil {
		return "", permanent("the file cannot be found by %.20q", ref)
	}

	content, err := b.wa.Download(ctx, msg)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(b.files, 0o700); err != nil {
		return "", err
	}

	f, err := os.CreateTemp(b.files, "wa_*")
	if err != nil {
		return "", err
	}

	_, err = f.Write(content)
	return f.Name(), errors.Join(err, f.Close())
}

// refusal returns the frame for an error.
func refusal(err error) frame {
	f := frame{Type: "error", Error: err.Error()}
	switch {
	case errors.Is(err, errPermanent), errors.Is(err, whatsmeow.ErrRecipientADJID), errors.Is(err, whatsmeow.ErrUnknownServer),
		errors.Is(err, whatsmeow.ErrBroadcastListUnsupported), errors.Is(err, whatsmeow.ErrNoURLPresent):
		f.Code = "permanent"
	case errors.Is(err, whatsmeow.ErrNotConnected), errors.Is(err, whatsmeow.ErrNotLoggedIn), errors.Is(err, whatsmeow.ErrIQDisconnected):
		f.Code = "not_ready"
	case errors.Is(err, whatsmeow.ErrIQRateOverLimit):
		f.Code, f.RetryAfter = "rate", 60
	case errors.Is(err, whatsmeow.ErrServerReturnedError):
		// More tries get the account blocked.
		f.Code = "permanent"
	default:
		f.Code = "other"
	}

	return f
}
