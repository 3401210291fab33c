package discord

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// A name admits a guest, and only a name that is nobody else's now. Whoever takes
// the owner's id as a name, anywhere, is a stranger.
func TestNamesAreNoProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allow       []string
		who         user
		nick        string
		want, owner bool
	}{
		"the id":                  {[]string{"42"}, user{ID: "42", Username: "ann"}, "", true, true},
		"a name":                  {[]string{"@ann"}, user{ID: "66", Username: "ann", Discriminator: "0"}, "", true, false},
		"a bare name":             {[]string{"ann"}, user{ID: "66", Username: "ann"}, "", true, false},
		"the shown name":          {[]string{"@ann"}, user{ID: "66", Username: "eve", GlobalName: "ann"}, "", false, false},
		"the name in a server":    {[]string{"@ann"}, user{ID: "66", Username: "eve"}, "ann", false, false},
		"a name among many":       {[]string{"@ann"}, user{ID: "66", Username: "ann", Discriminator: "1234"}, "", false, false},
		"a bot":                   {[]string{"@ann"}, user{ID: "66", Username: "ann", Bot: true}, "", false, false},
		"the id as a name":        {[]string{"42"}, user{ID: "66", Username: "42", GlobalName: "42"}, "42", false, false},
		"the id as a name, owner": {[]string{"*", "42"}, user{ID: "66", Username: "42"}, "42", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, loopback(t), map[string]any{"allowFrom": c.allow})
			v := (&receiver{bot: r.bot}).visitor(bus.Route{Channel: "discord", ChatID: "866"}, "", &c.who, c.nick)
			pass, ok := r.deps.Gate.Admit(t.Context(), v)
			if ok != c.want || pass.Owner() != c.owner {
				t.Errorf("admitted %v, as the owner %v; want %v, %v", ok, pass.Owner(), c.want, c.owner)
			}
		})
	}
}
