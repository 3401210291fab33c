package mattermost

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
)

// A name or an address of mail admits a guest where the settings say so, and never
// makes an owner; an id is one in every mode.
func TestNamesAreNoProof(t *testing.T) {
	t.Parallel()
	bob, eve := mattermosttest.ID("bob"), mattermosttest.ID("eve")
	for name, c := range map[string]struct {
		mode, entry string
		who         mattermosttest.User
		want, owner bool
	}{
		"a user name":                     {"username", "bob", mattermosttest.User{ID: bob, Username: "bob"}, true, false},
		"a marked user name":              {"username", "@Bob", mattermosttest.User{ID: bob, Username: "bob"}, true, false},
		"an address":                      {"email", "Bob@example.com", mattermosttest.User{ID: bob, Email: "bob@example.com"}, true, false},
		"an address that looks like it":   {"email", "kim@example.com", mattermosttest.User{ID: bob, Email: "\u212Aim@example.com"}, false, false},
		"the local part":                  {"email", "bob@example.com", mattermosttest.User{ID: bob, Email: "bob@evil.example"}, false, false},
		"an id, in the mode of names":     {"username", bob, mattermosttest.User{ID: bob, Username: "bob"}, true, true},
		"an id, in the mode of addresses": {"email", bob, mattermosttest.User{ID: bob, Username: "bob"}, true, true},
		"the id as a name":                {"username", bob, mattermosttest.User{ID: eve, Username: bob}, false, false},
		"the id as an address":            {"email", bob, mattermosttest.User{ID: eve, Email: bob}, false, false},
		"the shown name":                  {"username", "bob", mattermosttest.User{ID: eve, Username: "eve", Nickname: "bob"}, false, false},
		"a name in the mode of ids":       {"id", "bob", mattermosttest.User{ID: bob, Username: "bob"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, map[string]any{"allowFromMatchMode": c.mode, "allowFrom": []string{c.entry}})
			r.fake.AddUser(c.who)
			r.take(event{Post: post{
				ID: mattermosttest.ID("p"), UserID: c.who.ID, ChannelID: r.fake.Direct(c.who.ID), Message: "hi", CreateAt: time.Now().UnixMilli(),
			}, Type: "D"})
			got := r.Inbound()
			if len(got) == 1 != c.want || c.want && (got[0].Scope == "") != c.owner {
				t.Errorf("got %+v, want admitted %v, as the owner %v", got, c.want, c.owner)
			}
		})
	}
}
