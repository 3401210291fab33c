package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// crypt reads and writes encrypted rooms.
type crypt interface {
	// sync takes what an answer of sync says about keys and devices.
	sync(ctx context.Context, n cryptNews, since string)
	// decrypt returns the event inside an encrypted one. An error that wraps
	// errNoKeys may pass when the keys of the session come.
	decrypt(ctx context.Context, e event) (event, error)
	// await asks for the keys of an event and waits a while for them.
	await(ctx context.Context, e event) bool
	// encrypt makes the content of an encrypted event for the devices of all
	// people of a room.
	encrypt(ctx context.Context, id string, r *room, kind string, content json.RawMessage) (json.RawMessage, error)
	// forget makes the next message to a room use new keys, since its people
	// changed.
	forget(ctx context.Context, id string)
	close() error
}

// keyBackup keeps copies of keys on the homeserver, which the recovery key of the
// account opens.
type keyBackup interface {
	// recovery says what there is.
	recovery(ctx context.Context) (recovery, error)
	// unlock takes the recovery key that a person has.
	unlock(ctx context.Context, key string) error
	// enroll makes a backup of the keys, and returns its new recovery key.
	enroll(ctx context.Context) (key string, err error)
}

// recovery is what the homeserver and we have of an account's keys.
type recovery struct {
	storage bool // the account has a recovery key
	backup  bool // the account has a backup of its keys
	ours    bool // we can read and write the backup
	signed  bool // the device is signed with the keys of the account
}

// voucher knows the keys that two devices compare when they verify each other,
// by their names, such as ed25519:DEVICE.
type voucher interface {
	own(ctx context.Context) (map[string]string, error)
	of(ctx context.Context, user, device string) (map[string]string, error)
	// trust notes that a person has verified these keys of a device.
	trust(ctx context.Context, user, device string, names []string) error
}

// desk is the encryption with all that a login needs of it.
type desk interface {
	crypt
	keyBackup
	voucher
}

var (
	// errNoCrypt says that there is no encryption, and why.
	errNoCrypt = errors.New("no encryption")
	errOff     = fmt.Errorf("%w: e2eeEnabled is off", errNoCrypt)
	errNoKeys  = errors.New("the keys of the message are missing")
)

// parkedMost is how many messages wait for their keys.
const parkedMost = 100

// vault holds the encryption during a Run, and the messages that wait for keys.
type vault struct {
	mu     sync.Mutex
	crypt  crypt // nil: encrypted rooms cannot be read, or not yet
	locked error // why they never can
	parked []event
	again  func(e event) // queues a message whose keys have come; nil outside Run
}

func (v *vault) set(c crypt, locked error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.crypt, v.locked = c, locked
}

func (v *vault) queue(again func(event)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.again = again
}

// park keeps a message until its keys come.
func (v *vault) park(e event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.parked = append(v.parked, e)
	v.parked = v.parked[max(0, len(v.parked)-parkedMost):]
}

// arrived queues the messages that waited for the keys of a session.
func (v *vault) arrived(session string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.parked = slices.DeleteFunc(v.parked, func(e event) bool {
		if v.again == nil || sessionOf(e) != session {
			return false
		}
		v.again(e)
		return true
	})
}

// keys returns the encryption, or why there is none.
func (b *bot) keys() (crypt, error) {
	b.vault.mu.Lock()
	defer b.vault.mu.Unlock()
	switch {
	case b.vault.crypt != nil:
		return b.vault.crypt, nil
	case b.vault.locked != nil:
		return nil, chat.Permanent(fmt.Errorf("the room is encrypted: %w", b.vault.locked))
	}
	return nil, chat.ErrNotReady
}

// sessionOf returns the session whose keys an encrypted event needs.
func sessionOf(e event) string {
	var c struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal(e.Content, &c)
	return c.Session
}

// published is what the homeserver tells others about our device.
type published struct {
	device string // its key; "" if it has none
	master string // key of the account that signs; "" if it has none
	signed bool   // the device is signed by the account
}

// errRecoveryKey says that a recovery key does not fit.
var errRecoveryKey = errors.New("that is not the recovery key of the account (48 letters and digits in groups of four)")

// published asks what others see of our device.
func (b *bot) published(ctx context.Context) (published, error) {
	type keys struct {
		Keys       map[string]string            `json:"keys"`
		Signatures map[string]map[string]string `json:"signatures"`
	}
	var got struct {
		Devices map[string]map[string]keys `json:"device_keys"`
		Master  map[string]keys            `json:"master_keys"`
		Signing map[string]keys            `json:"self_signing_keys"`
	}

	ask := map[string]any{"device_keys": map[string][]string{b.o.UserID: {b.device}}}
	if err := b.client.call(ctx, http.MethodPost, clientV3+"/keys/query", ask, &got); err != nil {
		return published{}, fmt.Errorf("look up the keys of the device: %w", err)
	}

	mine := got.Devices[b.o.UserID][b.device]
	p := published{device: mine.Keys["ed25519:"+b.device]}
	for _, key := range got.Master[b.o.UserID].Keys {
		p.master = key
	}

	for name := range got.Signing[b.o.UserID].Keys {
		p.signed = p.master != "" && mine.Signatures[b.o.UserID][name] != ""
	}
	return p, nil
}
