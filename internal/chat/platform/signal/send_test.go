package signal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
)

func to(chatID, text string) bus.Outbound {
	return bus.Outbound{Kind: bus.Final, Route: bus.Route{Channel: "signal", ChatID: chatID}, Text: text}
}

func TestSend(t *testing.T) {
	t.Parallel()
	for chatID, want := range map[string]string{
		ann: ann, strings.TrimPrefix(ann, "+"): ann, strings.ToUpper(annUUID): annUUID, crowd: crowd, "group." + crowd: crowd,
	} {
		r := newRig(t, nil)
		id, err := r.Send(t.Context(), to(chatID, "a **b**"))
		if err != nil {
			t.Fatal(err)
		}
		got := r.fake.Messages()
		if len(got) != 1 || got[0].Chat != want || got[0].Text != "a b" || !cmp.Equal(got[0].Styles, []string{"2:1:BOLD"}) || id == "" {
			t.Errorf("%s: id %s, %+v", chatID, id, got)
		}
	}

	r := newRig(t, nil)
	for _, out := range []bus.Outbound{to(ann, " \u200b\n"), {Kind: bus.Final, Route: to(ann, "").Route}} {
		if id, err := r.Send(t.Context(), out); id != "" || err != nil || len(r.fake.Messages()) != 0 {
			t.Errorf("nothing was sent as %q, %v", id, err)
		}
	}
	plain := to(ann, "a **b**")
	plain.Plain = true
	if _, err := r.Send(t.Context(), plain); err != nil || r.fake.Messages()[0].Text != "a **b**" {
		t.Errorf("%v, %+v", err, r.fake.Messages())
	}
}

// Errors say whether trying again helps.
func TestSendErrors(t *testing.T) {
	t.Parallel()
	limited := func(err error) time.Duration {
		e, _ := errors.AsType[*chat.RateLimitedError](err)
		if e == nil {
			return 0
		}
		return e.After
	}
	for name, c := range map[string]struct {
		chat string
		fail *signaltest.Failure
		want string
		ok   func(error) bool
	}{
		"not a chat":   {chat: "ann", want: `"ann" is not a Signal chat`, ok: chat.IsPermanent},
		"no group":     {chat: "group.b3RoZXI=", want: "Group not found", ok: chat.IsPermanent},
		"user error":   {fail: &signaltest.Failure{Code: -1, Text: "Unregistered user"}, want: "Unregistered", ok: chat.IsPermanent},
		"bad request":  {fail: &signaltest.Failure{Code: -32602, Text: "Invalid params"}, want: "Invalid", ok: chat.IsPermanent},
		"network":      {fail: &signaltest.Failure{Code: -3, Text: "Connection closed"}, want: "closed", ok: func(err error) bool { return !chat.IsPermanent(err) && limited(err) == 0 }},
		"rate":         {fail: &signaltest.Failure{Code: -5, Text: "limit", RetryAfter: 7}, want: "limit", ok: func(err error) bool { return limited(err) == 7*time.Second }},
		"rate, untold": {fail: &signaltest.Failure{Code: -5, Text: "limit"}, want: "limit", ok: func(err error) bool { return limited(err) == time.Minute }},
		"proxy":        {fail: &signaltest.Failure{Status: 502}, want: "HTTP status 502", ok: func(err error) bool { return !chat.IsPermanent(err) }},
		"cut":          {fail: &signaltest.Failure{Cut: true}, want: "EOF", ok: func(err error) bool { return !chat.IsPermanent(err) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			if c.chat == "" {
				c.chat = ann
			}
			if c.fail != nil {
				r.fake.Fail(*c.fail)
			}
			if _, err := r.Send(t.Context(), to(c.chat, "hi")); err == nil || !strings.Contains(err.Error(), c.want) || !c.ok(err) {
				t.Errorf("Send: %v, want %q", err, c.want)
			}
		})
	}
}

// A changed safety number is accepted only if the section says so.
func TestChangedKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fake.ChangeKey(ann)
	if _, err := r.Send(t.Context(), to(ann, "hi")); !chat.IsPermanent(err) || !strings.Contains(err.Error(), "set trustChangedKeys") {
		t.Errorf("Send: %v", err)
	}
	if len(r.fake.Calls("trust")) != 0 {
		t.Error("a key was trusted without being told")
	}
	r.reopen(object{"trustChangedKeys": true})
	if _, err := r.Send(t.Context(), to(ann, "hi")); err != nil || len(r.fake.Messages()) != 1 {
		t.Errorf("Send: %v, %+v", err, r.fake.Messages())
	}
}

// Files travel within the request; large ones by their path.
func TestSendFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, size int) bus.Media {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		return bus.Media{Path: path, Size: int64(size)}
	}
	r := newRig(t, nil)
	small, large := write("a.bin", 5), write("b.bin", maxInline)
	small.Name = "evil;name=x,\n../y.txt"
	out := to(ann, "here")
	out.Media = []bus.Media{small, large}
	if _, err := r.Send(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	got := r.fake.Messages()[0]
	if len(got.Files) != 2 || got.Files[0].Name != "evil_name=x__.._y.txt" || len(got.Files[0].Data) != 5 || got.Files[1].Name != "b.bin" || len(got.Files[1].Data) != maxInline {
		t.Errorf("files %d, first %q %q", len(got.Files), got.Files[0].Name, got.Files[0].MIME)
	}
	sent := r.fake.Calls("send")[0].Params["attachments"].([]any)
	if sent[1] != large.Path {
		t.Errorf("the large file went as %.40q", sent[1])
	}
	out.Media = []bus.Media{{Path: filepath.Join(dir, "none")}}
	if _, err := r.Send(t.Context(), out); !chat.IsPermanent(err) {
		t.Errorf("Send of a missing file: %v", err)
	}
}

// The first part of an answer quotes the question, if the section says so.
func TestQuoting(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"replyToMessage": true})
	out := to(crowd, "one")
	out.ReplyTo = "1700000000123/" + ann
	for _, want := range []string{out.ReplyTo, ""} {
		if _, err := r.Send(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		m := r.fake.Messages()
		if got := m[len(m)-1].Quote; got != want {
			t.Errorf("quotes %q, want %q", got, want)
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	r := newRig(t, object{"reactEmoji": "👀"})
	route := bus.Route{Channel: "signal", ChatID: crowd, MessageID: "1700000000123/" + ann}
	for _, p := range []chat.Phase{chat.Seen, chat.Working, chat.Answered, chat.TurnStopped} {
		if err := r.Signal(t.Context(), route, p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	var got []string
	for _, c := range r.fake.Calls("") {
		switch {
		case c.Params["stop"] == true:
			got = append(got, c.Method+" stop")
		case c.Params["remove"] == true:
			got = append(got, c.Method+" remove")
		default:
			got = append(got, c.Method)
		}
	}
	want := []string{"sendReaction", "sendTyping", "sendReaction remove", "sendTyping stop", "sendReaction remove"}
	if !cmp.Equal(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for target, want := range map[string]string{
		ann: ann, strings.TrimPrefix(ann, "+"): ann, strings.ToUpper(annUUID): annUUID, crowd: crowd, "group." + crowd: crowd, "group z3jv": crowd,
	} {
		if got, err := r.Address(t.Context(), target); err != nil || got != (bus.Route{Channel: "signal", ChatID: want}) {
			t.Errorf("%s: %+v, %v", target, got, err)
		}
	}
	if _, err := r.Address(t.Context(), "ann"); err == nil || !strings.Contains(err.Error(), "neither a group of this account") {
		t.Errorf("Address: %v", err)
	}
}
