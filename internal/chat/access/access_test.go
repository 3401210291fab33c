package access_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

func person(direct bool, ids ...string) access.Visitor {
	return access.Visitor{Route: bus.Route{Channel: "tg", ChatID: "chat"}, IDs: ids, Direct: direct, Mentioned: true}
}

// A person has several ids, of which any is enough; which one stands for them
// does not change when another becomes known.
func TestAliases(t *testing.T) { storetest.Each(t, testAliases) }

func testAliases(t *testing.T, open storetest.Open) {
	t.Parallel()
	d := newDoor(t, open, `{"allowFrom":["+491"],"owners":["none"]}`)
	for _, ids := range [][]string{{"+491"}, {"lid1", "+491"}, {"+491", "lid1"}} {
		if pass, ok := d.Admit(t.Context(), person(false, ids...)); !ok || pass.Inbound("1", "x").SenderID != "+491" {
			t.Errorf("%q: %v as %q", ids, ok, pass.Inbound("1", "x").SenderID)
		}
	}

	code, err := d.book.Ask(t.Context(), "tg", "+492", "lid2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.book.ApproveOwner(t.Context(), code); err != nil {
		t.Fatal(err)
	}
	scope := func(ids ...string) string {
		t.Helper()
		pass, ok := d.Admit(t.Context(), person(false, ids...))
		if !ok {
			t.Fatalf("%q is not let in", ids)
		}
		return pass.Inbound("1", "x").Scope
	}
	if a, b, c, e := scope("+492"), scope("lid2"), scope("uuid2", "lid2"), scope("uuid2"); a != b || b != c || c != e || !strings.HasSuffix(a, "/+492") {
		t.Errorf("scopes of one person: %q %q %q %q", a, b, c, e)
	}
	if pass, ok := d.Admit(t.Context(), person(true, "uuid2")); !ok || !pass.Owner() {
		t.Error("the owner is not known by another id")
	}
	if from, err := d.book.Revoke(t.Context(), "", "lid2"); err != nil || len(from) != 1 {
		t.Errorf("revoke by an alias: %v, %v", from, err)
	}
	for _, id := range []string{"+492", "lid2", "uuid2"} {
		if _, ok := d.Admit(t.Context(), person(false, id)); ok {
			t.Errorf("%s is let in although the person was revoked", id)
		}
	}
}

// A platform's own rules come first; the gate says what it decided, and can be
// asked without any effect.
func TestRules(t *testing.T) { storetest.Each(t, testRules) }

func testRules(t *testing.T, open storetest.Open) {
	t.Parallel()
	d := newDoor(t, open, `{"allowFrom":["7"]}`)
	d.SetRules(access.Rules{
		Direct: func(v access.Visitor) access.Decision {
			switch v.Name {
			case "open":
				return access.Admit
			case "closed":
				return access.Refuse
			case "off":
				return access.Ignore
			}
			return ""
		},
		ForUs: func(v access.Visitor) bool { return v.Text == "lucky" },
	})
	for _, c := range []struct {
		id, name string
		want     access.Verdict
	}{
		{"7", "", access.Allowed},
		{"8", "", access.Invited},
		{"8", "open", access.Allowed},
		{"8", "closed", access.Refused},
		{"7", "closed", access.Refused},
		{"7", "off", access.NotForUs},
	} {
		v := person(true, c.id)
		v.Name = c.name
		said := len(d.said)
		if knows := d.Knows(t.Context(), v); knows != (c.want == access.Allowed) || len(d.said) != said {
			t.Errorf("%+v: known %v", c, knows)
		}
		if pass, ok := d.Admit(t.Context(), v); pass.Verdict() != c.want || ok != (c.want == access.Allowed) {
			t.Errorf("%+v: %v", c, pass.Verdict())
		}
	}
	v := person(false, "7")
	if pass, _ := d.Admit(t.Context(), v); pass.Verdict() != access.NotForUs {
		t.Errorf("in a group: %v", pass.Verdict())
	}
	v.Text, v.Mentioned = "lucky", false
	if pass, _ := d.Admit(t.Context(), v); pass.Verdict() != access.Allowed {
		t.Errorf("in a group, with luck: %v", pass.Verdict())
	}
}
