package guard

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// visitor is a call of a guest.
func visitor() tool.Call {
	return tool.Call{
		ID:         "1",
		Name:       "write_file",
		SessionKey: "test:group",
		TurnID:     "t1",
		SenderID:   "7",
		Scope:      "test:group/7",
		Route:      bus.Route{Channel: "test", ChatID: "group"},
	}
}

// approved asks the guard about writing a file.
func approved(t *testing.T, g *Guard, c tool.Call, path string) bool {
	t.Helper()
	input, err := json.Marshal(map[string]string{"path": path, "content": "x\n"})
	if err != nil {
		t.Fatal(err)
	}
	c.Input = input
	return g.Begin(t.Context(), byName(g.FileTools())["write_file"], c) == nil
}

// The policy about a guest's call knows the guest's files: it sees that one of
// them holds instructions, also by a name that means nothing to the owner's.
func TestGuestPolicyKnowsTheGuestsFiles(t *testing.T) {
	t.Parallel()
	g := open(t, t.TempDir())
	c := visitor()
	ws := g.Place(c.Route, c.Scope).Workspace
	c.Tainted = true
	for name, want := range map[string]bool{"notes.txt": true, "AGENTS.md": false, "skills/x/SKILL.md": false, ".profile": false} {
		if got := approved(t, g, c, filepath.Join(ws, filepath.FromSlash(name))); got != want {
			t.Errorf("%s is written without a question: %v", name, got)
		}
	}
}

// A yes for a conversation holds until the conversation starts over: a stop
// does not end it. That is so for the owner and for guests.
func TestYesEndsWithTheConversation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]tool.Call{
		"owner": {ID: "1", Name: "write_file", SessionKey: "test:owner", TurnID: "t1"},
		"guest": visitor(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := open(t, t.TempDir())
			questions := 0
			c.Tainted = true
			c.Ask = func(context.Context, bus.Question) (string, error) {
				questions++
				return bus.ForSession, nil
			}
			write := func(when string, want int) {
				t.Helper()
				if !approved(t, g, c, "AGENTS.md") || questions != want {
					t.Errorf("%s: %d questions, want %d", when, questions, want)
				}
			}
			write("at first", 1)
			write("again", 1)
			g.Ended(c.SessionKey, true)
			write("after a stop", 1)
			g.Ended("test:another", false)
			write("after another conversation ended", 1)
			g.Ended(c.SessionKey, false)
			write("after the conversation started over", 2)
		})
	}
}

// The same for hosts that commands may reach.
func TestHostsEndWithTheConversation(t *testing.T) {
	t.Parallel()
	g := open(t, t.TempDir())
	questions := 0
	c := tool.Call{ID: "1", Name: "exec", SessionKey: "test:owner", TurnID: "t1", Ask: func(context.Context, bus.Question) (string, error) {
		questions++
		return bus.ForSession, nil
	}}
	reach := func(when string, want int) {
		t.Helper()
		access, _ := g.Reach().Command(t.Context(), c)
		got, err := access.Decide(t.Context(), httpsafe.HostRequest{Host: "a.example.com", Port: 443})
		if err != nil || got != httpsafe.ReachFull || questions != want {
			t.Errorf("%s: %v, %v; %d questions, want %d", when, got, err, questions, want)
		}
	}
	reach("at first", 1)
	reach("again", 1)
	g.Ended(c.SessionKey, true)
	reach("after a stop", 1)
	g.Ended(c.SessionKey, false)
	reach("after the conversation started over", 2)
}

// A tool that a chat does not have is refused there. It neither runs with the
// owner's files nor fails in another way.
func TestToolThatAChatDoesNotHave(t *testing.T) {
	t.Parallel()
	g := open(t, t.TempDir())
	ran := 0
	look := tool.Func(tool.Tool{Name: "look", Description: "Look at files."}, func(context.Context, tool.Call, struct{}) (tool.Result, error) {
		ran++
		return tool.Text("the owner's files"), nil
	})
	g.o.Extra = func(jail *diskio.Jail, _ string) ([]tool.Tool, error) {
		if jail != g.jail {
			return nil, nil
		}
		return []tool.Tool{look}, nil
	}
	list, err := g.ExtraTools()
	if err != nil || len(list) != 1 {
		t.Fatalf("%d tools, %v", len(list), err)
	}
	theirs := visitor()
	theirs.Name, theirs.Input = "look", json.RawMessage(`{}`)
	got, err := list[0].Run(t.Context(), theirs)
	if err != nil || !got.IsError || got.Code != tool.Unsupported || ran != 0 {
		t.Errorf("a guest got %v %q, %v; it ran %d times", got.Code, got.Content.String(), err, ran)
	}
	got, err = list[0].Run(t.Context(), tool.Call{ID: "2", Name: "look", SessionKey: "s", Input: json.RawMessage(`{}`)})
	if err != nil || got.IsError || ran != 1 {
		t.Errorf("the owner got %q, %v; it ran %d times", got.Content.String(), err, ran)
	}
}
