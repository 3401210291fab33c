package main

import (
	"bufio"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

// TestAnthropicClients: Anthropic's own clients understand the real program, in
// the same way, and the model gets what they sent.
func TestAnthropicClients(t *testing.T) {
	t.Parallel()
	for script, midStream := range map[string]object{
		"client.mjs": anthropicFault("APIError", nil, "api_error"),
		"client.py":  anthropicFault("APIStatusError", 200.0, "api_error"), // it has the status of the stream
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := newServing(t)
			const key = "0123456789abcdef"
			address := s.serveAPI(t, key)
			s.answer(t, `say You are Ada.

think One more
think each time.
say One two three.

call list_dir {"path":"."}
say Let me look.

say There is a folder.

say Hello Bob.

say You are Bob.

say A dot and a plan.

say It is sunny.

say Hello.

error 429 slow down`)
			s.model.Add(llmtest.Answer{Reply: &llmtest.StreamReply{Text: []string{"So far", " so good"}, Fail: "authentication_error"}})

			var got any
			if err := json.Unmarshal(certify.Script(t, "../../test/anthropic", script, address, key), &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(understoodByAnthropic(midStream), got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			s.wasSent(t, []string{
				"Be brief.|My name is Ada.|Hello Ada.|Who am I?", "count", "look", "look|list_dir|SOUL.md", "My name is Bob.", "My name is Bob.|Hello Bob.|Who am I now?",
				"data:image/png;base64,|What is this?|plan.txt", "[called weather with|So?|sunny", "hi", "fail", "fail late",
			})
		})
	}
}

type object = map[string]any

// anthropicFault is what a client says of an error.
func anthropicFault(name string, status any, kind string) object {
	return object{"name": name, "status": status, "type": kind, "request": true}
}

// understoodByAnthropic is what both clients say; an error within a stream has
// another name in each.
func understoodByAnthropic(midStream object) any {
	fault := anthropicFault
	return object{
		"models":  []any{"nanobot", "m"},
		"model":   "nanobot",
		"message": object{"text": "You are Ada.", "role": "assistant", "type": "message", "stop": "end_turn", "usage": true, "request": true},
		"stream": object{
			"blocks": []any{[]any{"thinking", "One moreeach time."}, []any{"text", "One two three."}},
			"same":   true, "pieces": true, "stop": "end_turn", "usage": true,
		},
		"work": object{
			"text": "Let me look.\n\nThere is a folder.",
			"seen": []any{[]any{"list_dir", "start"}, []any{"list_dir", "end"}},
		},
		"kept": "You are Bob.", "deleted": true, "files": "A dot and a plan.", "tools": "It is sunny.", "bearer": "Hello.",
		"errors": object{
			"key":       fault("AuthenticationError", 401.0, "authentication_error"),
			"model":     fault("NotFoundError", 404.0, "not_found_error"),
			"tools":     fault("BadRequestError", 400.0, "invalid_request_error"),
			"picture":   fault("BadRequestError", 400.0, "invalid_request_error"),
			"count":     fault("NotFoundError", 404.0, "not_found_error"),
			"batches":   fault("NotFoundError", 404.0, "not_found_error"),
			"upstream":  fault("RateLimitError", 429.0, "rate_limit_error"),
			"midStream": midStream,
		},
	}
}

// serveAPI starts nanobot serve with a key and returns its address.
func (s serving) serveAPI(t *testing.T, key string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := s.program(ctx, "serve", "--port", "0")
	cmd.Env = append(cmd.Env, "NANOBOT_API__API_KEY="+key)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, all := make(chan string, 1), make(chan string, 1)
	go func() {
		defer close(found)
		listening := regexp.MustCompile(`listening +(http://\S+)/v1`)
		var said strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
		all <- said.String()
	}()
	t.Cleanup(func() {
		cancel()
		if said := <-all; t.Failed() {
			t.Logf("the program said:\n%s", said)
		}
		_ = cmd.Wait() // killed
	})

	address, ok := <-found
	if !ok {
		t.Fatal("the program ended")
	}
	return address
}

// wasSent checks that each request to the model holds some texts in their order.
func (s serving) wasSent(t *testing.T, want []string) {
	t.Helper()
	requests := s.model.Requests()
	if len(requests) != len(want) {
		t.Errorf("the model got %d requests, want %d", len(requests), len(want))
		return
	}
	for i, texts := range want {
		_, messages, _ := strings.Cut(string(requests[i].Body), `"messages":`)
		rest := messages
		for text := range strings.SplitSeq(texts, "|") {
			_, after, found := strings.Cut(rest, text)
			if !found {
				t.Errorf("request %d lacks %q: %s", i, text, messages)
				break
			}
			rest = after
		}
	}
}
