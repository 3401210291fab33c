// Package qq certifies our fake of QQ: Tencent's own library for bots must work
// with it, and see what it sees of the real one.
package qq

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

type object = qqtest.Object

// understood is what the library must say.
func understood() object {
	return object{
		"me": qqtest.BotName, "direct": []any{"hello", "ann", "a.txt"}, "sent": true, "again": "the message was deduplicated",
		"long": "the message is too long", "markdown": "no permission for markdown", "empty": "the message is empty", "sixth": "too many replies",
		"first": "no permission for proactive messages", "unknown": "msg_id is invalid", "group": []any{" hello", "G1", "ann"},
		"guild": []any{"<@!" + qqtest.BotID + "> hello", "77", "ann", qqtest.BotID}, "dm": []any{"hello", "88", "user ann"},
		"tap": []any{2.0, "ann", "data"}, "resumed": "after the cut", "secret": "{'code': 100016, 'message': 'invalid appid or secret'}",
	}
}

func TestLibrary(t *testing.T) {
	t.Parallel()
	fake := qqtest.New()
	defer fake.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		person(ctx, fake)
	}()
	defer func() { cancel(); <-done }()

	var got object
	if err := json.Unmarshal(certify.Script(t, ".", "client.py", fake.URL(), qqtest.AppID, qqtest.Secret), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(understood(), got); diff != "" {
		t.Errorf("what qq-botpy understood (-want +got):\n%s", diff)
	}
	if fake.Identified() != 1 || fake.Resumed() != 1 {
		t.Errorf("the library began %d sessions and resumed %d, want one of each", fake.Identified(), fake.Resumed())
	}
	var files []string
	for _, m := range fake.Messages() {
		if m.File != "" {
			files = append(files, string(m.Kind)+" "+m.File)
		}
	}
	if diff := cmp.Diff([]string{"users type1", "channels picture"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// person does what the bot asks a person to do, one thing after the other.
func person(ctx context.Context, fake *qqtest.Server) {
	said := func(n int) func() bool { return func() bool { return len(fake.Messages()) >= n } }
	tap := ""
	steps := []struct {
		when func() bool
		do   func()
	}{
		{func() bool { return fake.Connected() == 1 }, func() {
			fake.Write(qqtest.Direct, "ann", "ann", "hello", object{"attachments": []object{fake.Store("a.txt", []byte("content"))}})
		}},
		{func() bool { return len(fake.Calls("POST", "/messages")) >= 12 }, func() { fake.Write(qqtest.Group, "ann", "G1", "hello", nil) }},
		{said(6), func() { fake.Write(qqtest.Guild, "ann", "77", "hello", nil) }},
		{said(7), func() { fake.Write(qqtest.GuildDirect, "ann", "88", "hello", nil) }},
		{said(8), func() { tap = fake.Press(qqtest.Direct, "ann", "ann", "data") }},
		{func() bool { return fake.Tapped(tap) }, func() {
			fake.Cut()
			fake.Write(qqtest.Direct, "ann", "ann", "after the cut", nil)
		}},
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(steps) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if steps[0].when() {
			steps[0].do()
			steps = steps[1:]
		}
	}
}
