// Package weixin certifies our fake of iLink, the service behind Weixin, by
// Tencent's own plug-in.
package weixin

import (
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
	"github.com/nanobot-go/nanobot/test/channels/certify"
)

const ann = "o9cq-ann@im.wechat"

type object = map[string]any

// talk leaves one of each thing that a bot receives for the next poll.
func talk(fake *weixintest.Server) {
	fake.Post(object{"from_user_id": ann, "message_id": json.Number("18446744073709551615"), "item_list": []any{weixintest.Text("hi")}})
	image := fake.Store([]byte("image"), "raw")
	delete(image, "aes_key")
	fake.Post(object{"from_user_id": ann, "item_list": []any{object{"type": 2, "image_item": object{"media": image, "aeskey": hex.EncodeToString(weixintest.Key())}}}})
	fake.Post(object{"from_user_id": ann, "item_list": []any{object{"type": 4, "file_item": object{"media": fake.Store([]byte("file"), "hex"), "file_name": "in.txt", "len": "4"}}}})
	fake.Post(object{"from_user_id": ann, "item_list": []any{object{"type": 5, "video_item": object{"media": fake.Store([]byte("video"), "raw")}}}})
}

func understood(t *testing.T, out []byte) (got object) {
	t.Helper()
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return got
}

// sent are what the library wrote, in short.
func sent(fake *weixintest.Server) (out []string) {
	for _, m := range fake.Messages() {
		s := m.Text
		switch {
		case m.File != nil:
			s = m.File.Kind + " " + m.File.Name + ": " + string(m.File.Data)
		case s == "":
			s = "item of " + m.RunID
		}
		out = append(out, s)
	}
	return out
}

func TestPlugin(t *testing.T) {
	t.Setenv("npm_config_legacy_peer_deps", "true") // its host is large and not needed
	fake := weixintest.New()
	t.Cleanup(fake.Close)
	fake.Script(weixintest.State{Status: "wait"}, weixintest.State{Status: "scaned"}, weixintest.State{Status: "confirmed"})
	talk(fake)
	got := understood(t, certify.Script(t, ".", "client.mjs", fake.URL()))

	from := func(id, what, text string) object { return object{"id": id, "from": ann, what: text} }
	want := object{
		"code":  "https://liteapp.weixin.qq.com/q/qr-1",
		"login": object{"connected": true, "bot": "b07000000001@im.bot", "user": weixintest.Owner, "home": true},
		"start": 0.0, "stop": 0.0, "sent": "string", "ticket": "ticket-" + ann, "again": 0.0,
		"got": []any{
			from("18446744073709551615", "text", "hi"), from("9223372036854775850", "file", ":image"),
			from("9223372036854775851", "file", "in.txt:file"), from("9223372036854775852", "file", ":video"),
		},
		"errors": []any{"sendMessage ret=-2 errmsg=prep", "sendMessage ret=-3 errmsg=to_u", "sendMessage ret=-3 errmsg=text", -14.0, "sendMessage ret=-2 errmsg=unkn"},
		"quotes": []any{"bcd", "bcd", "bcd", nil},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the plug-in understood (-want +got):\n%s", d)
	}
	wrote := []string{"hello", "image : an image of 16by", "video : a video", "with words", "file a.txt: a file", "item of run", "n0", "n1", "n2", "n3"}
	if d := cmp.Diff(wrote, sent(fake)); d != "" {
		t.Errorf("the plug-in sent (-want +got):\n%s", d)
	}
	if n := len(fake.Calls("sendtyping")); n != 2 {
		t.Errorf("%d signals of typing", n)
	}
}
