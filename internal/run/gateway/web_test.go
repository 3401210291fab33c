package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// look reads a path of the API of a gateway that runs.
func (o office) look(path string, into any) {
	o.t.Helper()
	w := httptest.NewRecorder()
	gateway.WebAPI(o.g).ServeHTTP(w, httptest.NewRequestWithContext(o.t.Context(), http.MethodGet, "/api/"+path, http.NoBody))
	if w.Code != http.StatusOK {
		o.t.Fatalf("%s = %d %s", path, w.Code, w.Body)
	}
	o.must(json.Unmarshal(w.Body.Bytes(), into))
}

// The API for web clients is about the gateway's own conversations, jobs, skills
// and files.
func TestWebAPI(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t)
	model.Otherwise = func(llm.Request) llmtest.Step { return llmtest.Reply("Hello, Ann.") }
	o := newOffice(t, model)
	o.must(o.party.write(t, "ann", "1", "hi there"))
	o.party.hear(t, "Hello, Ann.")
	var list struct {
		Sessions []struct {
			Key, Preview string
			Running      bool
		}
	}
	o.look("sessions", &list)
	if len(list.Sessions) != 1 || list.Sessions[0].Preview != "hi there" {
		t.Fatalf("sessions = %+v", list)
	}
	key := list.Sessions[0].Key
	var thread struct {
		Messages []struct{ Role, Content string }
	}
	o.look("sessions/"+key+"/webui-thread", &thread)
	if len(thread.Messages) != 2 || thread.Messages[1].Content != "Hello, Ann." {
		t.Errorf("thread = %+v", thread)
	}
	var context struct {
		Used  int
		Parts []struct{ Name string }
	}
	o.look("sessions/"+key+"/context", &context)
	if context.Used == 0 || len(context.Parts) < 4 {
		t.Errorf("context = %+v", context)
	}
	var commands struct{ Commands []struct{ Name string } }
	o.look("commands", &commands)
	var names []string
	for _, c := range commands.Commands {
		names = append(names, c.Name)
	}
	if all := strings.Join(names, " "); !strings.Contains(all, "stop") || !strings.Contains(all, "pairing") {
		t.Errorf("commands = %s", all)
	}
	var some map[string]any
	for _, path := range []string{"workspaces", "webui/automations", "webui/skills", "webui/sidebar-state", "settings"} {
		o.look(path, &some)
	}
	o.must(os.WriteFile(filepath.Join(o.g.Workspace(), "a.txt"), []byte("key: sk-of-openai-0123456789"), 0o600))
	var file struct{ Content string }
	o.look("sessions/"+key+"/file-preview?path=a.txt", &file)
	if strings.Contains(file.Content, "sk-of-openai") || !strings.HasPrefix(file.Content, "key: ") {
		t.Errorf("content = %q", file.Content)
	}
	for list.Sessions[0].Running { // the answer may be out before its turn is over
		o.look("sessions", &list)
	}
	if _, _, err := gateway.WebAPI(o.g).Do(t.Context(), "session.delete", json.RawMessage(`{"key":"`+key+`"}`)); err != nil {
		t.Fatal(err)
	}
	list.Sessions = nil
	o.look("sessions", &list)
	if len(list.Sessions) != 0 {
		t.Errorf("after deleting: %+v", list)
	}
}
