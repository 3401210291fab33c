package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/channel"
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
		return nil, channel.Permanent(fmt.Errorf("the room is encrypted: %w", b.vault.locked))
	}
	return nil, channel.ErrNotReady
}

// sessionOf is the session whose keys an encrypted event needs.
func sessionOf(e event) string {
	var c struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal(e.Content, &c)
	return c.Session
}
