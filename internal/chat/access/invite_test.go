package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// The sender of the code of an invitation in a direct chat becomes the owner, once
// and in time.
func TestInvite(t *testing.T) { storetest.Each(t, testInvite) }

func testInvite(t *testing.T, open storetest.Open) {
	t.Parallel()
	d := newDoor(t, open, `{}`)
	sends := func(direct bool, id, text string) bool {
		v := visitor(direct, id)
		v.Text = text
		pass, ok := d.Admit(t.Context(), v)
		return ok && pass.Owner()
	}
	if sends(true, "1", "/start") || sends(true, "1", "") {
		t.Error("a stranger without a code is the owner")
	}
	first, _ := d.book.Invite("tg")
	code, expires := d.book.Invite("tg")
	other, _ := d.book.Invite("elsewhere")
	if got := expires.Sub(d.now); got != 10*time.Minute {
		t.Errorf("a code lives %v", got)
	}
	if len(code) < 20 || code == first {
		t.Errorf("codes are %q and %q", first, code)
	}
	for name, text := range map[string]string{
		"one that was replaced": "/start " + first, "one of another channel": "/start " + other,
		"one among words": "my code is " + code, "another command": "/help " + code, "a part": "/start " + code[:10],
	} {
		if sends(true, "1", text) {
			t.Errorf("%s was accepted", name)
		}
	}
	if sends(false, "1", "/start "+code) {
		t.Error("a code was accepted in a group")
	}
	if !sends(true, "7", "/start "+code) {
		t.Error("the code is refused")
	}
	if !sends(true, "7", "hello") || sends(true, "8", "/start "+code) {
		t.Error("the code works more than once, or the owner is forgotten")
	}
	if strings.Contains(d.log.String(), code) {
		t.Error("the code is in the log")
	}
	late, _ := d.book.Invite("tg")
	d.now = d.now.Add(11 * time.Minute)
	if sends(true, "9", late) {
		t.Error("a code was accepted after its time")
	}
}
