package feishu

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

// Administrators choose user ids. One of another organisation, or one that looks
// like an id of another kind, is not the owner's, in messages and with buttons.
func TestUserIDsOfOthers(t *testing.T) {
	t.Parallel()
	home := "t1"
	for name, c := range map[string]struct{ in, want ids }{
		"of ours":          {ids{Open: "ou_1", User: "boss", Tenant: home}, ids{Open: "ou_1", User: "boss", Tenant: home}},
		"of nobody knows":  {ids{Open: "ou_1", User: "boss"}, ids{Open: "ou_1", User: "boss"}},
		"of others":        {ids{Open: "ou_1", User: "boss", Tenant: "t2"}, ids{Open: "ou_1", Tenant: "t2"}},
		"like an open id":  {ids{Open: "ou_1", User: "ou_boss", Tenant: home}, ids{Open: "ou_1", Tenant: home}},
		"like a union id":  {ids{Open: "ou_1", User: "on_boss", Tenant: home}, ids{Open: "ou_1", Tenant: home}},
		"without any such": {ids{Open: "ou_1", Union: "on_1"}, ids{Open: "ou_1", Union: "on_1"}},
	} {
		if got := c.in.sound(home); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}

	r := newRig(t, map[string]any{"allowFrom": []string{"*", "boss"}, "owners": []string{"boss"}}).ready()
	defer r.begin()()
	for _, tenant := range []string{"t2", "t1"} {
		r.fake.Say(feishutest.Message{Sender: "ou_" + tenant, UserID: "boss", Tenant: tenant, Chat: "oc_p2p_ou_" + tenant, Content: feishutest.Text("hi " + tenant)})
	}
	for _, in := range r.receive(2) {
		if owner := in.Text == "hi t1"; (in.Scope == "") != owner {
			t.Errorf("got %+v, as the owner %v", in, owner)
		}
	}
}
