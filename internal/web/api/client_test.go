package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	core "github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// actor plays the model: the first words of the last message say what it does.
func actor(req llm.Request) llmtest.Step {
	last := req.Messages[len(req.Messages)-1]
	said := last.Content.String()
	if last.Role == llm.ToolRole {
		return llmtest.Reply("The tool said " + said + ".")
	}
	for _, b := range last.Content.Blocks {
		if b.Type == "text" {
			said = b.Text
		}
	}
	switch {
	case strings.HasPrefix(said, "recall"):
		for _, m := range req.Messages {
			if _, name, ok := strings.Cut(m.Content.String(), "My name is "); ok {
				name, _, _ = strings.Cut(name, ".")
				return llmtest.Reply("You are " + name + ".")
			}
		}
		return llmtest.Reply("I do not know you.")
	case strings.HasPrefix(said, "stream"):
		return llmtest.Reply("One two three four five six seven.")
	case strings.HasPrefix(said, "tool"):
		return llmtest.Call("probe", `{"text":"x"}`).Saying("Let me see.")
	case strings.HasPrefix(said, "pictures"):
		n := 0
		for _, b := range last.Content.Blocks {
			if b.Type == "image_url" {
				n++
			}
		}
		return llmtest.Reply(fmt.Sprintf("%d pictures", n))
	case strings.HasPrefix(said, "fail late"):
		return llmtest.Step{Text: "So far so good", Err: &llm.Error{Kind: llm.Auth, Provider: "script", Status: 401}}
	case strings.HasPrefix(said, "fail"):
		return llmtest.Fail(&llm.Error{Kind: llm.RateLimited, Provider: "script", Status: 429})
	}
	return llmtest.Reply("Hello.")
}

// realAPI serves the API with a real agent, whose model is played by actor.
func realAPI(t *testing.T) (address string, store *session.Store) {
	t.Helper()
	ws := t.TempDir()
	data := t.TempDir()
	store, err := session.Open(session.Options{DataDir: data, Store: disk.Open(data, nil), Workspace: ws, Fsync: session.FsyncNever})
	if err != nil {
		t.Fatal(err)
	}
	probe := tool.Func(tool.Tool{Name: "probe", Description: "probe", Trusted: true}, func(_ context.Context, _ tool.Call, in struct {
		Text string `json:"text"`
	},
	) (tool.Result, error) {
		return tool.Text("ok " + in.Text), nil
	})
	tools, err := tool.NewSet(probe)
	if err != nil {
		t.Fatal(err)
	}
	model := llmtest.NewScript(t)
	model.Otherwise = actor
	ag, err := core.New(core.Options{Options: turn.Options{
		Workspace: ws, Sessions: store, Tools: turn.Tools{Set: tools},
		Models: turn.Models{Runtime: func(context.Context, string) (turn.Runtime, error) {
			return turn.Runtime{Model: model, Name: "m", Display: "m", MaxTokens: 1000, Window: 100000}, nil
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Options{
		Ask: ag.Ask, Token: httpsafe.NewSecret(token), Media: api.Uploads{Dir: t.TempDir()},
		DeleteSession: func(ctx context.Context, key string) (bool, error) { return true, store.Delete(ctx, key) },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ag.Open(ctx)
	ended := make(chan error, 2)
	go func() { ended <- ag.Run(ctx) }()
	go func() { ended <- a.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return "http://" + l.Addr().String(), store
}

// TestOpenAIClient: the official client understands what a real agent says.
func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	dir := llmtest.NodeFolder(t, "../../../test/openai", "client.mjs")
	address, store := realAPI(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "client.mjs", address+"/v1", token)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	var got any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	const text = "One two three four five six seven."
	type m = map[string]any
	calls := []any{[]any{"probe", "start"}, []any{"probe", "end"}}
	want := m{
		"models": []any{"nanobot"},
		"chat":   m{"text": "You are Ada.", "role": "assistant", "finish": "stop", "object": "chat.completion", "usage": true, "request": true},
		"stream": m{"text": text, "finish": "stop", "pieces": true, "usage": true},
		"tools":  m{"seen": calls, "text": "Let me see.\n\nThe tool said ok x."}, "toolsWhole": calls,
		"kept": "You are Bob.", "deleted": true, "forgotten": "I do not know you.", "picture": "1 pictures",
		"response":       m{"text": text, "status": "completed"},
		"responseStream": m{"text": text, "same": true, "pieces": true, "status": "completed"},
		"errors": m{
			"key":       m{"name": "AuthenticationError", "status": 401.0, "code": "invalid_api_key", "request": true},
			"model":     m{"name": "NotFoundError", "status": 404.0, "code": "model_not_found", "request": true},
			"tools":     m{"name": "BadRequestError", "status": 400.0, "code": "invalid_request", "request": true},
			"upstream":  m{"name": "RateLimitError", "status": 429.0, "code": "rate_limit", "request": true},
			"midStream": m{"name": "APIError", "status": nil, "code": "auth", "request": true},
		},
	}
	if d := cmp.Diff(any(want), got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	infos, err := store.List(t.Context())
	if err != nil || len(infos) != 1 || infos[0].Key != "api:kept" {
		t.Errorf("sessions %+v, %v; want the kept one only", infos, err)
	}
}
