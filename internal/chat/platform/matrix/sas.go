package matrix

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	methodSAS   = "m.sas.v1"
	sasHash     = "sha256"
	sasExchange = "curve25519-hkdf-sha256"
	sasMAC      = "hkdf-hmac-sha256.v2"
	sasEmoji    = "emoji"
	sasDecimal  = "decimal"

	// emoji are the 64 pictures of the specification, with their names.
	emoji = "🐶 Dog,🐱 Cat,🦁 Lion,🐎 Horse,🦄 Unicorn,🐷 Pig,🐘 Elephant,🐰 Rabbit,🐼 Panda,🐓 Rooster,🐧 Penguin,🐢 Turtle,🐟 Fish,🐙 Octopus,🦋 Butterfly,🌷 Flower," +
		"🌳 Tree,🌵 Cactus,🍄 Mushroom,🌏 Globe,🌙 Moon,☁️ Cloud,🔥 Fire,🍌 Banana,🍎 Apple,🍓 Strawberry,🌽 Corn,🍕 Pizza,🎂 Cake,❤️ Heart,😀 Smiley,🤖 Robot," +
		"🎩 Hat,👓 Glasses,🔧 Spanner,🎅 Santa,👍 Thumbs Up,☂️ Umbrella,⌛ Hourglass,⏰ Clock,🎁 Gift,💡 Light Bulb,📕 Book,✏️ Pencil,📎 Paperclip,✂️ Scissors,🔒 Lock,🔑 Key," +
		"🔨 Hammer,☎️ Telephone,🏁 Flag,🚂 Train,🚲 Bicycle,✈️ Aeroplane,🚀 Rocket,🏆 Trophy,⚽ Ball,🎸 Guitar,🎺 Trumpet,🔔 Bell,⚓ Anchor,🎧 Headphones,📁 Folder,📌 Pin"
)

// comparison is a verification that another device asked for: both show a short
// string made of a secret that only they have, and people compare them.
type comparison struct {
	bot    *bot
	keys   voucher
	dialog chat.Dialog

	talk   talk
	start  proof
	secret *ecdh.PrivateKey
	theirs string // their public key
	shared []byte // nil until the keys are exchanged
	agreed bool   // a person at our side said yes
}

// refused ends a verification for a reason that the other device is told.
type refused struct{ code, reason string }

func (r refused) Error() string { return "the verification failed: " + r.reason }

// step handles an event and reports whether the verification is over. Events of
// others are passed over.
func (s *comparison) step(ctx context.Context, e event) (done bool, err error) {
	if s.talk.txn == "" {
		return false, s.accept(ctx, e)
	}

	var p proof
	_ = json.Unmarshal(e.Content, &p) // what is malformed belongs to no verification
	txn := p.Txn
	if e.Room != "" {
		txn = p.Relates.Event
	}

	if e.Room != s.talk.room || e.Sender != s.talk.user || txn != s.talk.txn {
		return false, nil
	}

	switch strings.TrimPrefix(e.Type, verifyPrefix) {
	case "cancel":
		return true, fmt.Errorf("the other device ended the verification: %s %s", p.Code, p.Reason)
	case "start":
		err = s.begin(ctx, e, p)
	case "key":
		err = s.compare(ctx, p)
	case "mac":
		if err = s.check(ctx, p); err == nil {
			return true, s.bot.sendEvent(ctx, s.talk, "done", map[string]any{})
		}
	}

	if r, ok := errors.AsType[refused](err); ok {
		err = errors.Join(err, s.bot.sendEvent(ctx, s.talk, "cancel", map[string]any{"code": r.code, "reason": r.reason}))
	}
	return err != nil, err
}

// accept answers a request.
func (s *comparison) accept(ctx context.Context, e event) error {
	t, p, ok := s.bot.asked(e)
	if !ok || !s.bot.mayVerify(ctx, s.bot.asker(e)) {
		return nil
	}
	if !slices.Contains(p.Methods, methodSAS) {
		return s.bot.sendEvent(ctx, t, "cancel", map[string]any{"code": "m.unknown_method", "reason": "the bot compares only emoji"})
	}

	s.talk = t
	s.dialog.Tell(chat.Step{Note: fmt.Sprintf("%s asks for a verification (device %s). Go on there and choose emoji.", t.user, t.device)})
	return s.bot.sendEvent(ctx, t, "ready", map[string]any{"from_device": s.bot.device, "methods": []string{methodSAS}})
}

// begin promises a key before it knows the other one, so that neither side can
// choose what is shown.
func (s *comparison) begin(ctx context.Context, e event, p proof) error {
	switch {
	case s.secret != nil || p.Device != s.talk.device:
		return refused{"m.unexpected_message", "the verification was started twice"}
	case p.Method != methodSAS, !slices.Contains(p.Hashes, sasHash), !slices.Contains(p.Agreements, sasExchange), !slices.Contains(p.MACs, sasMAC), !slices.Contains(p.Strings, sasDecimal) && !slices.Contains(p.Strings, sasEmoji):
		return refused{"m.unknown_method", "the other device has no method that the bot has"}
	}

	whole, err := canonical(e.Content)
	if err != nil {
		return err
	}
	if s.secret, err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
		return err
	}

	s.start = p
	sum := sha256.Sum256(append([]byte(s.public()), whole...))
	return s.bot.sendEvent(ctx, s.talk, "accept", map[string]any{
		"method": methodSAS, "hash": sasHash, "key_agreement_protocol": sasExchange, "message_authentication_code": sasMAC,
		"short_authentication_string": p.Strings, "commitment": unpadded(sum[:]),
	})
}

// compare exchanges keys and lets a person compare what they make.
func (s *comparison) compare(ctx context.Context, p proof) error {
	if s.secret == nil || s.shared != nil {
		return refused{"m.unexpected_message", "a key came at the wrong time"}
	}

	raw, err := base64.RawStdEncoding.DecodeString(p.Key)
	if err != nil {
		return refused{"m.invalid_message", "the key is malformed"}
	}

	key, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		return refused{"m.invalid_message", "the key is malformed"}
	}
	if s.shared, err = s.secret.ECDH(key); err != nil {
		return refused{"m.invalid_message", "the key is not a good one"}
	}

	s.theirs = p.Key
	if err := s.bot.sendEvent(ctx, s.talk, "key", map[string]any{"key": s.public()}); err != nil {
		return err
	}

	shown, err := s.short()
	if err != nil {
		return err
	}

	answer, err := s.dialog.Ask(ctx, chat.Question{Text: fmt.Sprintf("The verification with %s shows\n\n    %s\n\nDoes the other device show the same (yes or no)", s.talk.user, shown)})
	if err != nil {
		return errors.Join(refused{"m.user", "the person at the bot gave no answer"}, err)
	}
	if !yes(answer) {
		return refused{"m.mismatched_sas", "the emoji are not the same"}
	}

	s.agreed = true
	return s.sign(ctx)
}

// sign proves our keys with the secret.
func (s *comparison) sign(ctx context.Context) error {
	own, err := s.keys.own(ctx)
	if err != nil {
		return err
	}

	macs := map[string]string{}
	for name, key := range own {
		if macs[name], err = s.mac(true, name, key); err != nil {
			return err
		}
	}

	all, err := s.mac(true, "KEY_IDS", strings.Join(slices.Sorted(maps.Keys(own)), ","))
	if err != nil {
		return err
	}
	return s.bot.sendEvent(ctx, s.talk, "mac", map[string]any{"mac": macs, "keys": all})
}

// check takes the proof of the other device, and trusts its keys.
func (s *comparison) check(ctx context.Context, p proof) error {
	if !s.agreed {
		return refused{"m.unexpected_message", "a proof came before the emoji were compared"}
	}

	names := slices.Sorted(maps.Keys(p.MAC))
	want, err := s.mac(false, "KEY_IDS", strings.Join(names, ","))
	if err != nil {
		return err
	}

	theirs, err := s.keys.of(ctx, s.talk.user, s.talk.device)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(want), []byte(p.Keys)) || p.MAC["ed25519:"+s.talk.device] == "" {
		return refused{"m.key_mismatch", "the proof of the other device is wrong"}
	}

	var known []string
	for _, name := range names {
		key, ok := theirs[name]
		if !ok {
			continue // one that we do not use
		}
		if want, err = s.mac(false, name, key); err != nil {
			return err
		}
		if !hmac.Equal([]byte(want), []byte(p.MAC[name])) {
			return refused{"m.key_mismatch", "the other device has other keys than the homeserver says"}
		}
		known = append(known, name)
	}

	if !slices.Contains(known, "ed25519:"+s.talk.device) {
		return refused{"m.key_mismatch", "the homeserver does not know the other device"}
	}
	return s.keys.trust(ctx, s.talk.user, s.talk.device, known)
}

// mac proves a key of ours, or is the proof that the other side must give.
func (s *comparison) mac(ours bool, name, text string) (string, error) {
	me, them := s.bot.o.UserID+s.bot.device, s.talk.user+s.talk.device
	if !ours {
		me, them = them, me
	}

	key, err := hkdf.Key(sha256.New, s.shared, nil, "MATRIX_KEY_VERIFICATION_MAC"+me+them+s.talk.txn+name, sha256.Size)
	if err != nil {
		return "", err
	}

	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return unpadded(h.Sum(nil)), nil
}

// short returns what both sides show.
func (s *comparison) short() (string, error) {
	info := strings.Join([]string{
		"MATRIX_KEY_VERIFICATION_SAS", s.talk.user, s.talk.device, s.theirs, s.bot.o.UserID, s.bot.device, s.public(), s.talk.txn,
	}, "|")
	b, err := hkdf.Key(sha256.New, s.shared, nil, info, 6)
	if err != nil {
		return "", err
	}
	if !slices.Contains(s.start.Strings, sasEmoji) {
		return fmt.Sprintf("%d %d %d", 1000+(int(b[0])<<5|int(b[1])>>3), 1000+(int(b[1])&7<<10|int(b[2])<<2|int(b[3])>>6), 1000+(int(b[3])&63<<7|int(b[4])>>1)), nil
	}

	var bits uint64
	for _, c := range b {
		bits = bits<<8 | uint64(c)
	}

	table, shown := strings.Split(emoji, ","), make([]string, 7)
	for i := range shown {
		shown[i] = table[bits>>(42-6*i)&63]
	}
	return strings.Join(shown, "   "), nil
}

func (s *comparison) public() string { return unpadded(s.secret.PublicKey().Bytes()) }

func unpadded(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }

// canonical is JSON in the one form that both sides can make.
func canonical(data json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return kit.MarshalPlain(v)
}

// yes reads an answer of a person.
func yes(s string) bool {
	s = strings.ToLower(strings.TrimSpace(s))
	return s == "y" || s == "yes"
}
