package telegram

import (
	"maps"
	"testing"
)

// A user name admits a guest, which includes whoever takes it over; an entry of
// Python nanobot with id and name stands for the id.
func TestNamesAreNoProof(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allow       []string
		id          int
		username    string
		more        object
		want, owner bool
	}{
		"an id":                {[]string{"42"}, 42, "ann", nil, true, true},
		"a name":               {[]string{"@Ann"}, 42, "ann", nil, true, false},
		"a bare name":          {[]string{"ann"}, 42, "ann", nil, true, false},
		"both":                 {[]string{"42|ann"}, 42, "anna", nil, true, true},
		"both, another person": {[]string{"42|ann"}, 66, "ann", nil, false, false},
		"the id as a name":     {[]string{"42"}, 66, "42", nil, false, false},
		"the shown name":       {[]string{"ann"}, 66, "", object{"first_name": "ann"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := loopback(t)
			r := newRig(t, fake, map[string]any{"allowFrom": c.allow})
			defer r.begin()()
			from := object{"id": c.id, "first_name": "x", "username": c.username}
			maps.Copy(from, c.more)
			fake.Post(object{"text": "hi", "chat": private(int64(c.id)), "from": from})
			r.Await("the update", func() bool { return fake.Pending() == 0 })
			if !c.want {
				if got := r.Inbound(); len(got) > 0 {
					t.Errorf("got %+v of a stranger", got)
				}
				return
			}
			if in := r.receive(1)[0]; (in.Scope == "") != c.owner {
				t.Errorf("got %+v, want the owner %v", in, c.owner)
			}
		})
	}
}
