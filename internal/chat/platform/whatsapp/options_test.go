package whatsapp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
)

// Sections of Python nanobot work as they are.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ section, transport, url string }{
		"0.1.5": {
			`{"enabled": true, "bridgeUrl": "ws://localhost:3001", "bridgeToken": "", "allowFrom": ["4917600000042"], "groupPolicy": "open"}`,
			bridge, "ws://127.0.0.1:3001",
		},
		"0.1.5, another bridge": {`{"enabled": true, "bridgeUrl": "wss://bridge.example/ws", "bridgeToken": "t"}`, bridge, "wss://bridge.example/ws"},
		"head": {
			`{"enabled": true, "allowFrom": ["*"], "groupPolicy": "mention", "databasePath": "~/wa.db", "lidMappings": {"123": "49176"}, "proxy": ""}`,
			native, "",
		},
		"nothing": {`{}`, native, ""},
		"ours":    {`{"transport": "native", "bridgeUrl": "ws://localhost:3001"}`, native, "ws://localhost:3001"},
	} {
		o, err := chat.Read(json.RawMessage(c.section), defaults())
		if err != nil || o.Transport != c.transport || o.BridgeURL != c.url {
			t.Errorf("%s: %v, %+v", name, err, o)
		}
	}
	if o := defaults(); o.GroupPolicy != access.Open {
		t.Errorf("groupPolicy %q", o.GroupPolicy)
	}
}

func TestWrongSections(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		`{"transport": "http"}`:                 "transport",
		`{"bridgeUrl": "localhost:3001"}`:       "bridgeUrl",
		`{"bridgeUrl": "http://localhost"}`:     "bridgeUrl",
		`{"bridgeUrl": "ws://bridge.example/"}`: "needs wss",
		`{"groupPolicy": "closed"}`:             "groupPolicy",
		`{"bridgeUrll": "ws://localhost:3001"}`: `did you mean "bridgeUrl"?`,
	} {
		if _, err := chat.Read(json.RawMessage(section), defaults()); err == nil || !strings.Contains(err.Error(), want) || !chat.IsFatal(err) {
			t.Errorf("%s: %v, want %q", section, err, want)
		}
	}
}

// The token of the bridge is the one that Python nanobot made, or a new one
// that stays.
func TestBridgeToken(t *testing.T) {
	t.Parallel()
	d := chattest.NewRig(t).Deps("whatsapp")
	b, err := newBot(d, json.RawMessage(`{"bridgeUrl": "ws://localhost:3001"}`))
	if err != nil {
		t.Fatal(err)
	}
	first, err := b.endpoint(t.Context())
	if err != nil || len(first.token.Reveal()) < 40 {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := b.endpoint(t.Context())
	if err != nil || again.token != first.token {
		t.Errorf("another token: %v", err)
	}
	dir, _ := d.Dir()
	path := filepath.Join(dir, "bridge-token")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte("made-by-python\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err = b.endpoint(t.Context()); err != nil || again.token.Reveal() != "made-by-python" {
		t.Errorf("the token that was there is not used: %v", err)
	}
}
