package weixin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
)

// A message that cannot be read does not take the others with it, and what is
// wrong is logged once for each cause.
func TestStrangeMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	good := func(id int, text string) string {
		return fmt.Sprintf(`{"message_id":%d,"from_user_id":%q,"message_type":1,"item_list":[{"type":1,"text_item":{"text":%q}}]}`, id, ann, text)
	}
	for i := range 3 {
		r.fake.Raw([]byte(`{"ret":0,"msgs":[7,null,"x",[],{},{"message_id":{}},{"from_user_id":5},{"from_user_id":"` + ann + `","item_list":"x"},` +
			good(100+i, "after rubbish") + `],"get_updates_buf":"","longpolling_timeout_ms":"soon"}`))
	}
	r.fake.Raw([]byte(`{"ret":0,"msgs":[` + good(200, strings.Repeat("x", 1<<20)) + `]}`))
	r.fake.Raw([]byte(`{"ret":0,"msgs":[{"from_user_id":"` + ann + `","create_time_ms":17,"item_list":[{"type":1,"text_item":null},{"type":2},{"type":3,"voice_item":{}},{"type":1,"text_item":{"text":"holes"},"ref_msg":{}}]}]}`))
	r.fake.Raw([]byte(`{"ret":0,"msgs":[{"message_id":300,"from_user_id":"` + ann + `","item_list":[{"type":42,"new_item":{}}]}]}`))
	got := r.receive(6)
	if q := got[5].Quoted; len(q) != 1 || q[0].Text != "[item of type 42: cannot be shown]" {
		t.Errorf("an unknown item: %+v", got[5])
	}
	if got[3].Text[0] != 'x' || len(got[3].Text) != 1<<20 || got[4].Text != "[image]\n[voice]\nholes" || got[4].ID != "weixin:"+ann+"_17" {
		t.Errorf("%q", got[4].Text)
	}
	if n := strings.Count(r.Log.String(), "cannot be read"); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, r.Log)
	}
}

// Answers that are no JSON, errors of the server and lost lines are tried again,
// with one line in the log for each cause.
func TestPollFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	r.fake.Fail(weixintest.Failure{Path: "getupdates", Status: 500, Times: 4})
	r.fake.Fail(weixintest.Failure{Path: "getupdates", Body: "<html>", Times: 4})
	r.fake.Fail(weixintest.Failure{Path: "getupdates", Ret: -1, Times: 4})
	r.fake.Fail(weixintest.Failure{Path: "getupdates", Code: -7, Times: 4})
	r.fake.Fail(weixintest.Failure{Path: "getupdates", Cut: true, Times: 4})
	r.fake.Drop()
	r.fake.Say(ann, "hi")
	r.receive(1)
	if n := strings.Count(r.Log.String(), "cannot be received"); n < 4 || n > 9 {
		t.Errorf("%d lines in the log:\n%s", n, r.Log)
	}
	s := r.States()
	if strings.Contains(s[len(s)-1], ":") && strings.Contains(s[len(s)-1], "getupdates") {
		t.Errorf("the last state is %q", s[len(s)-1])
	}
}

// Files with a wrong key, a wrong content or from elsewhere are not handed over.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	var touched atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { touched.Add(1) }))
	t.Cleanup(elsewhere.Close)
	r := newRig(t, object{"maxMediaBytes": 1000})
	r.deps.Media.Max = 1000
	r.remake(section(t, r.fake, nil))
	defer r.begin()()
	file := func(media object) object {
		return with(itemFile, "file_item", object{"media": media, "file_name": "../../x\n.txt"})
	}
	other := r.fake.Store([]byte("secret"), "raw")
	other["aes_key"] = "AAECAwQFBgcICQoLDA0ODg=="
	short := r.fake.Store([]byte("secret"), "raw")
	short["aes_key"] = "AAEC"
	plain := r.fake.Store([]byte("not encrypted"), "")
	plain["aes_key"] = "AAECAwQFBgcICQoLDA0ODw=="
	for name, media := range map[string]object{
		"another key":   other,
		"short key":     short,
		"not encrypted": plain,
		"elsewhere":     {"full_url": elsewhere.URL + "/x", "aes_key": "AAECAwQFBgcICQoLDA0ODw=="},
		"too large":     r.fake.Store(make([]byte, 2000), "raw"),
	} {
		n := len(r.Inbound())
		r.fake.Post(from(ann, weixintest.Text("take this"), file(media)))
		got := r.receive(n + 1)[n]
		if len(got.Media) != 0 || got.Text != "take this" || len(got.Quoted) != 1 || strings.Contains(got.Quoted[0].Text, "\n") {
			t.Errorf("%s: %q with %v", name, shown(got), got.Media)
		}
	}
	if touched.Load() != 0 {
		t.Error("a file was asked for at a foreign address")
	}
}

// A file is tried again, at the other address as well.
func TestFileAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	media := r.fake.Store([]byte("content"), "raw")
	media["full_url"] = r.fake.CDN() + "/elsewhere"
	r.fake.Fail(weixintest.Failure{Path: "cdn/elsewhere", Status: 503, Times: 2})
	r.fake.Fail(weixintest.Failure{Path: "cdn/download", Status: 502})
	r.fake.Post(from(ann, with(itemFile, "file_item", object{"media": media})))
	if got := r.receive(1)[0]; flat(t, got) != "\n> files: [file: content]" {
		t.Errorf("%q", flat(t, got))
	}
}

// A service that takes a connection and says nothing does not hold up the end.
func TestSilentService(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	taken := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken <- c
		}
	}()
	r := newRig(t, object{"baseUrl": "http://" + l.Addr().String()})
	stop := r.Start(r.Run)
	c := <-taken
	defer c.Close()
	start := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// Two polls of one account would take each other's messages away.
func TestRunTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	defer r.begin()()
	if err := r.Run(t.Context(), r.Submit); err == nil {
		t.Error("the channel runs twice")
	}
	r.deps.Claim = func(string) error { return errors.New("another section uses it") }
	r.remake(section(t, r.fake, nil))
	if err := r.Run(t.Context(), r.Submit); err == nil || !strings.Contains(err.Error(), "another section") {
		t.Error(err)
	}
}

// Nothing that the service or a person says may break the reader.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"message_id":18446744073709551615,"from_user_id":"a","item_list":[{"type":1,"ref_msg":{"svr_id":1,"partial_text":{"start":"a","end":"b","startindex":9}}}]}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		var m message
		if json.Unmarshal(data, &m) != nil {
			return
		}
		_, _, _ = m.id(), m.at(), m.words()
		for _, it := range m.Items {
			if it.Ref != nil && it.Ref.Partial != nil {
				_ = it.Ref.Partial.of("some text with some words")
			}
		}
	})
}

// Our clock may be wrong: messages are not late because of it.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		r := newRig(t, nil)
		r.Ahead = ahead
		raw := section(t, r.fake, object{"catchUp": false})
		r.deps.Gate = r.Gate("weixin", raw, nil)
		r.remake(raw)
		end := r.begin()
		r.fake.Say(ann, "hi")
		r.receive(1)
		end()
	}
}
