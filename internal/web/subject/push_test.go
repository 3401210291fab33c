package subject_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// receiver is a browser and its push service, which takes nothing that is not
// exactly as the RFCs say.
type receiver struct {
	t      *testing.T
	key    *ecdh.PrivateKey
	auth   []byte
	server *httptest.Server
	vapid  string // the public key that the browser subscribed to
	status int
	got    []string
	raw    [][]byte
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	must(t, err)
	r := &receiver{t: t, key: key, auth: []byte("0123456789abcdef"), status: http.StatusCreated}
	r.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil || q.Method != http.MethodPost || q.Header.Get("Content-Encoding") != "aes128gcm" || q.Header.Get("TTL") != "600" {
			t.Errorf("request: %s %v %v", q.Method, q.Header, err)
		}
		r.verify(q.Header.Get("Authorization"))
		r.raw = append(r.raw, body)
		r.got = append(r.got, r.decrypt(body))
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.server.Close)
	return r
}

// verify checks the signature of RFC 8292.
func (r *receiver) verify(header string) {
	r.t.Helper()
	token, key, ok := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 || key != r.vapid {
		r.t.Fatalf("authorization: %s, want the key %s", header, r.vapid)
	}
	point, _ := base64.RawURLEncoding.DecodeString(key)
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	must(r.t, err)
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if len(signature) != 64 || !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		r.t.Error("the signature is wrong")
	}
	var claims struct {
		Aud, Sub string
		Exp      int64
	}
	data, _ := base64.RawURLEncoding.DecodeString(parts[1])
	must(r.t, json.Unmarshal(data, &claims))
	if lasts := time.Unix(claims.Exp, 0).Sub(noon()); claims.Aud != r.server.URL || lasts <= 0 || lasts > 24*time.Hour || !strings.HasPrefix(claims.Sub, "https://") {
		r.t.Errorf("claims: %s", data)
	}
}

// decrypt reads a body of RFC 8291, written from the RFC without our code.
func (r *receiver) decrypt(body []byte) string {
	r.t.Helper()
	if len(body) < 86 || body[20] != 65 || !bytes.Equal(body[16:20], []byte{0, 0, 16, 0}) {
		r.t.Fatalf("header of the body: % x", body[:min(len(body), 21)])
	}
	sender, err := ecdh.P256().NewPublicKey(body[21:86])
	must(r.t, err)
	shared, err := r.key.ECDH(sender)
	must(r.t, err)
	prk, err := hkdf.Extract(sha256.New, shared, r.auth)
	must(r.t, err)
	ikm, err := hkdf.Expand(sha256.New, prk, "WebPush: info\x00"+string(r.key.PublicKey().Bytes())+string(body[21:86]), 32)
	must(r.t, err)
	prk, err = hkdf.Extract(sha256.New, ikm, body[:16])
	must(r.t, err)
	cek, err := hkdf.Expand(sha256.New, prk, "Content-Encoding: aes128gcm\x00", 16)
	must(r.t, err)
	nonce, err := hkdf.Expand(sha256.New, prk, "Content-Encoding: nonce\x00", 12)
	must(r.t, err)
	block, err := aes.NewCipher(cek)
	must(r.t, err)
	gcm, err := cipher.NewGCM(block)
	must(r.t, err)
	plain, err := gcm.Open(nil, nonce, body[86:], nil)
	must(r.t, err)
	if len(plain) == 0 || plain[len(plain)-1] != 2 {
		r.t.Fatalf("the last record has no mark: %q", plain)
	}
	return string(plain[:len(plain)-1])
}

func (r *receiver) subscription(device, endpoint string) string {
	return fmt.Sprintf(`{"device":%q,"endpoint":%q,"p256dh":%q,"auth":%q}`, device, endpoint,
		base64.RawURLEncoding.EncodeToString(r.key.PublicKey().Bytes()), base64.RawURLEncoding.EncodeToString(r.auth))
}

func TestPush(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	on, devices := true, []string{"a", "b"}
	p := subject.Push{
		Store: disk.Open(t.TempDir(), nil), Name: "push.json", Client: r.server.Client(), Enabled: func() bool { return on },
		Devices: func(context.Context) ([]string, error) { return devices, nil }, Log: slog.New(slog.DiscardHandler), Now: noon,
	}
	d := newSubject(t, p).Desk
	state := func() (key string, subscribed []string) {
		_, body := get(t, d, "/api/push")
		var s struct {
			Key     string
			Devices []string
		}
		must(t, json.Unmarshal([]byte(body), &s))
		return s.Key, s.Devices
	}
	r.vapid, _ = state()
	if again, _ := state(); again != r.vapid || len(r.vapid) != 87 {
		t.Fatalf("key %q, then %q", r.vapid, again)
	}
	good := r.server.URL + "/push/1"
	for payload, want := range map[string]int{
		r.subscription("a", "http://push.example/1"):                                400,
		r.subscription("a", "https://me:pw@push.example/1"):                         400,
		r.subscription("a", "https:///1"):                                           400,
		r.subscription("a", "https://push.example/"+strings.Repeat("x", 2000)):      400,
		strings.Replace(r.subscription("a", good), `"auth":"`, `"auth":"AAAA`, 1):   400,
		strings.Replace(r.subscription("a", good), `"p256dh":"B`, `"p256dh":"C`, 1): 400,
		r.subscription("stranger", good):                                            404,
	} {
		if msg, status := do(t, d, "push.subscribe", payload); status != want {
			t.Errorf("%.90s = %d %s, want %d", payload, status, msg, want)
		}
	}
	for _, device := range []string{"a", "b", "a"} { // one each
		if msg, status := do(t, d, "push.subscribe", r.subscription(device, r.server.URL+"/push/"+device)); status != 200 {
			t.Fatalf("subscribe = %d %s", status, msg)
		}
	}
	if n := p.Notify(t.Context(), "question"); n != 2 || fmt.Sprint(r.got) != `[{"kind":"question"} {"kind":"question"}]` {
		t.Fatalf("%d sent, got %v", n, r.got)
	}
	if bytes.Equal(r.raw[0][:86], r.raw[1][:86]) {
		t.Error("salt and key are used twice")
	}
	devices = []string{"a"} // b is signed out
	if n := p.Notify(t.Context(), "question"); n != 1 {
		t.Errorf("%d sent after a device left", n)
	}
	r.status = http.StatusInternalServerError
	if n := p.Notify(t.Context(), "question"); n != 0 {
		t.Errorf("%d sent", n)
	}
	if _, s := state(); fmt.Sprint(s) != "[a]" {
		t.Errorf("after a failure: %v", s)
	}
	r.status = http.StatusGone
	p.Notify(t.Context(), "question")
	if _, s := state(); len(s) != 0 {
		t.Errorf("a dead subscription stays: %v", s)
	}
	on = false
	if _, status := do(t, d, "push.subscribe", r.subscription("a", good)); status != 409 {
		t.Errorf("subscribe while off = %d", status)
	}
}

// A subscription can name any address; the gateway's network is out of reach.
func TestPushIsGuarded(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	p := subject.Push{
		Store: disk.Open(t.TempDir(), nil), Name: "push.json", Client: subject.PushClient(), Enabled: func() bool { return true },
		Devices: func(context.Context) ([]string, error) { return []string{"a"}, nil }, Log: slog.New(slog.DiscardHandler), Now: noon,
	}
	d := newSubject(t, p).Desk
	if _, status := do(t, d, "push.subscribe", r.subscription("a", r.server.URL+"/push")); status != 200 {
		t.Fatal(status)
	}
	if n := p.Notify(t.Context(), "question"); n != 0 || len(r.got) != 0 {
		t.Errorf("%d sent to this machine, %v", n, r.got)
	}
}
