package auth_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/auth"
)

// house is a Server with a clock, a store and an owner.
type house struct {
	*auth.Server
	t    *testing.T
	dir  string
	mu   sync.Mutex
	now  time.Time
	told []string
	site auth.Site
	peer httpsafe.Peer // who sends the requests
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), site: auth.Site{Session: 30 * 24 * time.Hour, Hosts: []string{"bot.example"}}}
	h.open()
	return h
}

// open starts the server as after a restart.
func (h *house) open() {
	h.Server = auth.New(auth.Options{
		Store: disk.Open(h.dir, slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler),
		Now:    func() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now },
		Site:   func() auth.Site { h.mu.Lock(); defer h.mu.Unlock(); return h.site },
		Peer:   func(*http.Request) httpsafe.Peer { return h.peer },
		Notify: func(_ context.Context, s phrase.Sentence) { h.told = append(h.told, s.String()) },
	})
}

func (h *house) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// browser is one with cookies and an address.
type browser struct {
	h       *house
	address string
	cookie  *http.Cookie
}

func (b *browser) request(method, path, body string) *http.Request {
	r := httptest.NewRequestWithContext(b.h.t.Context(), method, "http://bot.example"+path, strings.NewReader(body))
	r.RemoteAddr = b.address + ":4000"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	return r
}

type reply struct {
	State, Digits, Poll string
	Error               struct{ Code string }
	status              int
	cookie              *http.Cookie
}

func (b *browser) login(body string) (out reply) {
	b.h.t.Helper()
	w := httptest.NewRecorder()
	b.h.Login(w, b.request(http.MethodPost, "/webui/login", body))
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		b.h.t.Fatalf("%s: %v", w.Body, err)
	}
	out.status = w.Code
	for _, c := range w.Result().Cookies() {
		out.cookie, b.cookie = c, c
	}
	return out
}

func (b *browser) in() bool {
	b.h.t.Helper()
	_, ok, err := b.h.Check(httptest.NewRecorder(), b.request(http.MethodGet, "/", ""))
	if err != nil {
		b.h.t.Fatal(err)
	}
	return ok
}

func code(s string) string { return `{"code":"` + s + `"}` }

func TestLink(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := &browser{h: h, address: "192.0.2.1"}
	link := h.Link()
	if r := b.login(code(link)); r.State != "in" || r.status != http.StatusOK {
		t.Fatalf("%+v", r)
	}
	c := b.cookie
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure || c.MaxAge != 30*24*3600 || !strings.HasPrefix(c.Name, "nanobot_") || len(c.Value) != 43 {
		t.Errorf("cookie: %+v", c)
	}
	if !b.in() || len(h.told) != 1 || !strings.Contains(h.told[0], "Firefox on Linux, 192.0.2.1") {
		t.Errorf("in %v, told %q", b.in(), h.told)
	}
	data, err := os.ReadFile(filepath.Join(h.dir, "devices.json"))
	if err != nil || strings.Contains(string(data), c.Value) || strings.Contains(string(data), link) {
		t.Errorf("the file holds a secret or cannot be read: %v", err)
	}
	if info, err := os.Stat(filepath.Join(h.dir, "devices.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	h.open() // a restart keeps devices signed in, and voids links
	if !b.in() {
		t.Error("signed out by a restart")
	}
}

// A link is good once, for five minutes.
func TestLinkIsLimited(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	late := h.Link()
	h.pass(5*time.Minute + time.Second)
	if r := (&browser{h: h, address: "192.0.2.1"}).login(code(late)); r.Error.Code != "code_expired" && r.Error.Code != "wrong_code" || r.cookie != nil {
		t.Errorf("late: %+v", r)
	}

	link := h.Link()
	victim, thief := &browser{h: h, address: "192.0.2.1"}, &browser{h: h, address: "192.0.2.9"}
	victim.login(code(link))
	if r := victim.login(code(link)); r.State != "in" || !victim.in() {
		t.Errorf("the browser itself, again: %+v", r)
	}
	session, _, _ := h.Check(nil, victim.request(http.MethodGet, "/", ""))
	if r := thief.login(code(link)); r.Error.Code != "code_used" || r.cookie != nil {
		t.Errorf("another browser: %+v", r)
	}
	if victim.in() {
		t.Error("a link that was used twice leaves its device signed in")
	}
	select {
	case <-session.Gone:
	default:
		t.Error("the connections of the device do not end")
	}
	if got := h.told[len(h.told)-1]; !strings.Contains(got, "used twice, the second time from 192.0.2.9") {
		t.Errorf("told %q", got)
	}
}

func TestTypedCode(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	typed := h.Code()
	if len(typed) != 8 {
		t.Fatalf("%q", typed)
	}
	b := &browser{h: h, address: "192.0.2.1"}
	if r := b.login(code(strings.ToLower(typed[:4]) + "-" + typed[4:])); r.State != "in" {
		t.Errorf("%+v", r)
	}
	if r := (&browser{h: h, address: "192.0.2.2"}).login(code(typed)); r.Error.Code != "code_used" {
		t.Errorf("twice: %+v", r)
	}
}

// Guessing is slow for one address, and ends the code for all.
func TestGuessing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	typed := h.Code()
	b := &browser{h: h, address: "192.0.2.1"}
	for range 5 {
		if r := b.login(code("AAAAAAAA")); r.Error.Code != "wrong_code" {
			t.Fatalf("%+v", r)
		}
	}
	if r := (&browser{h: h, address: "192.0.2.1"}).login(code(h.Link())); r.State != "in" {
		t.Errorf("guesses of another program hold up a link: %+v", r)
	}
	if r := b.login(code(typed)); r.Error.Code != "slow_down" || r.status != http.StatusTooManyRequests {
		t.Errorf("the sixth in a minute: %+v", r)
	}
	other := &browser{h: h, address: "192.0.2.2"}
	if r := other.login(code(typed)); r.State != "in" {
		t.Errorf("another address: %+v", r)
	}

	typed = h.Code()
	for i := range 30 {
		b := &browser{h: h, address: netip.AddrFrom4([4]byte{10, 0, byte(i), 1}).String()}
		b.login(code("AAAAAAAA"))
	}
	if r := (&browser{h: h, address: "192.0.2.3"}).login(code(typed)); r.Error.Code != "wrong_code" {
		t.Errorf("after 30 wrong codes: %+v", r)
	}
}

// A device without a link is let in by another.
func TestConsent(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	phone := &browser{h: h, address: "192.0.2.5"}
	r := phone.login(`{"device":true}`)
	if r.State != "pending" || len(r.Digits) != 6 || r.Poll == "" || r.cookie != nil {
		t.Fatalf("%+v", r)
	}
	if w := h.Waiting(); len(w) != 1 || w[0].Digits != r.Digits || w[0].Address != "192.0.2.5" {
		t.Errorf("waiting: %+v", w)
	}
	poll := `{"poll":"` + r.Poll + `"}`
	if got := phone.login(poll); got.State != "pending" {
		t.Errorf("before: %+v", got)
	}
	if err := h.Decide("000000x", true); err == nil {
		t.Error("wrong digits allow something")
	}
	if err := h.Decide(r.Digits, true); err != nil {
		t.Fatal(err)
	}
	if err := h.Decide(r.Digits, true); err == nil {
		t.Error("decided twice")
	}
	if got := phone.login(poll); got.State != "in" || !phone.in() {
		t.Errorf("after: %+v", got)
	}
	phone.cookie = nil // its answer was lost
	if got := phone.login(poll); got.State != "in" || !phone.in() {
		t.Errorf("again: %+v", got)
	}
	list, _ := h.Devices(t.Context())
	if len(list) != 1 {
		t.Fatalf("%d devices", len(list))
	}
	if err := h.Revoke(t.Context(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	if got := phone.login(poll); got.State != "denied" || phone.in() {
		t.Errorf("a device that is signed out lets itself in again: %+v", got)
	}

	other := &browser{h: h, address: "192.0.2.6"}
	r = other.login(`{"device":true}`)
	if err := h.Decide(r.Digits, false); err != nil {
		t.Fatal(err)
	}
	if got := other.login(`{"poll":"` + r.Poll + `"}`); got.State != "denied" || got.cookie != nil {
		t.Errorf("denied: %+v", got)
	}
	r = other.login(`{"device":true}`)
	h.pass(10*time.Minute + time.Second)
	if err := h.Decide(r.Digits, true); err == nil {
		t.Error("an old request is allowed")
	}
	if got := other.login(`{"poll":"` + r.Poll + `"}`); got.State != "expired" {
		t.Errorf("expired: %+v", got)
	}
	for i := range 4 {
		if r := other.login(`{"device":true}`); (r.Error.Code == "too_many") != (i == 3) {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var all []*browser
	for range 65 {
		h.pass(time.Second)
		b := &browser{h: h, address: "192.0.2.1"}
		b.login(code(h.Link()))
		all = append(all, b)
	}
	if all[0].in() || !all[1].in() || !all[64].in() {
		t.Error("the device that was used least recently stays, or another goes")
	}
	list, err := h.Devices(t.Context())
	if err != nil || len(list) != 64 {
		t.Fatalf("%d devices, %v", len(list), err)
	}
	if err := h.Revoke(t.Context(), list[0].ID); err != nil || all[64].in() {
		t.Errorf("revoked: %v", err)
	}
	if err := h.Revoke(t.Context(), "nope"); err == nil {
		t.Error("an unknown device is revoked")
	}

	b := all[10] // the session slides
	h.pass(29 * 24 * time.Hour)
	if !b.in() {
		t.Fatal("signed out early")
	}
	h.pass(29 * 24 * time.Hour)
	if !b.in() || all[11].in() {
		t.Error("a session that is used ends, or one that is not goes on")
	}
	w := httptest.NewRecorder()
	h.Logout(w, b.request(http.MethodPost, "/webui/logout", ""))
	if w.Code != http.StatusNoContent || b.in() || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %d", w.Code)
	}
}

// A damaged list is kept aside, and signs no device in.
func TestDamagedDevices(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := &browser{h: h, address: "192.0.2.1"}
	b.login(code(h.Link()))
	if err := os.WriteFile(filepath.Join(h.dir, "devices.json"), []byte(`{"devices":[{"id`), 0o600); err != nil {
		t.Fatal(err)
	}
	h.open()
	if b.in() {
		t.Error("signed in by a damaged list")
	}
	if r := b.login(code(h.Link())); r.State != "in" {
		t.Errorf("%+v", r)
	}
	if left, _ := filepath.Glob(filepath.Join(h.dir, "devices.json*")); len(left) < 2 {
		t.Errorf("the damaged list is gone: %v", left)
	}
}

func TestBadLogins(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := &browser{h: h, address: "192.0.2.1"}
	for _, body := range []string{"", "{}", "[]", `{"code":1}`, `{"code":"` + strings.Repeat("x", 5000) + `"}`, `{"poll":"x"`} {
		if r := b.login(body); r.status < 400 || r.cookie != nil {
			t.Errorf("%.40s: %+v", body, r)
		}
	}
	w := httptest.NewRecorder()
	r := b.request(http.MethodPost, "/webui/login", code(h.Link()))
	r.Header.Set("Content-Type", "text/plain")
	if h.Login(w, r); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a form of another page: %d", w.Code)
	}
	b.cookie = &http.Cookie{Name: "nanobot_00000000", Value: "x"}
	if b.in() {
		t.Error("a made-up cookie")
	}
}
