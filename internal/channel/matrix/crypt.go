package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// park keeps a message until its keys come.
func (b *bot) park(e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, list := range b.parked {
		n += len(list)
	}
	if n >= parkedMost {
		clear(b.parked)
	}
	key := sessionOf(e)
	b.parked[key] = append(b.parked[key], e)
}

// arrived queues the messages that waited for keys.
func (b *bot) arrived(session string) {
	b.mu.Lock()
	list, again := b.parked[session], b.again
	delete(b.parked, session)
	b.mu.Unlock()
	if again == nil {
		return
	}
	for _, e := range list {
		again(e)
	}
}

// sessionOf is the session whose keys an encrypted event needs.
func sessionOf(e event) string {
	var c struct {
		Session string `json:"session_id"`
	}
	_ = json.Unmarshal(e.Content, &c)
	return c.Session
}
