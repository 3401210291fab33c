package feishu

import (
	"bytes"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
)

// The frames that Feishu's own libraries write.
func TestFrames(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]frame{
		"08001000187b20002a0c0a0474797065120470696e6732003a004a00": {Service: 123, Headers: []header{{"type", "ping"}}},
		"08011002187b20012a0d0a047479706512056576656e742a100a0a6d6573736167655f696412026d312a080a0373756d1201312a080a0373657112013032003a0042027b7d4a00": {
			Seq: 1, Log: 2, Service: 123, Method: 1, Payload: []byte("{}"),
			Headers: []header{{"type", "event"}, {"message_id", "m1"}, {"sum", "1"}, {"seq", "0"}},
		},
	} {
		if got := hex.EncodeToString(f.encode()); got != want {
			t.Errorf("encoded\n%s, want\n%s", got, want)
		}
		data, err := hex.DecodeString(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeFrame(data)
		if d := cmp.Diff(f, got); d != "" || err != nil {
			t.Errorf("decoded: %v (-want +got):\n%s", err, d)
		}
		for n := range data { // cut short it is not a frame, or lacks something
			if got, err := decodeFrame(data[:n]); err == nil && cmp.Equal(f, got) && n < len(data)-6 {
				t.Errorf("%d bytes are the whole frame", n)
			}
		}
	}
	// Fields that are not known, of all kinds, are left out.
	more := append((&frame{Seq: 1}).encode(), 0x50, 7, 0x59, 1, 2, 3, 4, 5, 6, 7, 8, 0x65, 1, 2, 3, 4)
	if f, err := decodeFrame(more); err != nil || f.Seq != 1 {
		t.Errorf("with unknown fields: %+v, %v", f, err)
	}
	for _, bad := range [][]byte{nil, {0xff}, {0x08}, {0x2a, 0xff, 0xff, 0xff, 0xff, 0x0f}, {0x08, 1, 0x10, 2}, {0x0b}, bytes.Repeat([]byte{0x80}, 100), {0x00, 1}} {
		if f, err := decodeFrame(bad); err == nil {
			t.Errorf("%x is the frame %+v", bad, f)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add((&frame{Seq: 1, Headers: []header{{"a", "b"}}, Payload: []byte("x")}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decodeFrame(data)
		if err != nil {
			return
		}
		again, err := decodeFrame(got.encode())
		if d := cmp.Diff(got, again); err != nil || d != "" {
			t.Errorf("again: %v\n%s", err, d)
		}
	})
}

// An event that comes in several frames, out of order, is one; what never
// becomes complete is forgotten.
func TestSplitEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.fake.SetSplit(5)
	end := r.begin()
	defer end()
	r.fake.Say(feishutest.Message{Content: feishutest.Text(strings.Repeat("long ", 1000))})
	if got := r.receive(1)[0].Text; got != strings.TrimSpace(strings.Repeat("long ", 1000)) {
		t.Errorf("received %.100q", got)
	}

	now := time.Now()
	l := &line{bot: &bot{}, parts: map[string]*pieces{}}
	l.bot.deps.Now = func() time.Time { return now }
	part := func(id, sum, seq, data string) (string, bool) {
		got, ok := l.join(&frame{Headers: []header{{"message_id", id}, {"sum", sum}, {"seq", seq}}, Payload: []byte(data)})
		return string(got), ok
	}
	steps := []struct {
		id, sum, seq, data, want string
		complete                 bool
		later                    time.Duration
	}{
		{"a", "2", "1", "B", "", false, 0},
		{"a", "2", "1", "again", "", false, 0},
		{"a", "2", "0", "A", "AB", true, 0},
		{"b", "2", "0", "old", "", false, 0},
		{"b", "2", "1", "late", "", false, 6 * time.Second}, // the first part is forgotten
		{"c", "3", "7", "x", "", false, 0},
		{"c", "3", "-1", "x", "", false, 0},
		{"c", "1000000000", "0", "x", "", false, 0},
		{"d", "1", "0", "one", "one", true, 0},
		{"d", "", "", "none", "none", true, 0},
	}
	for _, s := range steps {
		now = now.Add(s.later)
		if got, ok := part(s.id, s.sum, s.seq, s.data); got != s.want || ok != s.complete {
			t.Errorf("%+v: %q, %v", s, got, ok)
		}
	}
	for i := range 1000 {
		part(strings.Repeat("x", i), "2", "0", "x")
	}
	if len(l.parts) > joinMost {
		t.Errorf("%d events wait for frames", len(l.parts))
	}
}

// Broken frames, unknown events and old ones disturb nothing, are acknowledged,
// and leave one line in the log for each cause.
func TestBadEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	defer end()
	for range 3 {
		r.fake.Raw([]byte("no frame"))
		r.fake.Data([]byte("{"))
		r.fake.Emit("im.message.unheard_of_v9", map[string]any{})
		r.fake.Emit("im.message.message_read_v1", map[string]any{})
		r.fake.Emit("im.message.receive_v1", "not an object")
		r.fake.Emit("im.message.receive_v1", map[string]any{"sender": map[string]any{}, "message": map[string]any{"message_id": "om_x"}})
		r.fake.Say(feishutest.Message{At: time.Now().Add(-30 * 24 * time.Hour), Content: feishutest.Text("replayed")})
		r.fake.Say(feishutest.Message{SenderType: "app", Content: feishutest.Text("a bot")})
	}
	r.fake.Say(feishutest.Message{ID: "om_good", Content: feishutest.Text("hi")})
	r.receive(1)
	r.Await("acknowledgements", func() bool { return r.fake.Pending() == 0 })
	if got := r.Inbound(); len(got) != 1 || got[0].Text != "hi" {
		t.Errorf("the agent got %+v", got)
	}
	for cause, n := range map[string]int{"cannot be read": 1, "is not JSON as expected and is ignored": 2, "unknown type": 1, "lacks its id": 1, "older than a day": 1} {
		if got := strings.Count(r.Log.String(), cause); got != n {
			t.Errorf("%q is logged %d times, want %d", cause, got, n)
		}
	}
	if wrong := r.fake.Wrong(); len(wrong) > 0 {
		t.Errorf("Feishu does not understand us: %q", wrong)
	}
}

// An event that cannot be kept is left to Feishu, and taken when it comes again.
func TestEventNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	end := r.begin()
	defer end()
	in := r.in.Load()
	r.in.Store(nil) // as while the channel is being stopped
	r.fake.Say(feishutest.Message{ID: "om_1", Content: feishutest.Text("hi")})
	r.Await("a refusal", func() bool { return strings.Contains(r.Log.String(), "could not be kept") })
	if r.fake.Acked("om_1") {
		t.Error("what was not kept is acknowledged")
	}
	r.in.Store(in)
	r.fake.Repeat()
	r.receive(1)
	r.Await("the acknowledgement", func() bool { return r.fake.Acked("om_1") })
}

// Feishu's clock and ours may differ.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-48 * time.Hour, 48 * time.Hour} {
		r := newRig(t, map[string]any{"catchUp": false})
		r.fake.SetSkew(skew)
		end := r.begin()
		r.fake.Say(feishutest.Message{Content: feishutest.Text("hi")})
		r.receive(1)
		if got := r.Inbound()[0].At; time.Since(got).Abs() > time.Hour {
			t.Errorf("with a skew of %s the message is of %s", skew, got)
		}
		end()
	}
}

// A connection on which nothing comes any more is made again, as is one that was
// cut; what was not acknowledged comes again.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.silence = 50 * time.Millisecond
	end := r.begin()
	defer end()
	r.Await("another connection", func() bool { return len(r.fake.Calls("POST /callback/ws/endpoint")) > 2 })
	if !strings.Contains(strings.Join(r.States(), "\n"), "does not answer any more") {
		t.Errorf("states %q", r.States())
	}
}

// What a connection is refused for decides whether it is tried again.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	endpoint := func(code, status int) func(*feishutest.Server) {
		return func(f *feishutest.Server) {
			f.Fail(feishutest.Failure{Name: "POST /callback/ws/endpoint", Code: code, Status: status, Msg: "no"})
		}
	}
	for name, c := range map[string]struct {
		script func(*feishutest.Server)
		fatal  string // "" is tried again
	}{
		"handshake": {func(f *feishutest.Server) { f.SetDeaf(true) }, "Forbidden"},
		"busy":      {endpoint(codeBusy, 200), ""},
		"internal":  {endpoint(codeInternal, 200), ""},
		"status":    {endpoint(514, 500), ""},
		"refused":   {endpoint(514, 200), "refuses the long connection"},
		"proxy": {func(f *feishutest.Server) {
			f.Fail(feishutest.Failure{Name: "POST /callback/ws/endpoint", Garbage: true})
		}, ""},
		"token": {func(f *feishutest.Server) {
			f.Fail(feishutest.Failure{Name: "POST /open-apis/auth/v3/tenant_access_token/internal", Code: codeBadSecret, Status: 200, Msg: "app secret invalid"})
		}, "appSecret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			c.script(r.fake)
			if c.fatal == "" {
				r.begin()
				r.Await("a connection", func() bool { return r.fake.Connected() > 0 })
				return
			}
			err := r.Run(t.Context(), r.Submit)
			if err == nil || !strings.Contains(err.Error(), c.fatal) || !isFatal(err) {
				t.Errorf("Run: %v, want a fatal error with %q", err, c.fatal)
			}
			if strings.Contains(err.Error(), feishutest.AppSecret) || strings.Contains(r.Log.String(), "ticket-") {
				t.Error("a secret is shown")
			}
		})
	}
}

// A token that became invalid is replaced at once.
func TestInvalidToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).ready()
	r.fake.Invalidate()
	r.send(out("hi"))
	if got := r.fake.Messages(""); len(got) != 1 || got[0].Plain != "hi" {
		t.Errorf("people see %+v", got)
	}
	if n := len(r.fake.Calls("POST /open-apis/auth/v3/tenant_access_token/internal")); n != 2 {
		t.Errorf("%d tokens", n)
	}
}

// Requests that are not Feishu's are refused, whatever is wrong with them.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	event := []byte(`{"schema":"2.0","header":{"event_type":"im.message.message_read_v1","token":"` + feishutest.VerificationToken + `"}}`)
	proof := []byte(`{"type":"url_verification","challenge":"c<1>","token":"` + feishutest.VerificationToken + `"}`)
	seal := func(payload []byte) ([]byte, http.Header) { return feishutest.Seal(payload, true, time.Now()) }
	wrongKey := []byte(`{"encrypt":"` + feishutest.Encrypt(event, "another key") + `"}`)
	type request struct {
		body   []byte
		header http.Header
		ok     bool
	}
	good, goodHeader := seal(event)
	proven, _ := seal(proof)
	otherToken, otherHeader := seal(bytes.ReplaceAll(event, []byte("fake-verification-token"), []byte("other")))
	_, foreign := seal(event)
	sealed := map[string]request{
		"good":        {good, goodHeader, true},
		"challenge":   {proven, http.Header{}, true},
		"no header":   {good, http.Header{}, false},
		"other's":     {good, http.Header{"X-Lark-Signature": foreign["X-Lark-Signature"]}, false},
		"changed":     {bytes.Replace(good, []byte("\"}"), []byte("\" }"), 1), goodHeader, false},
		"plain":       {event, http.Header{}, false},
		"plain proof": {proof, http.Header{}, false},
		"wrong key":   {wrongKey, goodHeader, false},
		"token":       {otherToken, otherHeader, false},
		"short":       {[]byte(`{"encrypt":"AAAA"}`), http.Header{}, false},
		"no base64":   {[]byte(`{"encrypt":"!"}`), http.Header{}, false},
		"no JSON":     {[]byte(`{`), http.Header{}, false},
	}
	open := map[string]request{
		"good":      {event, http.Header{}, true},
		"challenge": {proof, http.Header{}, true},
		"token":     {bytes.ReplaceAll(event, []byte("fake-verification-token"), []byte("other")), http.Header{}, false},
		"none":      {[]byte(`{"schema":"2.0","header":{"event_type":"x"}}`), http.Header{}, false},
	}
	for name, c := range map[string]struct {
		set  map[string]any
		list map[string]request
	}{
		"encrypted": {map[string]any{"encryptKey": feishutest.EncryptKey, "verificationToken": feishutest.VerificationToken}, sealed},
		"token":     {map[string]any{"verificationToken": feishutest.VerificationToken}, open},
	} {
		c.set["mode"] = "webhook"
		r := newRig(t, c.set)
		for what, q := range c.list {
			_, _, err := r.verified(q.header, q.body)
			if (err == nil) != q.ok {
				t.Errorf("%s: %s: %v, want accepted %v", name, what, err, q.ok)
			}
		}
	}
	if got := string(challenge(`c<1>"`)); got != `{"challenge":"c<1>\""}` {
		t.Errorf("the answer to a challenge is %s", got)
	}
}
