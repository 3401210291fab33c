package api

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Headers with a signature: ours has a time in it, the other is what code forges
// send. A signature is its own nonce: what was taken once is not taken again.
const (
	headerSignature = "X-Nanobot-Signature" // t=UNIX,sha256=HEX of "UNIX.BODY"
	headerHub       = "X-Hub-Signature-256" // sha256=HEX of BODY
)

// signedLife is how far the clock of who signed may be from ours.
const signedLife = 5 * time.Minute

// signedBody bounds what is read before it is known who sent it.
const signedBody = 512 << 10

// triggers lets those through who have the token, and those who signed what
// they send with the key of the trigger.
func (a *API) triggers() http.Handler {
	plain, reading := a.guarded(a.trigger), make(chan struct{}, defaultTurns)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.o.TriggerKey == nil || r.Header.Get(headerSignature) == "" && r.Header.Get(headerHub) == "" {
			plain.ServeHTTP(w, r)
			return
		}

		select {
		case reading <- struct{}{}:
			defer func() { <-reading }()
		default:
			a.refuse(w, r, &fault{status: http.StatusTooManyRequests, code: "too_many_requests", message: "Too many requests are being read; try again in a moment.", after: retryAfter})
			return
		}

		if err := a.signedTrigger(w, r); err != nil && !began(w) && !gone(r.Context()) {
			a.refuse(w, r, err)
		}
	})
}

// signedTrigger takes a signed message. Whoever signed has the key, so the name
// we were called by and the machine it came from do not matter.
func (a *API) signedTrigger(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, min(signedBody, a.o.MaxBody))
	body, err := func() ([]byte, error) {
		defer slowBody(http.NewResponseController(w))()
		return io.ReadAll(r.Body)
	}()
	if err != nil {
		return bodyFault(err)
	}

	nonce, until, ok := a.signed(r, body)
	if !ok {
		return &fault{status: http.StatusUnauthorized, code: "invalid_signature", message: "The signature does not fit the body, or is too old; nanobot trigger secret tells the key."}
	}

	message := string(bytes.TrimSpace(body))
	var in struct {
		Message string `json:"message"`
	}
	// Other programs send what they send; then all of it is the message.
	if json.Unmarshal(body, &in) == nil && strings.TrimSpace(in.Message) != "" {
		message = in.Message
	}

	if message == "" || !utf8.ValidString(message) {
		return badRequest("message", "The body must be a text that says what happened.")
	}
	if a.o.Nonces == nil {
		return errors.New("signed requests cannot be told from repeated ones: there is no place to remember them")
	}

	fresh, err := a.o.Nonces.claim(r.Context(), nonce, until, a.o.Now())
	if err != nil {
		return err
	}
	if !fresh {
		return &fault{status: http.StatusConflict, code: "repeated_request", message: "This signed request was taken before; sign it again with a new time to send it again."}
	}
	return a.fire(w, r, message, true) // a program that signs passes on what others wrote
}

// signed reports whether a request carries a good signature of its body. The
// nonce is what must not come again before until.
func (a *API) signed(r *http.Request, body []byte) (nonce string, until time.Time, ok bool) {
	id, now := r.PathValue("id"), a.o.Now()
	key := a.o.TriggerKey(id)
	if len(key) == 0 {
		return "", until, false
	}

	if ours := r.Header.Get(headerSignature); ours != "" {
		at, mac, _ := strings.Cut(ours, ",")
		unix, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(at), "t="), 10, 64)
		if err != nil || now.Sub(time.Unix(unix, 0)).Abs() > signedLife {
			return "", until, false
		}
		stamp := strconv.FormatInt(unix, 10)
		nonce = id + " " + stamp + " " + digest([]byte(stamp+"."), body)
		return nonce, time.Unix(unix, 0).Add(signedLife + time.Second), sameMAC(key, mac, []byte(stamp+"."), body)
	}

	// The other form has no time in it, so its nonce is kept for much longer.
	return id + " " + digest(body), now.Add(hubLife), sameMAC(key, r.Header.Get(headerHub), body)
}

// digest names what was signed. The text of a signature would not do: the same
// one can be written in several ways.
func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sameMAC(key []byte, given string, parts ...[]byte) bool {
	hexed, ok := strings.CutPrefix(strings.TrimSpace(given), "sha256=")
	mac, err := hex.DecodeString(hexed)
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return ok && err == nil && hmac.Equal(h.Sum(nil), mac)
}
