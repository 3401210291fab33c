package teams

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
)

// Signed nonsense stops nothing, and leaves one line per cause.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	r := ready(t)
	fake := r.fake
	token := fake.Sign(teamstest.KeyID, fake.Claims(nil))
	large, err := json.Marshal(fake.Activity("large", "owner", mine, strings.Repeat("x", 2<<20), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body string
		want int
	}{
		{"", http.StatusBadRequest},
		{"{", http.StatusBadRequest},
		{"[]", http.StatusBadRequest},
		{"null", http.StatusUnauthorized}, // it names no address
		{`{"type": 5}`, http.StatusBadRequest},
		{`"` + strings.Repeat(`[`, 10000), http.StatusBadRequest},
		{strings.Repeat(`{"type":`, 20000), http.StatusBadRequest},
		{string(large), http.StatusRequestEntityTooLarge},
	} {
		for range 3 {
			if status, _ := fake.Deliver(token, []byte(c.body)); status != c.want {
				t.Errorf("%.40q is answered with %d, want %d", c.body, status, c.want)
			}
		}
	}
	odd := fake.Activity("odd", "owner", mine, "odd", teamstest.Object{
		"entities": "none", "attachments": teamstest.Object{}, "value": []any{1}, "timestamp": "yesterday", "channelData": teamstest.Object{"tenant": teamstest.Object{"id": teamstest.Tenant}},
	})
	r.post(odd)
	name := strings.Repeat("A:\n\u202e", 200)
	r.say("name", "hi", teamstest.Object{"from": teamstest.Object{"id": "29:owner", "aadObjectId": "owner", "name": name}})
	r.say("big", strings.Repeat("y", 900_000), nil)
	got := r.receive(3)
	if len(got) != 3 || got[0].Text != "odd" || len(got[2].Text) != 900_000 {
		t.Errorf("the agent got %d messages", len(got))
	}
	lines := map[string]int{}
	for line := range strings.Lines(r.Log.String()) {
		if _, cause, ok := strings.Cut(line, "cause="); ok {
			cause, _, _ = strings.Cut(cause, " err=")
			lines[cause]++
		}
	}
	if len(lines) != 2 {
		t.Errorf("the log has the causes %v", lines)
	}
	for cause, n := range lines {
		if n != 1 {
			t.Errorf("%d lines about %s", n, cause)
		}
	}
}

// Clients that say nothing, or half of it, neither keep others out nor hold up
// the end.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel()
	fake := newFake(t)
	r := newRig(t, fake, nil)
	end := r.begin()
	var d net.Dialer
	for i := range 20 {
		c, err := d.DialContext(t.Context(), "tcp", fake.Front())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			continue
		}
		if _, err := io.WriteString(c, "POST /api/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a.b.c\r\nContent-Length: 500\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
	}
	r.say("1", "hi", nil)
	r.receive(1)
	end()
}

// Two bots run side by side in one gateway, each with its own people and
// tokens; the same bot twice is refused.
func TestTwoAccounts(t *testing.T) {
	t.Parallel()
	one, two := newFake(t), newFake(t)
	a, b := newRig(t, one, nil), newRig(t, two, nil)
	b.deps.Name = "msteams.work"
	b.reopen(nil)
	defer a.begin()()
	defer b.begin()()
	a.say("1", "to one", nil)
	b.say("1", "to two", nil)
	x, y := a.receive(1)[0], b.receive(1)[0]
	if x.Text != "to one" || y.Text != "to two" || x.Route.Channel != "msteams" || y.Route.Channel != "msteams.work" || x.ID == y.ID {
		t.Errorf("the agents got %+v and %+v", x, y)
	}
	body, err := json.Marshal(two.Activity("2", "owner", mine, "x", nil))
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := two.Deliver(one.Sign(teamstest.KeyID, one.Claims(nil)), body); status != http.StatusUnauthorized {
		t.Errorf("a token for the address of another is answered with %d", status)
	}

	c := newRig(t, one, nil)
	c.deps.Claim = func(string) error { return chat.Fatal(errors.New("another section uses the same bot")) }
	c.reopen(nil)
	if err := c.Run(t.Context(), c.Submit); !chat.IsFatal(err) {
		t.Errorf("the same bot again: %v", err)
	}
}

// FuzzActivity looks for texts that break the reading of activities.
func FuzzActivity(f *testing.F) {
	f.Add("<at>Nano</at> hi", replyPage)
	f.Add("a < b &nbsp; <br/>", forwardPage)
	f.Add("Reply wrapper\nx", "<blockquote><blockquote itemtype='/Reply'>")
	f.Fuzz(func(t *testing.T, text, page string) {
		content, err := json.Marshal(page)
		if err != nil {
			t.Skip()
		}
		a := activity{Text: text, Recipient: account{ID: "28:x", Name: "Nano"}, Attachments: []attachment{{ContentType: "text/html", Content: content}}}
		said := read(&a)
		for _, q := range said.quotes {
			if s := q.shown(); !strings.HasPrefix(s.Text, "[") || len([]rune(s.Text)) > quoteMost+200 {
				t.Errorf("a quote is %q", s.Text)
			}
		}
	})
}
