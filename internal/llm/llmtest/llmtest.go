// Package llmtest holds what tests of models and of their users need: Script,
// a model that answers from a list and checks every prompt it is given;
// Server, a strict fake of the vendors' HTTP interfaces that replays streams;
// and Run, the conformance suite that every wire driver passes.
package llmtest

import (
	"fmt"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// CheckLegal reports why a vendor would refuse the conversation of a request:
// the first message is the user's, the last one is the user's or a tool
// result, every tool call is answered exactly once before another role speaks,
// no result answers a call that was not made, and neither user nor assistant
// speaks twice in a row.
func CheckLegal(req llm.Request) error {
	if len(req.Messages) == 0 {
		return fmt.Errorf("no messages")
	}

	open := map[string]bool{} // calls of the last assistant message; true = unanswered
	for i, m := range req.Messages {
		prev := llm.Role("")
		if i > 0 {
			prev = req.Messages[i-1].Role
		}

		if m.Role != llm.ToolRole {
			if id := unanswered(open); id != "" {
				return fmt.Errorf("message %d (%s): call %q has no result yet", i, m.Role, id)
			}
			clear(open)
		}

		var err error
		switch m.Role {
		case llm.User:
			err = checkUser(m, prev)
		case llm.Assistant:
			err = checkAssistant(m, prev, open)
		case llm.ToolRole:
			err = checkResult(m, open)
		default:
			err = fmt.Errorf("role %q does not belong into Messages", m.Role)
		}

		if err != nil {
			return fmt.Errorf("message %d (%s): %w", i, m.Role, err)
		}
	}

	if id := unanswered(open); id != "" {
		return fmt.Errorf("call %q has no result", id)
	}
	if last := req.Messages[len(req.Messages)-1].Role; last != llm.User && last != llm.ToolRole {
		return fmt.Errorf("the last message is from %s", last)
	}
	return checkTools(req)
}

func checkUser(m llm.Message, prev llm.Role) error {
	switch {
	case prev == llm.User:
		return fmt.Errorf("the user speaks twice in a row")
	case m.Content.Blank():
		return fmt.Errorf("empty content")
	case len(m.ToolCalls) > 0 || m.ToolCallID != "":
		return fmt.Errorf("a user message with tool fields")
	}
	return nil
}

func checkAssistant(m llm.Message, prev llm.Role, open map[string]bool) error {
	switch {
	case prev == "":
		return fmt.Errorf("the conversation starts with the assistant")
	case prev == llm.Assistant:
		return fmt.Errorf("the assistant speaks twice in a row")
	case len(m.ToolCalls) == 0 && m.Content.Blank():
		return fmt.Errorf("neither text nor calls")
	}

	for _, c := range m.ToolCalls {
		if c.ID == "" || c.Name == "" {
			return fmt.Errorf("a call without id or name: %+v", c)
		}
		if open[c.ID] {
			return fmt.Errorf("two calls with id %q", c.ID)
		}
		open[c.ID] = true
	}

	return nil
}

func checkResult(m llm.Message, open map[string]bool) error {
	waiting, known := open[m.ToolCallID]
	switch {
	case !known:
		return fmt.Errorf("result for %q, which was not called just before", m.ToolCallID)
	case !waiting:
		return fmt.Errorf("second result for %q", m.ToolCallID)
	}
	open[m.ToolCallID] = false
	return nil
}

func unanswered(open map[string]bool) string {
	for id, waiting := range open {
		if waiting {
			return id
		}
	}
	return ""
}

func checkTools(req llm.Request) error {
	seen := map[string]bool{}
	for _, t := range req.Tools {
		if t.Name == "" || seen[t.Name] {
			return fmt.Errorf("tool name %q is empty or used twice", t.Name)
		}
		seen[t.Name] = true
	}

	switch req.ToolChoice {
	case "", "auto", "none", "required":
		return nil
	}

	if !seen[req.ToolChoice] {
		return fmt.Errorf("tool choice %q is not a tool of the request", req.ToolChoice)
	}
	return nil
}
