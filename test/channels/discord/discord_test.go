// Package discord certifies our fake of Discord: the libraries that most bots
// are made with must work with it, and see what they see of the real one.
package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

type object = discordtest.Object

// understood is what both libraries must say.
func understood() object {
	return object{
		"me": discordtest.BotName, "guild": "Home", "role": discordtest.BotRole, "thread": discordtest.Channel, "commands": []any{"model"},
		"same": true, "heard": []any{"<@999> hello", "42", true, "42", "a.txt", 7.0}, "file": "content", "reply": true, "sent": "out.txt",
		"gone": 10008.0, "history": []any{"<@999> hello", "re: hello!"}, "tooLong": 50035.0, "empty": 50006.0, "unknown": 10003.0,
		"archived": 50083.0, "locked": 50013.0, "callback": 10062.0, "direct": "842", "tap": []any{"go", "42", "press me"},
		"slash": []any{"model", "fast", "42"}, "resumed": "after the cut", "token": "refused", "intents": "refused",
	}
}

func TestLibraries(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"discord.js": "client.mjs", "discord.py": "client.py"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := discordtest.New()
			defer fake.Close()
			fake.Limit("POST messages", 5, time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				person(ctx, fake)
			}()
			defer func() { cancel(); <-done }()
			var got object
			if err := json.Unmarshal(certify.Script(t, ".", script, fake.Root(), discordtest.Token), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(understood(), got); diff != "" {
				t.Errorf("what %s understood (-want +got):\n%s", name, diff)
			}
			checkServer(t, fake)
		})
	}
}

// person does what the bot asks a person to do.
func person(ctx context.Context, fake *discordtest.Server) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for done := map[string]bool{}; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, m := range fake.Messages(discordtest.Channel) {
			if done[m.Text()] {
				continue
			}
			done[m.Text()] = true
			switch m.Text() {
			case "ready":
				fake.Write("42", discordtest.Channel, "<@999> hello", object{
					"attachments": []object{fake.Store("a.txt", []byte("content"))}, "mentions": []object{{"id": "999", "username": "nb_bot", "discriminator": "0", "avatar": nil, "global_name": nil, "bot": true}},
				})
			case "press me":
				fake.Press("42", discordtest.Channel, m.ID, "go")
			case "slash please":
				fake.Slash("42", discordtest.Channel, "model", object{"name": "preset", "type": 3, "value": "fast"})
			case "cut me":
				fake.Cut()
				fake.Write("42", discordtest.Channel, "after the cut", nil)
			}
		}
	}
}

// checkServer looks at what the library did, as the server saw it.
func checkServer(t *testing.T, fake *discordtest.Server) {
	t.Helper()
	if n := fake.Identified(); n != 1 {
		t.Errorf("the library began %d sessions, want one that it resumed", n)
	}
	for _, c := range fake.Calls("", "") {
		if c.Status == 429 {
			t.Errorf("%s %s was too much: the library did not understand the headers of the bucket", c.Method, c.Path)
		}
	}
	calls := func(method, word string) int { return len(fake.Calls(method, word)) }
	if calls("POST", "/typing") != 1 || calls("PUT", "/reactions/👀/@me") != 1 || calls("DELETE", "/reactions/👀/@me") != 1 {
		t.Errorf("typing and reactions did not arrive: %+v", fake.Calls("", "reactions"))
	}
	replies := map[string]bool{}
	for _, c := range fake.Calls("POST", "/callback") {
		if c.Status != 404 {
			replies[fmt.Sprint(c.Body["type"])] = true
		}
	}
	if !replies["4"] || !replies["6"] {
		t.Errorf("interactions were answered with %v, want a message (4) and a deferred update (6)", replies)
	}
}
