package settings

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// A replaced object keeps nothing but hidden values that the new one repeats.
func TestReplacing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, fresh, want string }{
		{`{"url":"a","headers":{"X":"1","Y":"2"}}`, `{"headers":{"X":"***"}}`, `{"headers":{"X":"***","Y":null},"url":null}`},
		{``, `{"command":"x"}`, `{"command":"x"}`},
		{`{"args":["a"]}`, `{"args":["b"]}`, `{"args":["b"]}`},
		{`{"a":1}`, `2`, `2`},
	} {
		got, err := json.Marshal(replacing(json.RawMessage(c.old), json.RawMessage(c.fresh)))
		if err != nil || string(got) != c.want {
			t.Errorf("replacing(%s, %s) = %s, %v, want %s", c.old, c.fresh, got, err, c.want)
		}
	}
}

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"command":"npx -y thing"}`:             `{"args":["-y","thing"],"command":"npx"}`,
		`{"command":"npx"}`:                      `{"command":"npx"}`,
		`{"command":"a b","args":["c"]}`:         `{"command":"a b","args":["c"]}`,
		`{"url":"https://u.example/mcp"}`:        `{"url":"https://u.example/mcp"}`,
		`["not", "an", "object", "of", "those"]`: `["not", "an", "object", "of", "those"]`,
	} {
		if got := splitCommand(json.RawMessage(in)); string(got) != want {
			t.Errorf("splitCommand(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"mine": true, "My-own_2.x": true, "": false, ".hidden": false, "-flag": false, "a b": false, "a/b": false,
		strings.Repeat("x", 40): true, strings.Repeat("x", 41): false,
	} {
		if got := plainName(name); got != want {
			t.Errorf("plainName(%q) = %v", name, got)
		}
	}
	for name, want := range map[string]bool{
		"channels.websocket": true, "channels.websocket.token": true, "channels.websockets.token": false, "channels.telegram": false,
	} {
		if got := ofSocket(name); got != want {
			t.Errorf("ofSocket(%q) = %v", name, got)
		}
	}
}

// Clients learn what they can do about an edit that was not made; what they
// cannot is left to the log.
func TestRefuseEdit(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	for _, c := range []struct {
		err    error
		status int
		want   string
	}{
		{web.Refuse(418, "short and stout"), 418, "stout"},
		{&config.Error{Kind: config.InvalidSchema, Issues: []config.Problem{{Path: "a.b", Message: "is wrong", Line: 7}}}, 422, "a.b"},
		{config.ErrUnknown, 400, ""},
		{config.ErrChanged, 409, "try again"},
		{&diskio.LockedError{}, 409, "try again"},
		{odd, 0, ""},
	} {
		got := refuseEdit(c.err)
		e, ok := errors.AsType[*web.Error](got)
		switch {
		case c.status == 0 && !errors.Is(got, odd):
			t.Errorf("%v became %v", c.err, got)
		case c.status != 0 && (!ok || e.Status != c.status || !strings.Contains(e.Message, c.want) || strings.Contains(e.Message, "7")):
			t.Errorf("%v became %v, want %d with %q", c.err, got, c.status, c.want)
		}
	}
}
