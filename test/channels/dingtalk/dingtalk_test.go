// Package dingtalk certifies our fake of DingTalk: the SDKs that DingTalk itself
// offers must work with it, and see what they see of the real one.
package dingtalk

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

type object = dingtalktest.Object

func TestLibraries(t *testing.T) {
	t.Parallel()
	heard := []any{
		[]any{"hello", "ann", "User ann", "1", "direct-ann"}, []any{"in a group", "ann", "User ann", "2", "cid1"}, []any{"after the pause", "ann", "User ann", "1", "direct-ann"},
	}
	cards := map[string][]string{
		"client.py": {"ann: It is. (3, 2 streamed) []", "ann: whole (3, 2 streamed) []", "ann: oh (5, 1 streamed) []", "group:cid1: for you (1, 0 streamed) [ann]"},
	}
	for script, want := range map[string]object{
		"client.py":  {"heard": heard, "text": 0.0, "markdown": 0.0, "picture": "content", "upload": true, "secret": []any{nil, nil}, "cards": []any{true, true, true}},
		"client.mjs": {"heard": heard, "text": 0.0, "markdown": 0.0, "picture": true},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			fake := dingtalktest.New()
			defer fake.Close()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				person(ctx, fake)
			}()
			defer func() { cancel(); <-done }()

			var got object
			if err := json.Unmarshal(certify.Script(t, ".", script, fake.URL(), dingtalktest.ClientID, dingtalktest.ClientSecret, dingtalktest.Template), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what the SDK understood (-want +got):\n%s", diff)
			}
			var sent []string
			for _, m := range fake.Messages() {
				if m.Way != "card" {
					sent = append(sent, m.Chat+" "+m.Key+" "+m.Text())
				}
			}
			var grown []string
			for _, c := range fake.Cards() {
				grown = append(grown, fmt.Sprintf("%s: %s (%s, %d streamed) %v", c.Chat, c.Text, c.Flow, c.Streams, c.At))
			}
			if diff := cmp.Diff(cards[script], grown); diff != "" {
				t.Errorf("what people see in cards (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"ann text re: hello", "ann markdown **re**"}, sent); diff != "" {
				t.Errorf("what people see (-want +got):\n%s", diff)
			}
			for _, id := range []string{"m1", "m2", "m3", "m4"} {
				if code := fake.Acked(id); code != 200 {
					t.Errorf("%s was confirmed with %d", id, code)
				}
			}
		})
	}
}

// person does what the bot asks a person to do, one thing after the other.
func person(ctx context.Context, fake *dingtalktest.Server) {
	ping := ""
	steps := []struct {
		when func() bool
		do   func()
	}{
		{func() bool { return fake.Connected() == 1 }, func() { fake.Write("ann", "", "hello", object{"msgId": "m1"}) }},
		{func() bool { return fake.Acked("m1") == 200 }, func() { fake.Write("ann", "cid1", "in a group", object{"msgId": "m2"}) }},
		{func() bool { return fake.Acked("m2") == 200 }, func() { ping = fake.System("ping", `{"opaque":"x"}`) }},
		{func() bool { return fake.Acked(ping) == 200 }, fake.Leave},
		{func() bool { return fake.Opened() == 2 }, func() { fake.Write("ann", "", "after the pause", object{"msgId": "m3"}) }},
		{func() bool { return fake.Acked("m3") == 200 }, func() {
			code := fake.Store([]byte("content"))
			fake.Write("ann", "", "", object{"msgId": "m4", "msgtype": "picture", "content": object{"downloadCode": code}})
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
