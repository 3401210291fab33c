package auth

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	maxLogin  = 4 << 10          // bytes of a request
	loginTime = 10 * time.Second // for them to arrive
)

// ask is what a page sends to sign in: one of them.
type ask struct {
	Code   string `json:"code"`   // of a link, or typed
	Device bool   `json:"device"` // another device is to agree
	Poll   string `json:"poll"`   // whether it has agreed
}

// answer is what it gets.
type answer struct {
	State   string `json:"state"` // in, pending, denied, expired
	Digits  string `json:"digits,omitempty"`
	Poll    string `json:"poll,omitempty"`
	Expires int    `json:"expires_in,omitempty"` // seconds
}

// refusal is why not.
type refusal struct {
	status  int
	code    string
	message string
}

// Refuse writes an error in the words of the protocol.
func Refuse(w http.ResponseWriter, status int, code, message string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"status": status, "code": code, "message": message}})
}

// RefusePage refuses a request that is not one of our own pages.
func RefusePage(w http.ResponseWriter, p Problem) {
	message := map[Problem]string{
		WrongHost:   "the gateway does not know this host name; add it to gateway.webui.hosts",
		WrongOrigin: "this request comes from a page of another origin",
		NoHeader:    "this request is not one of nanobot's pages",
	}[p]
	Refuse(w, http.StatusForbidden, string(p), message)
}

// Login answers a page that signs in.
func (s *Server) Login(w http.ResponseWriter, r *http.Request) {
	in, ok := readAsk(w, r)
	if !ok {
		return
	}

	var (
		out    answer
		secret string
		no     *refusal
		err    error
	)
	switch {
	case in.Code != "":
		out, secret, no, err = s.byCode(r, in.Code)
	case in.Poll != "":
		out, secret, err = s.poll(r, in.Poll)
	case in.Device:
		out, no = s.begin(r)
	default:
		no = &refusal{http.StatusBadRequest, "invalid", "send code, device or poll"}
	}

	switch {
	case err != nil:
		s.o.Log.ErrorContext(r.Context(), "sign a device in", "err", err)
		Refuse(w, http.StatusInternalServerError, "internal", "the device could not be stored; see the log")
		return
	case no != nil:
		Refuse(w, no.status, no.code, no.message)
		return
	}

	if secret != "" {
		id, err := s.Gateway(r.Context())
		if err != nil {
			Refuse(w, http.StatusInternalServerError, "internal", "the device could not be stored; see the log")
			return
		}
		http.SetCookie(w, s.cookie(r, id, secret, s.o.Site().Session))
	}

	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(out)
}

// readAsk reads a request of a page of ours.
func readAsk(w http.ResponseWriter, r *http.Request) (in ask, ok bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		Refuse(w, http.StatusUnsupportedMediaType, "invalid", "send JSON")
		return in, false
	}

	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(loginTime)) // not every connection can
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLogin))
	_ = rc.SetReadDeadline(time.Time{})
	if err == nil {
		err = json.Unmarshal(body, &in)
	}

	if err != nil {
		Refuse(w, http.StatusBadRequest, "invalid", "the request is not as expected")
		return in, false
	}
	return in, true
}

// Logout signs the device of a request out.
func (s *Server) Logout(w http.ResponseWriter, r *http.Request) {
	session, ok, err := s.Check(nil, r)
	if err == nil && ok {
		err = s.Revoke(r.Context(), session.ID)
	}

	id, idErr := s.Gateway(r.Context())
	if err != nil || idErr != nil {
		s.o.Log.ErrorContext(r.Context(), "sign a device out", "err", err)
		Refuse(w, http.StatusInternalServerError, "internal", "the device could not be signed out; see the log")
		return
	}

	http.SetCookie(w, s.cookie(r, id, "", -time.Second))
	w.WriteHeader(http.StatusNoContent)
}

// byCode signs a device in by the secret of a link or a typed code.
func (s *Server) byCode(r *http.Request, given string) (answer, string, *refusal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	site, now := s.o.Site(), s.o.Now()
	address := site.peer(r)
	link := s.links[hash(given)] // it cannot be guessed, so wrong codes of others do not delay it
	if link == nil && s.wrong.slow(address, now) {
		return answer{}, "", &refusal{http.StatusTooManyRequests, "slow_down", "too many wrong codes; wait a minute"}, nil
	}

	c := link
	if c == nil {
		c = s.typed[hash(strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(given)))]
	}

	switch {
	case c == nil:
		if s.wrong.add(address, now) {
			s.typed, s.wrong = nil, failures{}
		}
		return answer{}, "", &refusal{http.StatusUnauthorized, "wrong_code", "this code is wrong, or too many wrong ones were tried; get another with: nanobot web"}, nil

	case c.device != "":
		out, no, err := s.reused(r, c)
		return out, "", no, err
	case now.After(c.ends):
		return answer{}, "", &refusal{http.StatusUnauthorized, "code_expired", "this link or code has expired; get another with: nanobot web"}, nil
	case link != nil && s.openerOf(r).isForeign():
		return answer{}, "", &refusal{http.StatusForbidden, "other_user", "this link can be used on this machine only by the user of the gateway; behind a proxy use: nanobot web --code"}, nil
	}

	e, secret, err := s.admit(r)
	if err != nil {
		return answer{}, "", nil, err
	}

	c.device = e.ID
	return answer{State: "in"}, secret, nil, nil
}

// reused answers the second use of a code. A browser that sends its own again, because
// it did not see the answer, stays signed in; for any other, the code was in wrong
// hands, and the device that it signed in may be, too.
func (s *Server) reused(r *http.Request, c *code) (answer, *refusal, error) {
	d, err := s.load(r.Context())
	if err != nil {
		return answer{}, nil, err
	}

	if k, err := r.Cookie(cookieName(d.Gateway)); err == nil {
		if e := d.find(k.Value); e != nil && e.ID == c.device && s.openerOf(r).mayUse(e.Opened) {
			return answer{State: "in"}, nil, nil
		}
	}

	for _, e := range d.Devices {
		if e.ID != c.device {
			continue
		}
		if err := s.revoke(r.Context(), e.ID); err != nil {
			return answer{}, nil, err
		}
		s.notify(r.Context(), phrase.Later("A sign-in link of the web page was used twice, the second time from %s. The device that it signed in (%s, %s) is signed out. If that was not you, another person or program has seen the link.",
			s.o.Site().peer(r), e.Name, e.Address))
	}

	return answer{}, &refusal{http.StatusUnauthorized, "code_used", "this link or code was used before; get another with: nanobot web"}, nil
}

// admit signs the device of a request in and tells the owner. The caller holds mu.
func (s *Server) admit(r *http.Request) (*entry, string, error) {
	e, secret, err := s.add(r)
	if err != nil {
		return nil, "", err
	}
	s.notify(r.Context(), phrase.Later("A device has signed in to the web page: %s, %s. If that was not you: nanobot web revoke %s", e.Name, e.Address, e.ID))
	s.changed()
	return e, secret, nil
}

func (s *Server) notify(ctx context.Context, notice phrase.Sentence) {
	if s.o.Notify != nil {
		s.o.Notify(context.WithoutCancel(ctx), notice)
	}
}

// browserName says in words what a browser says about itself.
func browserName(agent string) string {
	name := first(agent, "Edg/=Edge", "OPR/=Opera", "SamsungBrowser/=Samsung Internet", "Firefox/=Firefox", "FxiOS/=Firefox", "CriOS/=Chrome", "Chrome/=Chrome", "Safari/=Safari")
	system := first(agent, "iPhone=iPhone", "iPad=iPad", "Android=Android", "Windows=Windows", "Mac OS X=macOS", "CrOS=ChromeOS", "Linux=Linux")
	switch {
	case name != "" && system != "":
		return name + " on " + system
	case agent == "":
		return "unknown browser"
	}
	return text.Label(agent, nameLength)
}

// first returns the word of the first pair (part=word) whose part occurs in s.
func first(s string, pairs ...string) string {
	for _, p := range pairs {
		part, word, _ := strings.Cut(p, "=")
		if strings.Contains(s, part) {
			return word
		}
	}
	return ""
}
