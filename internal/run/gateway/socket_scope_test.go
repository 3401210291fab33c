package gateway_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// A client chooses the folder of its chat in the middle of a turn, the next
// turn works there, also after a restart, and so do the commands it types.
func TestSocketScope(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	write := llmtest.Call("write_file", map[string]any{"path": "made.txt", "content": "made\n"})
	h := newHost(t, llmtest.NewScript(t,
		llmtest.Func(func(llm.Request) llmtest.Step { close(began); <-goOn; return write }), llmtest.Reply("one"),
		write, llmtest.Reply("two"), write, llmtest.Reply("three")))
	h.configure(socketConfig)
	h.start()
	ws := h.g.Workspace()
	h.must(os.Mkdir(filepath.Join(ws, "yard"), 0o700))
	made := func() string {
		var found []string
		for _, name := range []string{"made.txt", "yard/made.txt"} {
			if os.Remove(filepath.Join(ws, name)) == nil {
				found = append(found, name)
			}
		}
		return strings.Join(found, " ")
	}
	server := httptest.NewServer(h.g.Handler())
	defer server.Close()
	awaitSocket(t, server.URL)
	s := connect(t, server.URL)
	s.say(`{"type":"message","chat_id":"a","content":"go"}`)
	<-began
	s.say(`{"type":"set_workspace_scope","chat_id":"a","workspace_scope":{"project_path":"nothing"}}`)
	if m := s.until("error"); m["detail"] != "workspace_scope_rejected" || !strings.Contains(fmt.Sprint(m["reason"]), "there is no folder nothing") {
		t.Errorf("a refusal: %v", m)
	}
	s.say(`{"type":"set_workspace_scope","chat_id":"a","workspace_scope":{"project_path":"yard","access_mode":"full"}}`)
	if m := s.until("session_updated"); !strings.Contains(fmt.Sprint(m["workspace_scope"]), "yard") {
		t.Errorf("told: %v", m)
	}
	close(goOn)
	s.until("turn_end")
	if got := made(); got != "made.txt" {
		t.Errorf("the turn that ran wrote %q", got)
	}
	s.say(`{"type":"message","chat_id":"a","content":"again"}`)
	s.until("turn_end")
	if got := made(); got != "yard/made.txt" {
		t.Errorf("the next turn wrote %q", got)
	}
	_ = s.conn.CloseNow()
	h.must(h.end())

	h.start()
	again := httptest.NewServer(h.g.Handler())
	defer again.Close()
	awaitSocket(t, again.URL)
	s = connect(t, again.URL)
	s.say(`{"type":"message","chat_id":"a","content":"again"}`)
	s.until("turn_end")
	if got := made(); got != "yard/made.txt" {
		t.Errorf("after a restart %q was written", got)
	}
	if runtime.GOOS != "windows" {
		s.say(`{"type":"message","chat_id":"a","content":"pwd","user_shell":true}`)
		printed := ""
		for printed == "" { // that it runs is told before
			printed, _ = s.until("message")["text"].(string)
		}
		if !strings.Contains(printed, filepath.Join(filepath.Base(ws), "yard")) {
			t.Errorf("the command printed %q", printed)
		}
	}
	_ = s.conn.CloseNow()
	h.must(h.end())
}
