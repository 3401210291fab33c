package socket

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// upload sends a file as a device does.
func (r *rig) upload(device, kind, name, body string, length int64) (status int, got map[string]any) {
	r.t.Helper()
	q := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, "/webui/upload", strings.NewReader(body))
	q.Header.Set("X-Nanobot-Type", kind)
	q.Header.Set("X-Nanobot-Name", name)
	q.ContentLength = length
	w := httptest.NewRecorder()
	r.c.ServeUpload(w, q, device)
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		r.t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Code, got
}

// page connects as a page that is signed in.
func (r *rig) page(device string) *client {
	r.t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.c.ServePage(w, q, device, nil) }))
	r.t.Cleanup(srv.Close)
	was := r.url
	r.url = srv.URL
	c := r.dial("client_id=page")
	r.url = was
	return c
}

func TestUpload(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c, other := r.page("phone"), r.page("laptop")
	chat := c.modern()
	other.modern()
	status, got := r.upload("phone", "text/html", "a%20%E2%80%AEname.html", "<script>1</script>", 18)
	id, _ := got["upload_id"].(string)
	if status != http.StatusOK || id == "" || got["size"] != 18.0 {
		t.Fatalf("%d: %v", status, got)
	}
	send := func(c *client, turn, media string) string {
		c.say(`{"type":"message","chat_id":"` + chat + `","content":"look","turn_id":"` + turn + `","media":[` + media + `]}`)
		for {
			switch m := c.next(); m["event"] {
			case "message_accepted":
				return ""
			case "error":
				return m["reason"].(string)
			}
		}
	}
	item := `{"upload_id":"` + id + `"}`
	if why := send(other, "t1", item); why != "upload_gone" {
		t.Errorf("another device: %q", why)
	}
	if why := send(c, "t2", item+","+item); why != "upload_gone" {
		t.Errorf("twice in one message: %q", why)
	}
	r.mu.Lock()
	r.fail = errors.New("the disk is full")
	r.mu.Unlock()
	if why := send(c, "t3", item); why != "not accepted, try again" {
		t.Errorf("full disk: %q", why)
	}
	r.mu.Lock()
	r.fail = nil
	r.mu.Unlock()
	if why := send(c, "t3", item); why != "" { // the file is still there
		t.Fatalf("refused: %q", why)
	}
	in := r.inbound()
	if len(in.Media) != 1 || filepath.Dir(in.Media[0].Path) != r.c.d.Media.Dir || in.Media[0].MIME != "text/html" {
		t.Fatalf("media %+v", in.Media)
	}
	if data, err := os.ReadFile(in.Media[0].Path); err != nil || string(data) != "<script>1</script>" {
		t.Errorf("%s, %v", data, err)
	}
	if url, kind, _ := r.c.File(in.Media[0].Path); url == "" || strings.Contains(kind, "html") {
		t.Errorf("it is served as %s", kind)
	}
	if why := send(c, "t4", item); why != "upload_gone" {
		t.Errorf("twice: %q", why)
	}
}

func TestUploadIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	for name, c := range map[string]struct {
		kind, body string
		length     int64
		want       int
		code       string
	}{
		"type":             {"application/x-sh", "x", 1, 415, "upload_type"},
		"no picture":       {"image/png", "<svg onload=1>", 14, 415, "upload_type"},
		"announced":        {"text/plain", "x", maxFileBytes + 1, 413, "upload_too_large"},
		"larger than said": {"text/plain", strings.Repeat("x", maxFileBytes+1), -1, 413, "upload_too_large"},
		"empty":            {"text/plain", "", 0, 400, "upload_empty"},
		"empty, not said":  {"text/plain", "", -1, 415, "upload_type"},
	} {
		status, got := r.upload("d", c.kind, "f", c.body, c.length)
		if e, _ := got["error"].(map[string]any); status != c.want || e["code"] != c.code {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(r.c.d.Media.Dir, uploadsName)); len(left) > 0 {
		t.Errorf("refused files are kept: %v", left)
	}
	for range maxUploads {
		if status, got := r.upload("d", "text/plain", "f", "x", 1); status != 200 {
			t.Fatalf("%d %v", status, got)
		}
	}
	if status, _ := r.upload("d", "text/plain", "f", "x", 1); status != http.StatusTooManyRequests {
		t.Errorf("one too many: %d", status)
	}
	if status, _ := r.upload("e", "text/plain", "f", "x", 1); status != 200 {
		t.Errorf("of another device: %d", status)
	}
}

// A page shows turns while they go on, also where other clients want whole answers.
func TestPagesAlwaysStream(t *testing.T) {
	t.Parallel()
	r := start(t, `{"token":"`+testToken+`","streaming":false}`)
	r.page("phone").say("hello")
	if !r.inbound().WantsStream {
		t.Error("the page gets whole answers")
	}
	r.login().say("hello")
	if r.inbound().WantsStream {
		t.Error("another client gets a stream")
	}
}

// A question that the next message answers does not expire.
func TestQuestionWithoutExpiry(t *testing.T) {
	t.Parallel()
	r := start(t, "")
	c := r.page("phone")
	r.send(bus.Outbound{ID: "m", Kind: bus.Message, Route: route(c.chat, "1"), Text: "Tea?", Question: &bus.Question{ID: "q", Options: []string{"Yes"}}})
	q, _ := c.until("message")["question"].(map[string]any)
	if expires, ok := q["expires"]; q["id"] != "q" || ok {
		t.Errorf("question %v expires %v", q, expires)
	}
}
