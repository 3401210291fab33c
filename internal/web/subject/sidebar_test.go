package subject_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

func TestSidebar(t *testing.T) {
	t.Parallel()
	d := newSubject(t, subject.Sidebar{Store: disk.Open(t.TempDir(), nil)}).Desk
	if code, body := get(t, d, "/api/webui/sidebar-state"); code != 200 || body != "{}" {
		t.Fatalf("first = %d %s", code, body)
	}
	for _, bad := range []string{``, `{"state":[]}`, `{"state":null}`, `{"stat":{}}`, `[]`, `{"state":{"a":"` + strings.Repeat("x", 300<<10) + `"}}`} {
		if msg, status := do(t, d, "sidebar.update", bad); status != 400 && status != 413 {
			t.Errorf("%.40s: %d %s", bad, status, msg)
		}
	}
	for bad, want := range map[string]string{
		`[]`: "it cannot be of type array", `{"stat":{}}`: `unknown field "stat"`, `{"state":`: "unexpected EOF",
	} {
		if msg, _ := do(t, d, "sidebar.update", bad); msg != "the payload does not fit: "+want {
			t.Errorf("%s: %s", bad, msg)
		}
	}
	if out, status := do(t, d, "sidebar.update", `{"state":{"pinned":["websocket:a"]}}`); status != 200 || out != `{"pinned":["websocket:a"]}` {
		t.Fatalf("update = %d %s", status, out)
	}
	if code, body := get(t, d, "/api/webui/sidebar-state"); code != 200 || body != `{"pinned":["websocket:a"]}` {
		t.Errorf("then = %d %s", code, body)
	}
}
