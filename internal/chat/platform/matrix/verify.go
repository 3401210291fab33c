package matrix

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	verifyPrefix  = "m.key.verification."
	verifyRequest = verifyPrefix + "request" // also the kind of a message
	verifyMaxAge  = 10 * time.Minute         // of a request; others give up then

	declineReason = "the owner of the bot has to run: "
)

// talk is a verification that another device began, and where its events go.
type talk struct {
	room         string // "" is between the devices
	user, device string
	txn          string
}

// proof is the content of all events of a verification.
type proof struct {
	Kind       string            `json:"msgtype"`
	To         string            `json:"to"`
	Txn        string            `json:"transaction_id"`
	Device     string            `json:"from_device"`
	At         int64             `json:"timestamp"` // milliseconds
	Methods    []string          `json:"methods"`
	Method     string            `json:"method"`
	Hashes     []string          `json:"hashes"`
	Agreements []string          `json:"key_agreement_protocols"`
	MACs       []string          `json:"message_authentication_codes"`
	Strings    []string          `json:"short_authentication_string"`
	Key        string            `json:"key"`
	Keys       string            `json:"keys"`
	MAC        map[string]string `json:"mac"`
	Code       string            `json:"code"`
	Reason     string            `json:"reason"`
	Relates    relation          `json:"m.relates_to"`
}

// toDevice returns what other devices said to ours.
func (n cryptNews) toDevice() []json.RawMessage {
	var list events
	_ = json.Unmarshal(n.ToDevice, &list) // the encryption tells of what cannot be read
	return list.Events
}

// asker returns the person behind an event between devices, as the gate knows them.
func (b *bot) asker(e event) access.Visitor {
	return access.Visitor{Route: bus.Route{Channel: b.deps.Name}, IDs: []string{e.Sender}, Name: localpart(e.Sender), Direct: true}
}

// asked reads an event that begins a verification with us.
func (b *bot) asked(e event) (t talk, p proof, ok bool) {
	if json.Unmarshal(e.Content, &p) != nil {
		return t, p, false
	}

	t = talk{room: e.Room, user: e.Sender, device: p.Device, txn: p.Txn}
	switch {
	case e.Room == "":
		ok = e.Type == verifyRequest
	case e.Type == "m.room.message" && p.Kind == verifyRequest:
		t.txn, ok = e.ID, p.To == b.o.UserID
		p.At = e.At
	}

	ours := t.user == b.o.UserID && t.device == b.device
	old := b.deps.Now().Sub(time.UnixMilli(p.At)) > verifyMaxAge
	return t, p, ok && t.device != "" && t.txn != "" && !ours && !old
}

// decline answers a verification that no person at our side can confirm now. People
// who may not talk to us get no answer.
func (b *bot) decline(ctx context.Context, e event, v access.Visitor) {
	t, p, ok := b.asked(e)
	// One from before the start was perhaps answered by a login.
	if !ok || !b.mayVerify(ctx, v) || time.UnixMilli(p.At).Before(b.began) {
		return
	}

	if err := b.sendEvent(ctx, t, "cancel", map[string]any{"code": "m.user", "reason": declineReason + b.fix()}); err != nil {
		b.deps.Log.DebugContext(ctx, "a verification cannot be declined", "sender", t.user, "err", err)
	}

	if b.once("verify:" + t.room + t.user) {
		b.deps.Log.WarnContext(ctx, "a device wants to verify the bot: log in, then start the verification there again", "fix", b.fix(), "sender", t.user, "device", t.device)
		if t.room != "" {
			b.sendNotice(ctx, v.Route, phrase.In(string(b.o.Language), "I cannot verify this device on my own, because a person has to compare the emoji on my side. Whoever runs me starts `%s` on my computer and answers yes to the question about emoji; then start the verification again.", b.fix()))
		}
	}
}

// fix returns the command that opens the key backup and verifies the device.
func (b *bot) fix() string { return "nanobot channels login " + b.deps.Name }

// mayVerify reports whether a verification by this person is answered.
func (b *bot) mayVerify(ctx context.Context, v access.Visitor) bool {
	return v.IDs[0] == b.o.UserID || b.deps.Gate.Knows(ctx, v)
}

// sendEvent passes an event of a verification to the other device.
func (b *bot) sendEvent(ctx context.Context, t talk, kind string, content map[string]any) error {
	kind = verifyPrefix + kind
	if t.room == "" {
		content["transaction_id"] = t.txn
		body := map[string]any{"messages": map[string]map[string]any{t.user: {t.device: content}}}
		return b.client.call(ctx, http.MethodPut, path(clientV3+"/sendToDevice", kind, rand.Text()), body, nil)
	}

	content["m.relates_to"] = relation{Type: "m.reference", Event: t.txn}
	data, err := kit.MarshalPlain(content)
	if err != nil {
		return err
	}

	r, err := b.rooms.get(ctx, t.room)
	if err != nil {
		return err
	}

	_, err = b.post(ctx, t.room, r, kind, data, rand.Text())
	return err
}
