package mattermost

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/recent"
)

const personKept = 10 * time.Minute // then we ask the server again

// directory is what we know of the server's people, channels and threads.
type directory struct {
	calls  *client
	now    func() time.Time
	people *recent.Map[string, person] // by id
	places *recent.Map[string, place]  // by id
	roots  *recent.Map[string, bool]   // by the first post: whether it is ours
}

// person is a user as the server knows them.
type person struct {
	user
	at time.Time // when we asked
}

// place is what a channel is.
type place struct {
	Type   string // O, P, D or G
	TeamID string
}

func newDirectory(c *client, now func() time.Time) *directory {
	return &directory{
		calls:  c,
		now:    now,
		people: recent.New[string, person](memory),
		places: recent.New[string, place](memory),
		roots:  recent.New[string, bool](memory),
	}
}

// where returns what the channel of a post is. Team says that its team matters.
func (d *directory) where(ctx context.Context, e *event, team bool) (place, error) {
	where := place{Type: e.Type, TeamID: e.TeamID}
	if known, ok := d.places.Get(e.Post.ChannelID); ok {
		return known, nil
	}

	if where.Type == "" || where.TeamID == "" && team && where.Type != "D" && where.Type != "G" {
		var c conversation
		if err := d.calls.call(ctx, http.MethodGet, "/channels/"+e.Post.ChannelID, nil, &c); err != nil {
			return where, err
		}
		where = place{Type: c.Type, TeamID: c.TeamID}
	}

	d.places.Put(e.Post.ChannelID, where)
	return where, nil
}

// person returns who an id is.
func (d *directory) person(ctx context.Context, id string) (user, error) {
	if who, ok := d.people.Get(id); ok && d.now().Sub(who.at) < personKept {
		return who.user, nil
	}
	var who user
	if err := d.calls.call(ctx, http.MethodGet, "/users/"+id, nil, &who); err != nil {
		return user{}, err
	}
	d.people.Put(id, person{who, d.now()})
	return who, nil
}

// wrote reports whether a thread begins with a post of a user, which is always
// the same one.
func (d *directory) wrote(ctx context.Context, u *user, root string) (bool, error) {
	if known, ok := d.roots.Get(root); ok {
		return known, nil
	}

	var p post
	err := d.calls.call(ctx, http.MethodGet, "/posts/"+root, nil, &p)
	if err != nil && !refusal(err).refused() {
		return false, err
	}

	d.roots.Put(root, p.UserID == u.ID)
	return p.UserID == u.ID, nil
}

// named reports whether a text mentions us.
func (u *user) named(s string) bool { return u.mention(s, 0) >= 0 }

// mention returns where a text mentions us first after a place, -1 if it does not.
func (u *user) mention(s string, from int) int {
	name := "@" + u.Username
	for i := from; i+len(name) <= len(s); i++ {
		if s[i] != '@' || !strings.EqualFold(s[i:i+len(name)], name) {
			continue
		}
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		if (i == 0 || before != '@' && !wordy(before)) && endsName(s[i+len(name):]) {
			return i
		}
	}

	return -1
}

func wordy(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// endsName reports whether a user name does not go on with rest. Dots and dashes
// are part of names only if more follows.
func endsName(rest string) bool {
	rest = strings.TrimLeft(rest, ".-")
	r, _ := utf8.DecodeRuneInString(rest)
	return rest == "" || !wordy(r)
}

// withoutUs removes the mentions that only say that we are meant.
func (u *user) withoutUs(s string) string {
	for i := u.mention(s, 0); i >= 0; i = u.mention(s, i) {
		s = strings.TrimRight(s[:i], " ") + s[i+1+len(u.Username):]
	}
	return strings.TrimSpace(s)
}
