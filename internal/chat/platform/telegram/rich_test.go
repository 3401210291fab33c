package telegram

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

func TestRichMessages(t *testing.T) {
	t.Parallel()
	const refused = "Bad Request: RICH_MESSAGE_BLOCKS_TOO_MUCH"
	for name, c := range map[string]struct {
		out  bus.Outbound
		off  bool
		fail []telegramtest.Failure
		want string // the method, and the text as it was sent
	}{
		"table":         {out: bus.Outbound{Text: "| a |\n|---|\n| b |"}, want: "sendRichMessage | a |\n|---|\n| b |"},
		"off":           {out: bus.Outbound{Text: "**a**"}, off: true, want: "sendMessage <b>a</b>"},
		"plain":         {out: bus.Outbound{Text: "**a**", Plain: true}, want: "sendMessage **a**"},
		"hint":          {out: bus.Outbound{Text: "a", Kind: bus.ToolHint}, want: "sendMessage <blockquote expandable>a</blockquote>"},
		"picture":       {out: bus.Outbound{Text: "![a](https://x.y/?words)"}, want: `sendMessage <a href="https://x.y/?words">a</a>`},
		"picture below": {out: bus.Outbound{Text: "![a][b]\n\n[b]: https://x.y"}, want: "sendMessage ![a][b]\n\n[b]: <a href=\"https://x.y\">https://x.y</a>"},
		"tag":           {out: bus.Outbound{Text: "<img src=x>"}, want: "sendMessage &lt;img src=x&gt;"},
		"too much":      {out: bus.Outbound{Text: "**a**"}, fail: []telegramtest.Failure{{Method: "sendRichMessage", Code: 400, Text: refused}}, want: "sendMessage <b>a</b>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, telegramtest.Offline(), map[string]any{"richMessages": !c.off})
			r.fake.Fail(c.fail...)
			c.out.Route = to("42")
			if _, err := r.Send(t.Context(), c.out); err != nil {
				t.Fatal(err)
			}
			sent := r.fake.Messages(42)
			if len(sent) != 1 || sent[0].Method+" "+sent[0].Text != c.want {
				t.Errorf("sent %+v, want %q", sent, c.want)
			}
		})
	}
}

// A server that does not know rich messages is asked once. A refused chat or a
// full one is no reason to try again.
func TestRichMessagesUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), map[string]any{"richMessages": true})
	r.fake.Fail(telegramtest.Failure{Method: "sendRichMessage", Code: 403, Text: "Forbidden: bot was blocked by the user"})
	if _, err := r.Send(t.Context(), bus.Outbound{Text: "x", Route: to("42")}); verdict(err) != "permanent" {
		t.Errorf("blocked: %v, want a permanent error", err)
	}
	r.fake.Fail(telegramtest.Failure{Method: "sendRichMessage", Times: -1, Code: 404, Text: "Not Found: method not found"})
	for range 2 {
		if _, err := r.Send(t.Context(), bus.Outbound{Text: "**a**", Route: to("42")}); err != nil {
			t.Fatal(err)
		}
	}
	var methods []string
	for _, call := range r.fake.Calls("") {
		methods = append(methods, call.Method)
	}
	want := []string{"sendRichMessage", "sendRichMessage", "sendMessage", "sendMessage"}
	if diff := cmp.Diff(want, methods); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A preview is plain text; only its last form is rich.
func TestRichEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Offline(), map[string]any{"richMessages": true})
	id, err := r.Send(t.Context(), bus.Outbound{Kind: bus.Delta, Text: "# a", Route: to("42")})
	if err != nil {
		t.Fatal(err)
	}
	for _, final := range []bool{false, true, true} { // the last one changes nothing
		if err := r.Edit(t.Context(), bus.Outbound{Route: to("42"), Text: "# ab"}, id, final); err != nil {
			t.Fatal(err)
		}
	}
	m := r.fake.Messages(42)[0]
	if !slices.Equal(m.Edits, []string{"ab", "# ab"}) || m.Method != "sendMessage" {
		t.Errorf("sent by %s, edited to %q", m.Method, m.Edits)
	}
}
