package auth_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// A cookie is good only for who the device was signed in by: a browser sends the cookie
// of an address to every port of it, so it may come into the hands of another user.
func TestWhoMayUseACookie(t *testing.T) {
	t.Parallel()
	peers := map[string]httpsafe.Peer{
		"own":      {Kind: httpsafe.PeerOwn},
		"remote":   {Kind: httpsafe.PeerRemote},
		"user 33":  {Kind: httpsafe.PeerUser, UID: 33},
		"user 34":  {Kind: httpsafe.PeerUser, UID: 34},
		"unproven": {Kind: httpsafe.PeerUnproven},
	}
	for opened, use := range map[string]string{
		"own":      "own",
		"remote":   "own, remote",
		"user 33":  "own, user 33", // a proxy
		"user 34":  "own, user 34",
		"unproven": "own, unproven",
	} {
		t.Run(opened, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.peer = peers[opened]
			b := &browser{h: h, address: "192.0.2.1"}
			if r := b.login(code(h.Code())); r.State != "in" {
				t.Fatalf("%+v", r)
			}
			look := func(when string) {
				for name, p := range peers {
					h.peer = p
					if got, want := b.in(), strings.Contains(use, name); got != want {
						t.Errorf("%s, signed in from %s, sent by %s: in is %v", when, opened, name, got)
					}
				}
			}
			look("first")
			h.pass(2 * time.Hour)
			look("later")
			h.open()
			look("after a restart")
		})
	}
}

// A link is for the gateway's own user on this machine, at whatever address of it.
func TestLinkOfAnotherUser(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		peer httpsafe.Peer
		ok   bool
	}{
		"own":             {httpsafe.Peer{Kind: httpsafe.PeerOwn}, true},
		"another machine": {httpsafe.Peer{Kind: httpsafe.PeerRemote}, true},
		"another user":    {httpsafe.Peer{Kind: httpsafe.PeerUser, UID: 33}, false},
		"nobody's":        {httpsafe.Peer{Kind: httpsafe.PeerUnproven}, false},
	} {
		h := newHouse(t)
		h.peer = c.peer
		b := &browser{h: h, address: "192.0.2.1"}
		r := b.login(code(h.Link()))
		if (r.State == "in") != c.ok || !c.ok && r.Error.Code != "other_user" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Whoever has seen the link and the cookie of a browser of ours is not that browser.
func TestRepeatedLinkOfAnotherUser(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.peer = httpsafe.Peer{Kind: httpsafe.PeerOwn}
	b := &browser{h: h, address: "127.0.0.1"}
	link := h.Link()
	b.login(code(link))
	h.peer = httpsafe.Peer{Kind: httpsafe.PeerUser, UID: 33}
	if r := b.login(code(link)); r.State == "in" {
		t.Errorf("%+v", r)
	}
}

// The owner agrees to the device that asked, not to another that learned its secret.
func TestConsentIsForWhoAsked(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.peer = httpsafe.Peer{Kind: httpsafe.PeerRemote}
	b := &browser{h: h, address: "192.0.2.1"}
	r := b.login(`{"device":true}`)
	if err := h.Decide(r.Digits, true); err != nil {
		t.Fatal(err)
	}
	poll := `{"poll":"` + r.Poll + `"}`
	h.peer = httpsafe.Peer{Kind: httpsafe.PeerUser, UID: 33}
	if got := b.login(poll); got.State != "expired" || got.cookie != nil {
		t.Errorf("another: %+v", got)
	}
	h.peer = httpsafe.Peer{Kind: httpsafe.PeerRemote}
	if got := b.login(poll); got.State != "in" {
		t.Errorf("the device itself: %+v", got)
	}
}

// A trusted proxy on this machine brings browsers from elsewhere.
func TestTrustedProxyIsRemote(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.site.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	h.peer = httpsafe.Peer{Kind: httpsafe.PeerUser, UID: 33}
	b := &browser{h: h, address: "127.0.0.1"}
	if r := b.login(code(h.Link())); r.State != "in" || !b.in() {
		t.Errorf("%+v", r)
	}
}

// Devices that were stored before their openers were: one of a loopback address is of
// the gateway's user, others stay signed in from elsewhere.
func TestOldDevices(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]map[httpsafe.PeerKind]bool{
		"127.0.0.1": {httpsafe.PeerOwn: true},
		"::1":       {httpsafe.PeerOwn: true},
		"192.0.2.1": {httpsafe.PeerOwn: true, httpsafe.PeerRemote: true},
	} {
		h := newHouse(t)
		b := &browser{h: h, address: "192.0.2.1"}
		b.login(code(h.Link()))
		path := filepath.Join(h.dir, "devices.json")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		device, _ := doc["devices"].([]any)[0].(map[string]any)
		delete(device, "opened")
		device["address"] = address
		if data, err = json.Marshal(doc); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		h.open()
		for _, kind := range []httpsafe.PeerKind{httpsafe.PeerOwn, httpsafe.PeerRemote, httpsafe.PeerUser, httpsafe.PeerUnproven} {
			h.peer = httpsafe.Peer{Kind: kind, UID: 33}
			if b.in() != want[kind] {
				t.Errorf("%s, peer %v: in is %v", address, kind, b.in())
			}
		}
	}
}
