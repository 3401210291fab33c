//go:build goolm

package matrix

import (
	"context"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
)

// personAtLogin answers questions by their words.
type personAtLogin struct {
	answer map[string][]string // by a piece of the question

	mu    sync.Mutex
	asked []string
	told  []string
}

func (p *personAtLogin) Tell(s chat.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, s.Note)
}

func (p *personAtLogin) Ask(_ context.Context, q chat.Question) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q.Text)
	for piece, answers := range p.answer {
		if strings.Contains(q.Text, piece) && len(answers) > 0 {
			p.answer[piece] = answers[1:]
			return answers[0], nil
		}
	}
	return "", errors.New("an unexpected question: " + q.Text)
}

// find returns the question or note with these words.
func (p *personAtLogin) find(piece string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range [][]string{p.asked, p.told} {
		for _, s := range list {
			if strings.Contains(s, piece) {
				return s
			}
		}
	}
	return ""
}

func (r *rig) login(p *personAtLogin) error {
	r.t.Helper()
	raw := section(r.t, r.fake, nil)
	deps := r.deps
	deps.Refine = func(func(*chat.Caps)) { panic("the channel does not run") } // as it is at a login
	got, err := login(r.t.Context(), deps, raw, p, false)
	if err == nil && got.Identity != matrixtest.Bot {
		r.t.Errorf("the login is of %q", got.Identity)
	}
	return err
}

// newFolder is the loss of the folder of the account.
func (r *rig) newFolder() {
	dir := r.t.TempDir()
	r.deps.Dir = func() (string, error) { return dir, nil }
}

// enrolled is a bot whose login made a key backup.
func enrolled(t *testing.T, r *rig) (recoveryKey string) {
	t.Helper()
	p := &personAtLogin{answer: map[string][]string{"Keep a backup": {"yes"}, "recovery key is": {""}, "comparing emoji": {"no"}}}
	if err := r.login(p); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(p.find("recovery key is"), "\n")
	if len(lines) < 3 || len(strings.Fields(lines[2])) != 12 {
		t.Fatalf("the recovery key is shown as %q", lines)
	}
	return strings.TrimSpace(lines[2])
}

// A backup that a login makes holds the keys of rooms. With the recovery key a
// new device, after all else is lost, is signed and reads what was written
// before; but a homeserver could have made such keys, so it proves nothing.
func TestKeyBackup(t *testing.T) {
	t.Parallel()
	fake, bot, person := pair(t)
	defer person.begin()()
	recovery := enrolled(t, bot)
	end := bot.begin()
	person.send(to("first"))
	bot.receive(1)
	bot.send(to("answer"))
	person.receive(1)
	bot.Await("two keys in the backup", func() bool { return fake.Backup(matrixtest.Bot) == 2 })
	old := bot.device
	end()
	person.send(to("while you were away"))

	bot.newFolder()
	bot.reopen(map[string]any{"recoveryKey": recovery})
	bot.keyWait = 10 * time.Millisecond // the key comes from the backup alone
	end = bot.begin()
	if in := bot.receive(2)[1]; in.Text != "while you were away" || !in.Untrusted {
		t.Errorf("the bot got %+v\n%s", in, bot.Log)
	}
	if bot.device == old || !fake.Signed(matrixtest.Bot, matrixtest.Bot, bot.device) {
		t.Errorf("the device %s is not signed", bot.device)
	}
	if n := len(fake.Told("m.room_key_request", matrixtest.Bot)); n != 0 {
		t.Errorf("keys were asked for %d times although the backup has them", n)
	}
	end()

	// The device keeps what the recovery key opened.
	bot.reopen(nil)
	end = bot.begin()
	person.send(to("for the new device"))
	if in := bot.receive(3)[2]; in.Text != "for the new device" || in.Untrusted {
		t.Errorf("the bot got %+v", in)
	}
	bot.Await("the next key in the backup", func() bool { return fake.Backup(matrixtest.Bot) == 3 })

	// Another client resets the backup: it is told once, and messages are read.
	fake.DropBackup(matrixtest.Bot)
	bot.send(to("more"))
	bot.vault.crypt.forget(t.Context(), secretRoom)
	bot.send(to("with new keys"))
	fake.Say(matrixtest.Event{Room: annRoom, Sender: ann}, matrixtest.Text("wake up"))
	bot.Await("a word about it", func() bool {
		return strings.Contains(bot.Log.String(), "the key backup was replaced or deleted")
	})
	end()
	if strings.Contains(bot.Log.String(), recovery) {
		t.Error("the log has the recovery key")
	}
	for _, c := range fake.Calls("") {
		if strings.Contains(string(c.Body), recovery) {
			t.Errorf("%s has the recovery key", c.Path)
		}
	}
}

// The recovery key is asked for until it is right, and the device is signed.
func TestRecoveryKeyEntered(t *testing.T) {
	t.Parallel()
	fake, bot, _ := pair(t)
	recovery := enrolled(t, bot)
	bot.newFolder()
	bot.reopen(map[string]any{"recoveryKey": "EsTc"})
	bot.begin()()
	if log := bot.Log.String(); !strings.Contains(log, `people see a red shield" fix="nanobot channels login matrix"`) || !strings.Contains(log, "recoveryKey: that is not the recovery key") || !strings.Contains(log, "cannot open without its recovery key") {
		t.Errorf("log:\n%s", log)
	}
	if fake.Signed(matrixtest.Bot, matrixtest.Bot, bot.device) {
		t.Error("the device is signed without the recovery key")
	}
	probed := func(want string) {
		t.Helper()
		report, err := probe(t.Context(), bot.deps, section(t, fake, nil))
		if err != nil || len(report.Checks) != 4 || !strings.Contains(report.Checks[3].Detail, want) {
			t.Errorf("the probe says %+v, %v", report, err)
		}
	}
	probed("red shield; run: nanobot channels login matrix")

	p := &personAtLogin{answer: map[string][]string{"Recovery key of the bot's account": {"EsTc", strings.Replace(recovery, " ", "", 4)}, "comparing emoji": {"no"}}}
	if err := bot.login(p); err != nil {
		t.Fatal(err)
	}
	if p.find("that is not the recovery key of the account") == "" {
		t.Errorf("asked %q", p.asked)
	}
	if !fake.Signed(matrixtest.Bot, matrixtest.Bot, bot.device) {
		t.Error("the device is not signed")
	}
	probed("signed by its account")
	p = &personAtLogin{answer: map[string][]string{"comparing emoji": {"no"}}}
	if err := bot.login(p); err != nil || p.find("is signed, and the key backup is in use") == "" {
		t.Errorf("the next login asks %q, %v", p.asked, err)
	}
}

// initiator is the other side of a verification.
type initiator struct {
	*rig
	talk
	seen map[string]int // events of our side, by kind
}

// got returns the events of our side.
func (i *initiator) got(kind string) (out []json.RawMessage) {
	list := i.fake.Told(verifyPrefix+kind, matrixtest.Bot)
	if i.room != "" {
		list = slices.Concat(i.fake.Events(verifyPrefix+kind, matrixtest.Bot), i.fake.Events("m.room.encrypted", matrixtest.Bot))
	}
	for _, e := range list {
		if i.room == "" && e.Room != i.o.UserID+"/"+i.rig.device {
			continue // said by us
		}
		if e.Type == "m.room.encrypted" {
			opened, err := i.vault.crypt.decrypt(i.t.Context(), event{ID: e.ID, Type: e.Type, Sender: e.Sender, At: e.At, Room: e.Room, Content: e.Content})
			if err != nil || opened.Type != verifyPrefix+kind {
				continue
			}
			e.Content = opened.Content
		}
		out = append(out, e.Content)
	}
	return out
}

// next waits for the next event of our side.
func (i *initiator) next(kind string) (p proof) {
	i.t.Helper()
	var list []json.RawMessage
	i.Await("the event "+kind, func() bool {
		list = i.got(kind)
		return len(list) > i.seen[kind]
	})
	if err := json.Unmarshal(list[i.seen[kind]], &p); err != nil {
		i.t.Fatal(err)
	}
	i.seen[kind]++
	if p.Txn+p.Relates.Event != i.txn {
		i.t.Errorf("%s is of %q, want %q", kind, p.Txn+p.Relates.Event, i.txn)
	}
	return p
}

func (i *initiator) say(kind string, content map[string]any) {
	i.t.Helper()
	if err := i.sendEvent(i.t.Context(), i.talk, kind, content); err != nil {
		i.t.Fatal(err)
	}
}

// exchange does all up to the emoji, and returns what it shows.
func (i *initiator) exchange(strs ...string) (c *comparison, shown string) {
	i.t.Helper()
	begin := request(time.Now())
	begin["from_device"] = i.rig.device
	if i.room == "" {
		i.txn = "t/1"
		i.say("request", begin)
	} else {
		data, err := json.Marshal(begin)
		if err != nil {
			i.t.Fatal(err)
		}
		r, err := i.rooms.get(i.t.Context(), i.room)
		if err != nil {
			i.t.Fatal(err)
		}
		if i.txn, err = i.post(i.t.Context(), i.room, r, "m.room.message", data, "begin"); err != nil {
			i.t.Fatal(err)
		}
	}
	if p := i.next("ready"); len(p.Methods) != 1 || p.Methods[0] != methodSAS || p.Device == "" {
		i.t.Errorf("ready is %+v", p)
	} else {
		i.device = p.Device
	}

	start := map[string]any{
		"from_device": i.rig.device, "method": methodSAS, "hashes": []string{sasHash}, "key_agreement_protocols": []string{"curve25519", sasExchange},
		"message_authentication_codes": []string{"hkdf-hmac-sha256", sasMAC}, "short_authentication_string": strs, "x": 1,
	}
	i.say("start", start) // which adds what it belongs to
	accepted := i.next("accept")
	secret, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.say("key", map[string]any{"key": unpadded(secret.PublicKey().Bytes())})
	theirs := i.next("key").Key
	var sorted map[string]any
	whole, err := json.Marshal(start)
	if err == nil {
		err = json.Unmarshal(whole, &sorted)
	}
	if err == nil {
		whole, err = json.Marshal(sorted)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(theirs + string(whole)))
	var commitment struct{ Commitment string }
	_ = json.Unmarshal(i.got("accept")[0], &commitment)
	if commitment.Commitment != unpadded(sum[:]) {
		i.t.Errorf("the commitment of %+v is %q, want %q", accepted, commitment.Commitment, unpadded(sum[:]))
	}

	raw, _ := base64.RawStdEncoding.DecodeString(theirs)
	key, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		i.t.Fatal(err)
	}
	c = &comparison{bot: i.bot, talk: i.talk, theirs: theirs, secret: secret}
	if c.shared, err = secret.ECDH(key); err != nil {
		i.t.Fatal(err)
	}
	info := "MATRIX_KEY_VERIFICATION_SAS|" + i.o.UserID + "|" + i.rig.device + "|" + c.public() + "|" + matrixtest.Bot + "|" + i.device + "|" + theirs + "|" + i.txn
	b, err := hkdf.Key(sha256.New, c.shared, nil, info, 6)
	if err != nil {
		i.t.Fatal(err)
	}
	return c, strings.Split(emoji, ",")[b[0]>>2]
}

func startVerification(t *testing.T, room, answer string, changes map[string]any) (i *initiator, p *personAtLogin, result chan error) {
	t.Helper()
	fake, bot, person := pair(t)
	bot.begin()() // the position of sync is known, and the account has keys that sign
	if changes != nil {
		person = newRig(t, fake, changes)
	}
	t.Cleanup(person.begin())
	i = &initiator{rig: person, talk: talk{room: room, user: matrixtest.Bot, device: "*"}, seen: map[string]int{}}
	p = &personAtLogin{answer: map[string][]string{"Keep a backup": {"no"}, "comparing emoji": {"yes"}, "show the same": {answer}}}
	result = make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result <- bot.login(p)
	}()
	t.Cleanup(func() { <-ended })
	person.Await("the login to wait", func() bool { return p.find("Start the verification") != "" })
	return i, p, result
}

// Two devices compare emoji, between them and in a room; then the account of the
// bot vouches for the other one.
func TestVerification(t *testing.T) {
	t.Parallel()
	for name, room := range map[string]string{"devices": "", "room": annRoom, "encrypted room": secretRoom} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, p, result := startVerification(t, room, "yes", nil)
			c, first := i.exchange(sasDecimal, sasEmoji)
			mac := i.next("mac")
			if q := p.find("show the same"); !strings.Contains(q, first) || strings.Count(strings.TrimSpace(strings.Split(q, "\n")[2]), "   ") != 6 || !strings.Contains(q, ann) {
				t.Errorf("the person was asked %q, want %q", q, first)
			}
			if len(mac.MAC) != 2 || mac.MAC["ed25519:"+i.device] == "" {
				t.Errorf("the bot proves %v, want its device and the key of its account", mac.MAC)
			}
			i.prove(c, nil)
			i.next("done")
			if err := <-result; err != nil {
				t.Fatal(err)
			}
			if !i.fake.Signed(matrixtest.Bot, ann, "master") {
				t.Error("the bot does not vouch for the person")
			}
		})
	}
}

// Another device of the bot's own account becomes one that the account vouches for.
func TestVerificationOfOwnDevice(t *testing.T) {
	t.Parallel()
	i, _, result := startVerification(t, "", "yes", map[string]any{})
	if i.fake.Signed(matrixtest.Bot, matrixtest.Bot, i.rig.device) {
		t.Fatal("the other device is signed already")
	}
	c, _ := i.exchange(sasEmoji)
	i.next("mac")
	i.prove(c, nil)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if !i.fake.Signed(matrixtest.Bot, matrixtest.Bot, i.rig.device) {
		t.Error("the other device is not signed")
	}
}

// prove sends the proof of the person's keys, with changes.
func (i *initiator) prove(c *comparison, changes map[string]string) {
	i.t.Helper()
	crypt, err := i.keys()
	if err != nil {
		i.t.Fatal(err)
	}
	own, err := crypt.(voucher).own(i.t.Context())
	if err != nil {
		i.t.Fatal(err)
	}
	maps.Copy(own, changes)
	c.keys = fixedKeys{own}
	if err := c.sign(i.t.Context()); err != nil {
		i.t.Fatal(err)
	}
}

type fixedKeys struct{ keys map[string]string }

func (f fixedKeys) own(context.Context) (map[string]string, error) { return f.keys, nil }

func (f fixedKeys) of(context.Context, string, string) (map[string]string, error) {
	return f.keys, nil
}

func (f fixedKeys) trust(context.Context, string, string, []string) error { return nil }

// A verification ends without trust if the emoji differ, if the other side has
// other keys than it says, and if it ends it.
func TestVerificationFails(t *testing.T) {
	t.Parallel()
	t.Run("emoji", func(t *testing.T) {
		t.Parallel()
		i, _, result := startVerification(t, "", "no", nil)
		i.exchange(sasEmoji)
		if p := i.next("cancel"); p.Code != "m.mismatched_sas" {
			t.Errorf("the other device is told %+v", p)
		}
		if err := <-result; err == nil || !strings.Contains(err.Error(), "not the same") {
			t.Errorf("the login: %v", err)
		}
	})
	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		i, p, result := startVerification(t, annRoom, "yes", nil)
		c, _ := i.exchange(sasDecimal)
		i.next("mac")
		if q := p.find("show the same"); len(strings.Fields(strings.Split(q, "\n")[2])) != 3 {
			t.Errorf("the person was asked %q, want three numbers", q)
		}
		i.prove(c, map[string]string{"ed25519:" + i.rig.device: "of another"})
		if p := i.next("cancel"); p.Code != "m.key_mismatch" {
			t.Errorf("the other device is told %+v", p)
		}
		if err := <-result; err == nil {
			t.Error("the login succeeds")
		}
		if i.fake.Signed(matrixtest.Bot, ann, "master") {
			t.Error("the bot vouches for the person")
		}
	})
	t.Run("ended", func(t *testing.T) {
		t.Parallel()
		i, _, result := startVerification(t, "", "yes", nil)
		i.exchange(sasEmoji)
		i.say("cancel", map[string]any{"code": "m.user", "reason": "changed my mind"})
		if err := <-result; err == nil || !strings.Contains(err.Error(), "changed my mind") {
			t.Errorf("the login: %v", err)
		}
	})
	t.Run("method", func(t *testing.T) {
		t.Parallel()
		i, p, _ := startVerification(t, "", "yes", nil)
		ask := request(time.Now())
		ask["methods"], i.txn = []string{"m.qr_code.scan.v1"}, "t1"
		ask["from_device"] = i.rig.device
		i.say("request", ask)
		if p := i.next("cancel"); p.Code != "m.unknown_method" {
			t.Errorf("the other device is told %+v", p)
		}
		if s := p.find("asks for a verification"); s != "" {
			t.Errorf("the person was told %q", s)
		}
	})
}
