package matrix

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// roomsKept is how many rooms are remembered; others are asked for again.
const roomsKept = 1000

// rooms remembers what matters about rooms: who is in them, and whether they
// are encrypted. What is not known is asked for when it is needed, and kept up
// to date by sync.
type rooms struct {
	bot *bot

	mu    sync.Mutex
	known *recent.Map[string, *room]
}

// room is the state of a room. It is replaced, never changed, once it is known.
type room struct {
	members   map[string]string // joined or invited people, and the names they chose
	encrypted json.RawMessage   // content of the event that switched encryption on, nil if none did
	public    bool              // others can join without an invitation
	readable  bool              // others can read without joining
}

// event is something that happened in a room, or was said to our device.
type event struct {
	ID       string          `json:"event_id,omitempty"`
	Type     string          `json:"type"`
	Sender   string          `json:"sender,omitempty"`
	StateKey *string         `json:"state_key,omitempty"`
	At       int64           `json:"origin_server_ts,omitempty"` // milliseconds
	Content  json.RawMessage `json:"content"`

	Room string `json:"-"`
	weak bool   // its sender is not proven: in an encrypted room it came without encryption, or its keys came from elsewhere
}

func newRooms(b *bot) *rooms { return &rooms{bot: b, known: recent.New[string, *room](roomsKept)} }

// get returns the state of a room.
func (rs *rooms) get(ctx context.Context, id string) (*room, error) {
	rs.mu.Lock()
	r, ok := rs.known.Get(id)
	rs.mu.Unlock()
	if ok {
		return r, nil
	}

	var state []event
	if err := rs.bot.client.call(ctx, http.MethodGet, roomPath(id, "state"), nil, &state); err != nil {
		return nil, err
	}

	if c, err := rs.bot.keys(); err == nil { // who has its keys is not known
		c.forget(ctx, id)
	}

	rs.mu.Lock()
	defer rs.mu.Unlock()

	if r, ok := rs.known.Get(id); ok {
		return r, nil
	}

	r = &room{members: map[string]string{}}
	for _, e := range state {
		r.apply(e)
	}

	rs.known.Put(id, r)
	return r, nil
}

// update notes changes of state in a room that is known. It reports whether the
// keys of the room must be changed, since its people did.
func (rs *rooms) update(id string, events []event) (changed bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()

	old, ok := rs.known.Get(id)
	if !ok {
		return false // it is asked for as a whole
	}

	r := &room{members: maps.Clone(old.members), encrypted: old.encrypted, public: old.public, readable: old.readable}
	for _, e := range events {
		r.apply(e)
	}

	rs.known.Put(id, r)
	return !slices.Equal(old.people(), r.people())
}

// forget makes the state of a room unknown.
func (rs *rooms) forget(id string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.known.Delete(id)
}

// apply makes an event of state part of a room that no other goroutine has yet.
func (r *room) apply(e event) {
	if e.StateKey == nil {
		return
	}

	var c struct {
		Membership string
		Name       string `json:"displayname"`
		Rule       string `json:"join_rule"`
		Readers    string `json:"history_visibility"`
	}

	_ = json.Unmarshal(e.Content, &c) // what is malformed counts as missing
	switch e.Type {
	case "m.room.member":
		delete(r.members, *e.StateKey)
		if c.Membership == "join" || c.Membership == "invite" {
			r.members[*e.StateKey] = text.Speaker(c.Name)
		}

	case "m.room.encryption":
		r.encrypted = e.Content // it cannot be switched off
	case "m.room.join_rules":
		r.public = c.Rule != "invite" && c.Rule != "private"
	case "m.room.history_visibility":
		r.readable = c.Readers == "world_readable"
	}
}

// direct reports whether one person and we are alone, and stay so unless one of
// us invites others.
func (r *room) direct() bool { return len(r.members) <= 2 && !r.public && !r.readable }

// people returns the ids of all who can read the room.
func (r *room) people() []string { return slices.Sorted(maps.Keys(r.members)) }

// name returns how a person is shown.
func (r *room) name(user string) string {
	if n := r.members[user]; n != "" {
		return n
	}
	return localpart(user)
}

// localpart returns the name in an id.
func localpart(user string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(user, "@"), ":")
	return text.Speaker(name)
}

// membership returns what an m.room.member event makes of a person.
func membership(e event) string {
	var c struct{ Membership string }
	_ = json.Unmarshal(e.Content, &c) // what is malformed is none
	return c.Membership
}
