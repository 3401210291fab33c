package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// openLogs are the conversations below a folder that this process has open.
func openLogs(t *testing.T, dir string) (out []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		name, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if err == nil && strings.HasPrefix(name, dir) && strings.HasSuffix(name, ".jsonl") && strings.Contains(name, "/sessions/") {
			out = append(out, name)
		}
	}
	return out
}

// A gateway at rest lets go of conversations, and goes on with them as if it
// had not.
func TestUnload(t *testing.T) {
	t.Parallel()
	model := llmtest.NewScript(t, llmtest.Reply("first"), llmtest.Reply("second"))
	h := running(t, model)
	h.must(h.party.write(t, "ann", "1", "hello"))
	h.party.hear(t, "first")
	if len(openLogs(t, h.dir)) == 0 {
		t.Fatal("a conversation in use is not open: the test sees nothing")
	}
	before := model.Last()
	// A moment after its last turn a conversation still counts as in use.
	for end := time.Now().Add(10 * time.Minute); ; {
		h.g.DropCaches()
		if len(openLogs(t, h.dir)) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still open: %v", openLogs(t, h.dir))
		}
		<-time.After(5 * time.Millisecond)
	}
	h.must(h.party.write(t, "ann", "2", "and?"))
	h.party.hear(t, "second")
	after := model.Last()
	if after.System != before.System || len(after.Messages) != len(before.Messages)+2 || after.Messages[0].Content.String() != before.Messages[0].Content.String() {
		t.Errorf("the second request does not go on with the first:\n%+v\n%+v", before.Messages, after.Messages)
	}
	h.must(h.end())
}
