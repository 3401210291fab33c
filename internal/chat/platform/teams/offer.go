package teams

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	consentInvoke = "fileConsent/invoke"
	consentCard   = "application/vnd.microsoft.teams.card.file.consent"
	infoCard      = "application/vnd.microsoft.teams.card.file.info"
)

// object is JSON that is written once.
type object map[string]any

// sendFile sends a file: a small picture inside of the message; anything else is
// offered, since Teams lets bots put files only where a person allows it, and
// only in personal chats.
func (b *bot) sendFile(ctx context.Context, out bus.Outbound) (string, error) {
	if len(out.Media) != 1 {
		return "", chat.Permanent(fmt.Errorf("one file at a time, got %d", len(out.Media)))
	}

	f, err := kit.OpenAttachment(ctx, b.deps, out.Media[0], maxFile)
	if err != nil {
		return "", err
	}

	defer f.Close() //nolint:errcheck // read only
	if slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, f.MIME) && f.Size() <= maxImage {
		data, err := io.ReadAll(f)
		if err != nil {
			return "", err
		}
		return b.post(ctx, out.Route, outgoing{
			Type: "message", Text: out.Text, ReplyToID: b.replyTo(out),
			Attachments: []any{object{"contentType": f.MIME, "contentUrl": "data:" + f.MIME + ";base64," + base64.StdEncoding.EncodeToString(data), "name": f.Name}},
		})
	}

	if isGroup(out.Route) || f.Size() == 0 {
		why := phrase.In(out.Language, "Teams lets bots send files in personal chats only")
		if f.Size() == 0 {
			why = phrase.In(out.Language, "it is empty")
		}
		return b.post(ctx, out.Route, note(out.Language, f.Name, why))
	}

	return b.offer(ctx, out, f)
}

// note returns the message that replaces a file that is not sent.
func note(language, name, why string) outgoing {
	return outgoing{Type: "message", TextFormat: "plain", Text: phrase.In(language, "[attachment: %s - %s]", name, why)}
}

// offer asks the person whether they want a file. What is sent later is the
// file as it is now or none.
func (b *bot) offer(ctx context.Context, out bus.Outbound, f *kit.Attachment) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}

	path := out.Media[0].Path
	if !strings.Contains(path, "://") {
		abs, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		path = abs
	}

	id := rand.Text()
	err := b.facts.addOffer(id, offer{
		Chat: out.Route.ChatID,
		Path: path,
		Name: f.Name,
		Size: f.Size(),
		Hash: hex.EncodeToString(sum.Sum(nil)),
		At:   b.deps.Now(),
	})
	if err != nil {
		return "", err
	}

	mark := object{"offer": id}
	sent, err := b.post(ctx, out.Route, outgoing{
		Type: "message", Text: out.Text, ReplyToID: b.replyTo(out),
		Attachments: []any{object{
			"contentType": consentCard, "name": f.Name,
			"content": object{"description": phrase.In(out.Language, "A file for you"), "sizeInBytes": f.Size(), "acceptContext": mark, "declineContext": mark},
		}},
	})
	if err != nil && chat.IsPermanent(err) {
		err = errors.Join(err, b.facts.dropOffer(id))
	}
	return sent, err
}

// consented handles the answer to an offer.
func (rc *receiver) consented(ctx context.Context, a *activity) error {
	b := rc.bot
	var value struct {
		Action  string `json:"action"`
		Context struct {
			Offer string `json:"offer"`
		} `json:"context"`
		Upload struct {
			URL     string `json:"uploadUrl"`
			Content string `json:"contentUrl"`
			Name    string `json:"name"`
			ID      string `json:"uniqueId"`
			Kind    string `json:"fileType"`
		} `json:"uploadInfo"`
	}

	err := json.Unmarshal(a.Value, &value)
	v := rc.visitor(a)
	o, ok := b.facts.findOffer(value.Context.Offer, v.Route.ChatID)
	if err != nil || !ok || !b.deps.Gate.Knows(ctx, v) {
		return nil
	}

	defer func() { // at last: after a crash the person learns at least that it failed
		if err := b.facts.dropOffer(value.Context.Offer); err != nil {
			b.deps.Log.WarnContext(ctx, "cannot forget an offer", "err", err)
		}
	}()
	if a.ReplyToID != "" { // the card has no use any more
		if err := b.Erase(ctx, v.Route, a.ReplyToID); err != nil {
			b.deps.Log.DebugContext(ctx, "remove an offer", "err", err)
		}
	}

	if value.Action != "accept" {
		return nil
	}

	answer := outgoing{Type: "message", Attachments: []any{object{
		"contentType": infoCard, "contentUrl": value.Upload.Content, "name": value.Upload.Name,
		"content": object{"uniqueId": value.Upload.ID, "fileType": value.Upload.Kind},
	}}}
	if err := b.give(ctx, o, value.Upload.URL); err != nil {
		b.deps.Log.WarnContext(ctx, "cannot send a file that was accepted", "err", err)
		answer = note(string(b.o.Language), o.Name, phrase.In(string(b.o.Language), "it could not be sent; ask for it again"))
	}
	if _, err := b.post(ctx, v.Route, answer); err != nil {
		b.deps.Log.WarnContext(ctx, "cannot show a file that was sent", "err", err)
	}
	return nil
}

// give uploads a file that was accepted.
func (b *bot) give(ctx context.Context, o offer, address string) error {
	f, err := kit.OpenAttachment(ctx, b.deps, bus.Media{Path: o.Path, Name: o.Name}, maxFile)
	if err != nil {
		return err
	}

	defer f.Close() //nolint:errcheck // read only
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if f.Size() != o.Size || hex.EncodeToString(sum.Sum(nil)) != o.Hash {
		return errors.New("the file has changed since it was offered")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return b.upload(ctx, address, f)
}

// Erase implements chat.Streamer.
func (b *bot) Erase(ctx context.Context, route bus.Route, id string) error {
	address, err := b.address(route, id)
	if err != nil {
		return err
	}
	_, err = b.calls.call(ctx, http.MethodDelete, address, nil)
	if e := refusal(err); e != nil && e.Status == http.StatusNotFound {
		return nil
	}
	return b.refused(classify(err))
}
