package mcp

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// oauthReturning takes the browser in when it comes back. The first answer
// that carries the right state counts; everything else is turned away and does
// not end the login, so that no other page can spoil it.
type oauthReturning struct {
	redirect string
	host     string // as browsers send it
	state    string
	issuer   string
	must     bool             // the issuer says that it names itself
	got      chan oauthReturn // holds one

	mu   sync.Mutex
	over bool
}

// oauthReturn is what the browser brought.
type oauthReturn struct {
	code string
	err  error
}

func newReturning(l net.Listener, m oauthMeta) *oauthReturning {
	host := l.Addr().String()
	return &oauthReturning{
		redirect: "http://" + host + oauthCallback, host: host, state: oauthRandom(),
		issuer: m.Issuer, must: m.SendsIssuer, got: make(chan oauthReturn, 1),
	}
}

// wait returns the code that the browser or the person brings.
func (r *oauthReturning) wait(ctx context.Context, o LoginOptions) (string, error) {
	var pasted <-chan string
	if o.Pasted != nil {
		pasted = o.Pasted()
	}
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case b := <-r.got:
			return b.code, b.err
		case line, ok := <-pasted:
			if !ok {
				pasted = nil
				continue
			}
			if strings.TrimSpace(line) == "" {
				continue
			}
			b, mine := r.pasted(line)
			if mine {
				return b.code, b.err
			}
			if o.Note != nil {
				o.Note("That does not fit: " + b.err.Error() + ".")
			}
		}
	}
}

// judge reads an answer. mine is false if it does not belong to this login.
func (r *oauthReturning) judge(q url.Values) (b oauthReturn, mine bool) {
	// Compared in constant time, so that the state cannot be guessed by pieces.
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(r.state)) != 1 {
		return oauthReturn{err: errors.New("it belongs to another login")}, false
	}
	// The issuer is looked at before anything else the answer says: an answer
	// of another login server must not get our verifier (RFC 9207).
	switch iss := q.Get("iss"); {
	case iss != "" && iss != r.issuer:
		return oauthReturn{err: fmt.Errorf("the answer came from another login server (%s) than the one that was asked", oauthClean(iss, nil))}, true
	case iss == "" && r.must:
		return oauthReturn{err: errors.New("the answer does not say which login server it comes from")}, true
	case q.Get("error") != "":
		why := q.Get("error_description")
		if why == "" {
			why = q.Get("error")
		}
		return oauthReturn{err: errors.New("the login was refused: " + oauthClean(why, nil))}, true
	case q.Get("code") == "":
		return oauthReturn{err: errors.New("the login server gave no code")}, true
	}
	return oauthReturn{code: q.Get("code")}, true
}

// ServeHTTP is the page at which the browser ends.
func (r *oauthReturning) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	say := func(status int, text string) { httpsafe.SayReturn(w, status, text) }
	switch {
	case req.Host != r.host:
		say(http.StatusForbidden, "This address is only for the login.")
		return
	case req.URL.Path != oauthCallback:
		say(http.StatusNotFound, "There is nothing here.")
		return
	case req.Method != http.MethodGet:
		say(http.StatusMethodNotAllowed, "This address is only for the login.")
		return
	}
	b, mine := r.judge(req.URL.Query())
	if !mine {
		say(http.StatusBadRequest, "This does not belong to the login that is waiting. Please start again from the terminal.")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		say(http.StatusGone, "This login is over already. You can close this window.")
		return
	}
	r.over = true
	r.got <- b
	if b.err != nil {
		say(http.StatusOK, "The login did not work. The terminal says more.")
		return
	}
	say(http.StatusOK, "Thank you. You can close this window and go back to the terminal.")
}

// pasted reads what a person copied from the browser: the whole address or its
// query. A code alone would come without the state.
func (r *oauthReturning) pasted(line string) (oauthReturn, bool) {
	line = strings.Trim(strings.TrimSpace(line), `"'<>`)
	if rest, ok := strings.CutPrefix(line, r.redirect); ok {
		line = rest
	} else if strings.Contains(line, "://") {
		return oauthReturn{err: fmt.Errorf("the address should begin with %s", r.redirect)}, false
	}
	q, err := url.ParseQuery(strings.TrimLeft(line, "?&"))
	if err != nil || q.Get("state") == "" {
		return oauthReturn{err: errors.New("paste the whole address of the page")}, false
	}
	return r.judge(q)
}
