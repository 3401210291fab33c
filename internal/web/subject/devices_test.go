package subject_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/auth"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

func TestDevices(t *testing.T) {
	t.Parallel()
	public, changed := "", 0
	a := auth.New(auth.Options{
		Store: disk.Open(t.TempDir(), nil), Log: slog.New(slog.DiscardHandler), Now: noon,
		Site: func() auth.Site { return auth.Site{Session: time.Hour} }, Changed: func() { changed++ },
	})
	devices := subject.Devices{Auth: a, Public: func() string { return public }}
	d := newSubject(t, devices).Desk
	login := func(body string) (out map[string]any) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webui/login", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Login(w, r)
		must(t, json.Unmarshal(w.Body.Bytes(), &out))
		return out
	}
	for _, c := range []struct{ action, state string }{{"device.deny", "denied"}, {"device.approve", "in"}} {
		asked := login(`{"device":true}`)
		digits, _ := asked["digits"].(string)
		if code, body := get(t, d, "/api/devices"); code != 200 || !strings.Contains(body, digits) {
			t.Errorf("devices = %d %s", code, body)
		}
		if _, status := do(t, d, c.action, `{"digits":"`+digits+`"}`); status != 200 {
			t.Errorf("%s = %d", c.action, status)
		}
		if _, status := do(t, d, "device.approve", `{"digits":"`+digits+`"}`); status != 404 {
			t.Errorf("a second answer = %d", status)
		}
		if got := login(`{"poll":"` + asked["poll"].(string) + `"}`); got["state"] != c.state {
			t.Errorf("%s: %v", c.action, got)
		}
	}
	var list struct{ Devices []auth.Device }
	_, body := get(t, d, "/api/devices")
	must(t, json.Unmarshal([]byte(body), &list))
	if len(list.Devices) != 1 || strings.Contains(body, "hash") {
		t.Fatalf("devices: %s", body)
	}
	if _, status := do(t, d, "device.revoke", `{"id":"`+list.Devices[0].ID+`"}`); status != 200 {
		t.Errorf("revoke = %d", status)
	}
	if _, status := do(t, d, "device.revoke", `{"id":"`+list.Devices[0].ID+`"}`); status != 404 {
		t.Errorf("revoke again = %d", status)
	}
	if changed != 6 { // two requests, two answers, one sign-in, one sign-out
		t.Errorf("%d changes were told", changed)
	}

	for base, want := range map[string]int{
		"http://127.0.0.1:1/": 409, "http://localhost/": 409, "http://[::1]/": 409, "javascript:alert(1)": 400, "": 400, "http://a:b@c/": 400, "http://192.168.1.5:18790/a/": 200,
	} {
		if msg, status := do(t, d, "device.link", `{"base":"`+base+`"}`); status != want {
			t.Errorf("link for %s = %d %s", base, status, msg)
		}
	}
	public = "https://bot.example/agent/"
	out, _ := do(t, d, "device.link", `{"base":"http://127.0.0.1/"}`)
	var link struct{ Link, Image string }
	must(t, json.Unmarshal([]byte(out), &link))
	code, ok := strings.CutPrefix(link.Link, "https://bot.example/agent/#/in/")
	if !ok || !strings.HasPrefix(link.Image, "data:image/png;base64,") {
		t.Fatalf("link: %s", out)
	}
	if got := login(`{"code":"` + code + `"}`); got["state"] != "in" {
		t.Errorf("the link: %v", got)
	}
}
