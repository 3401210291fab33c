package subject

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
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Push tells devices that something waits, through the push service of their
// browser (RFC 8030, 8291, 8292). The message has a kind and no content.
type Push struct {
	Store   store.Store
	Name    string       // of the document with the key and the subscriptions
	Client  *http.Client // reaches public addresses only
	Enabled func() bool
	Devices func(ctx context.Context) ([]string, error) // ids of those that are signed in
	Log     *slog.Logger
	Now     func() time.Time
}

const pushLife = 10 * time.Minute // how long a push service keeps a message

// subscriptions is the document.
type subscriptions struct {
	Key  []byte         `json:"key"` // P-256, private
	Subs []subscription `json:"subscriptions"`
}

// subscription is where a device gets messages, as its browser says it.
type subscription struct {
	Device   string `json:"device"`
	Endpoint string `json:"endpoint"`
	Public   []byte `json:"p256dh"` // of the browser
	Auth     []byte `json:"auth"`
}

// Routes implements web.Subject.
func (p Push) Routes() web.Routes {
	return web.Routes{
		Reads:   map[string]web.Read{"push": p.read},
		Actions: map[string]web.Action{"push.subscribe": web.Changing(p.subscribe), "push.unsubscribe": web.Changing(p.unsubscribe), "push.test": web.Changing(p.test)},
	}
}

func (p Push) read(ctx context.Context, _ *http.Request) (any, error) {
	d, err := p.change(ctx, func(*subscriptions) {})
	if err != nil {
		return nil, err
	}

	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d.Key)
	if err != nil {
		return nil, err
	}

	public, err := key.PublicKey.Bytes()
	devices := []string{}
	for _, s := range d.Subs {
		devices = append(devices, s.Device)
	}
	return map[string]any{"enabled": p.Enabled(), "key": base64.RawURLEncoding.EncodeToString(public), "devices": devices}, err
}

func (p Push) unsubscribe(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct{ Device string }
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}
	_, err := p.change(ctx, func(d *subscriptions) { d.drop(func(s subscription) bool { return s.Device == in.Device }) })
	return struct{}{}, err
}

func (p Push) test(ctx context.Context, payload json.RawMessage) (any, error) {
	if err := web.Decode(payload, &struct{}{}); err != nil {
		return nil, err
	}
	return map[string]int{"sent": p.Notify(ctx, "test")}, nil
}

// change changes the document, which is without devices that are signed out then.
func (p Push) change(ctx context.Context, f func(*subscriptions)) (d subscriptions, err error) {
	devices, err := p.Devices(ctx)
	if err != nil {
		return d, err
	}
	return d, store.Update(ctx, p.Store, p.Name, func(old []byte) ([]byte, error) {
		if d = (subscriptions{}); len(old) > 0 {
			if err := json.Unmarshal(old, &d); err != nil {
				return nil, err
			}
		}

		if d.Key == nil {
			key, err := ecdh.P256().GenerateKey(rand.Reader)
			if err != nil {
				return nil, err
			}
			d.Key = key.Bytes()
		}

		f(&d)
		d.drop(func(s subscription) bool { return !slices.Contains(devices, s.Device) })
		data, err := store.Indented(d)
		if bytes.Equal(data, old) {
			return nil, err
		}
		return data, err
	})
}

func (d *subscriptions) drop(gone func(subscription) bool) { d.Subs = slices.DeleteFunc(d.Subs, gone) }

func (p Push) subscribe(ctx context.Context, payload json.RawMessage) (any, error) {
	var in struct{ Device, Endpoint, P256dh, Auth string }
	if err := web.Decode(payload, &in); err != nil {
		return nil, err
	}

	s := subscription{Device: in.Device, Endpoint: in.Endpoint}
	var errs [3]error
	s.Public, errs[0] = base64.RawURLEncoding.DecodeString(in.P256dh)
	s.Auth, errs[1] = base64.RawURLEncoding.DecodeString(in.Auth)
	_, errs[2] = ecdh.P256().NewPublicKey(s.Public)
	u, err := url.Parse(in.Endpoint)
	devices, devErr := p.Devices(ctx)
	switch {
	case devErr != nil:
		return nil, devErr
	case !p.Enabled():
		return nil, web.Refuse(http.StatusConflict, "notifications are off: set gateway.webui.push")
	case errors.Join(err, errs[0], errs[1], errs[2]) != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(s.Auth) != 16 || len(in.Endpoint) > 2000:
		return nil, web.Refuse(http.StatusBadRequest, "this is not a subscription of a browser")
	case !slices.Contains(devices, in.Device):
		return nil, web.Refuse(http.StatusNotFound, "this device is not signed in")
	}

	_, err = p.change(ctx, func(d *subscriptions) {
		d.drop(func(old subscription) bool { return old.Device == s.Device || old.Endpoint == s.Endpoint })
		d.Subs = append(d.Subs, s)
	})
	return struct{}{}, err
}

// Notify tells all devices of something by its kind, and returns how many push
// services took it. Subscriptions that no longer exist are dropped.
func (p Push) Notify(ctx context.Context, kind string) (sent int) {
	if !p.Enabled() {
		return 0
	}

	d, err := p.change(ctx, func(*subscriptions) {})
	if err != nil {
		p.Log.WarnContext(ctx, "cannot read the subscriptions for notifications", "err", err)
		return 0
	}

	body, _ := json.Marshal(map[string]string{"kind": kind}) // plain values
	var gone []string
	for _, s := range d.Subs {
		status, err := p.send(ctx, d.Key, s, body)
		switch {
		case status == http.StatusNotFound || status == http.StatusGone:
			gone = append(gone, s.Endpoint)
		case err == nil && status < 300:
			sent++
		default:
			p.Log.WarnContext(ctx, "a notification was not taken", "device", s.Device, "status", status, "err", err)
		}
	}

	if len(gone) > 0 {
		if _, err := p.change(ctx, func(d *subscriptions) { d.drop(func(s subscription) bool { return slices.Contains(gone, s.Endpoint) }) }); err != nil {
			p.Log.WarnContext(ctx, "cannot remove a subscription for notifications", "err", err)
		}
	}
	return sent
}

func (p Push) send(ctx context.Context, key []byte, s subscription, message []byte) (int, error) {
	body, err := encrypted(s, message)
	if err != nil {
		return 0, err
	}

	token, err := p.vapid(key, s.Endpoint)
	if err != nil {
		return 0, err
	}

	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}

	r.Header = http.Header{
		"Authorization": {token}, "Content-Encoding": {"aes128gcm"}, "Content-Type": {"application/octet-stream"},
		"Ttl": {fmt.Sprint(int(pushLife.Seconds()))}, "Urgency": {"high"}, "Topic": {"nanobot"},
	}
	resp, err := p.Client.Do(r)
	if err != nil {
		return 0, err
	}

	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // of no interest
	return resp.StatusCode, resp.Body.Close()
}

// vapid proves to a push service that we are who the browser subscribed to.
func (p Push) vapid(raw []byte, endpoint string) (string, error) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		return "", err
	}

	public, err := key.PublicKey.Bytes()
	u, urlErr := url.Parse(endpoint)
	if err = errors.Join(err, urlErr); err != nil {
		return "", err
	}

	claims, _ := json.Marshal(map[string]any{"aud": u.Scheme + "://" + u.Host, "exp": p.Now().Add(12 * time.Hour).Unix(), "sub": "https://github.com/nanobot-go/nanobot"}) // plain values
	b64 := base64.RawURLEncoding.EncodeToString
	token := b64([]byte(`{"typ":"JWT","alg":"ES256"}`)) + "." + b64(claims)
	sum := sha256.Sum256([]byte(token))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		return "", err
	}

	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return "vapid t=" + token + "." + b64(signature) + ", k=" + b64(public), nil
}

// encrypted returns a message that only the browser can read (RFC 8291), in one record.
func encrypted(s subscription, message []byte) ([]byte, error) {
	theirs, err := ecdh.P256().NewPublicKey(s.Public)
	if err != nil {
		return nil, err
	}

	ours, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}

	shared, err := ours.ECDH(theirs)
	if err != nil {
		return nil, err
	}

	public, salt := ours.PublicKey().Bytes(), make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	derive := func(secret, salt []byte, info string, n int) []byte {
		out, deriveErr := hkdf.Key(sha256.New, secret, salt, info, n)
		err = errors.Join(err, deriveErr)
		return out
	}

	ikm := derive(shared, s.Auth, "WebPush: info\x00"+string(s.Public)+string(public), 32)
	cek, nonce := derive(ikm, salt, "Content-Encoding: aes128gcm\x00", 16), derive(ikm, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}

	block, err := aes.NewCipher(cek)
	if err != nil {
		return nil, err
	}

	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}

	head := append(binary.BigEndian.AppendUint32(salt, 4096), 65) // bytes of the public key
	return gcm.Seal(append(head, public...), nonce, append(slices.Clone(message), 2), nil), nil
}

// PushClient reaches push services, which are whatever a browser names: public
// addresses only, and no redirects.
func PushClient() *http.Client {
	c, err := httpsafe.Guarded(httpsafe.GuardOptions{MaxRedirects: -1, Timeout: 20 * time.Second, EnvProxy: true})
	if err != nil {
		panic(err) // only a proxy in the options can be wrong
	}
	return c
}
