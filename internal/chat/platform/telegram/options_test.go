package telegram

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		section map[string]any
		want    string // in the error, "" if none
	}{
		"smallest":       {nil, ""},
		"python's":       {map[string]any{"connectionPoolSize": 32, "poolTimeout": 5.0, "streamEditInterval": 0.6, "replyToMessage": true, "proxy": nil, "groupPolicy": "mention"}, ""},
		"allowlist":      {map[string]any{"groupPolicy": "allowlist", "groupAllowFrom": []string{"-1"}}, ""},
		"webhook":        {hooked(nil), ""},
		"no token":       {map[string]any{"token": ""}, "@BotFather"},
		"odd token":      {map[string]any{"token": "SECRETSECRETSECRETSECRET"}, "does not look like"},
		"unknown key":    {map[string]any{"reactEmojy": "x"}, "reactEmoji"},
		"fast edits":     {map[string]any{"streamEditInterval": 0.05}, "streamEditInterval"},
		"mode":           {map[string]any{"mode": "push"}, "neither polling nor webhook"},
		"api base":       {map[string]any{"apiBase": "ftp://x"}, "apiBase"},
		"http webhook":   {hooked(map[string]any{"webhookUrl": "http://x"}), "webhookUrl"},
		"short secret":   {hooked(map[string]any{"webhookSecretToken": "s3cret"}), ""},
		"no secret":      {hooked(map[string]any{"webhookSecretToken": ""}), "webhookSecretToken"},
		"long secret":    {hooked(map[string]any{"webhookSecretToken": strings.Repeat("a", 257)}), "webhookSecretToken"},
		"webhook secret": {hooked(map[string]any{"webhookSecretToken": "a b"}), "webhookSecretToken"},
		"webhook path":   {hooked(map[string]any{"webhookPath": "x"}), "webhookPath"},
		"webhook port":   {hooked(map[string]any{"webhookListenPort": 65536}), "webhookListenPort"},
		"webhook many":   {hooked(map[string]any{"webhookMaxConnections": 101}), "webhookMaxConnections"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := chat.Read(section(c.section), defaults())
			switch {
			case c.want == "" && err != nil:
				t.Errorf("decode: %v", err)
			case c.want != "" && (err == nil || !chat.IsFatal(err) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("decode: %v, want it fatal and about %q", err, c.want)
			case err != nil && strings.Contains(err.Error(), "SECRET"):
				t.Errorf("the token is in %v", err)
			}
		})
	}
}

// Every setting stands in the manual.
func TestOptionsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/how-to/channels/telegram.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[options]().Fields() {
		if key := f.Tag.Get("json"); key != "" && !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("docs/how-to/channels/telegram.md does not tell of %s", key)
		}
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		section        string
		private, group time.Duration
		buttons        bool
	}{
		{`{}`, time.Second, 3 * time.Second, false},
		{`{"streamEditInterval": 0.6, "inlineKeyboards": true}`, 600 * time.Millisecond, 3 * time.Second, true},
		{`{"streamEditInterval": 5}`, 5 * time.Second, 5 * time.Second, false},
		{`{"streaming": false}`, 0, 0, false},
	} {
		var change map[string]any
		if err := json.Unmarshal([]byte(c.section), &change); err != nil {
			t.Fatal(err)
		}
		o, err := chat.Read(section(change), defaults())
		if err != nil {
			t.Fatal(err)
		}
		got := o.caps()
		if got.EditEvery != c.private || got.GroupEditEvery != c.group || got.Buttons != c.buttons || got.Unit != markdown.UTF16 || got.MaxChars > maxText {
			t.Errorf("%s: %+v", c.section, got)
		}
	}
}

// The channel's own listener serves the webhook and nothing else.
func TestWebhookListener(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, telegramtest.Offline(), hooked(map[string]any{"webhookListenPort": addr.Port}))
	if r.Routes() != nil {
		t.Error("routes for the gateway although there is a listener")
	}
	stop := r.Start(r.Run)
	r.Await("ready", func() bool { return len(r.States()) > 0 })
	body := `{"update_id":1,"message":{"message_id":1,"text":"hi","chat":{"id":42,"type":"private"},"from":{"id":42,"first_name":"Ann"}}}`
	client := &http.Client{}
	defer client.CloseIdleConnections()
	for path, want := range map[string]int{"/telegram": 200, "/other": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr.String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(secretField, "s3cret-0123456789")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, res.StatusCode, want)
		}
	}
	if got := r.texts(); len(got) != 1 || got[0] != "hi" {
		t.Errorf("messages %q", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
