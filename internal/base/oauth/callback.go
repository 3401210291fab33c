package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Callback receives the browser that comes back from a login. The first answer
// that carries the right state counts; every other one is refused and does not
// end the login, so that no other page can spoil it.
type Callback struct {
	// Issuer is the login server that was asked, "" if answers do not name it
	// (RFC 9207); Named says that they must.
	Issuer string
	Named  bool
	// BareCode accepts a pasted code without its state.
	BareCode bool

	redirect *url.URL
	state    string
	serving  bool
	over     atomic.Bool
	got      chan returned // holds one
}

// returned holds what the browser brought.
type returned struct {
	code string
	err  error
}

// ErrNotBack says that neither the browser nor a person can bring the code.
var ErrNotBack = errors.New("the browser cannot come back and nothing was pasted")

// NewCallback makes a Callback for an address on this machine.
func NewCallback(host string, port int, path string) *Callback {
	return &Callback{
		redirect: &url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(port)), Path: path},
		state:    Random(),
		got:      make(chan returned, 1),
	}
}

// Random returns a text that cannot be guessed.
func Random() string { return rand.Text() + rand.Text() }

// Redirect returns the address at which the browser ends.
func (c *Callback) Redirect() string { return c.redirect.String() }

// State returns what the browser must bring along.
func (c *Callback) State() string { return c.state }

// Listen opens a port on this machine only, 0 for any; with both, on IPv4 and
// where possible on IPv6, because browsers disagree about what localhost means.
func Listen(ctx context.Context, port int, both bool) (ls []net.Listener, used int, err error) {
	var lc net.ListenConfig
	l4, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, port, fmt.Errorf("the browser cannot come back: %w", err)
	}

	ls, used = []net.Listener{l4}, l4.Addr().(*net.TCPAddr).Port //nolint:errcheck // a TCP listener has one
	if both {
		if l6, err := lc.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(used))); err == nil {
			ls = append(ls, l6)
		}
	}
	return ls, used, nil
}

// Serve answers the browser until the returned function is called. It closes
// the listeners.
func (c *Callback) Serve(ctx context.Context, ls ...net.Listener) (stop func()) {
	c.serving = len(ls) > 0
	return httpsafe.ServeReturn(ctx, c, ls...)
}

// Wait returns the code that the browser brings, or the person in a pasted
// line. note is called with the reason why a line is useless. Both may be nil.
func (c *Callback) Wait(ctx context.Context, pasted func() <-chan string, note func(string)) (string, error) {
	var lines <-chan string
	if pasted != nil {
		lines = pasted()
	}

	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case r := <-c.got:
			return r.code, r.err
		case line, ok := <-lines:
			if !ok && !c.serving {
				return "", ErrNotBack
			}

			if !ok {
				lines = nil
			}

			if strings.TrimSpace(line) == "" {
				continue
			}

			r, mine := c.paste(line)
			if mine {
				return r.code, r.err
			}

			if note != nil {
				note("That does not fit: " + r.err.Error() + ".")
			}
		}
	}
}

// ServeHTTP is the page at which the browser ends.
func (c *Callback) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	say := func(status int, text string) { httpsafe.WriteReturn(w, status, text) }
	switch {
	case !c.same(req.Host):
		say(http.StatusForbidden, "This address is only for the login.")
		return
	case req.URL.Path != c.redirect.Path:
		say(http.StatusNotFound, "There is nothing here.")
		return
	case req.Method != http.MethodGet:
		say(http.StatusMethodNotAllowed, "This address is only for the login.")
		return
	}

	r, mine := c.judge(req.URL.Query())
	switch {
	case !mine:
		say(http.StatusBadRequest, "This does not belong to the login that is waiting. Start again from the terminal.")
	case c.over.Swap(true):
		say(http.StatusGone, "This login is over. You can close this window.")
	case r.err != nil:
		c.got <- r
		say(http.StatusOK, "The login failed. The terminal says why.")
	default:
		c.got <- r
		say(http.StatusOK, "Thank you. You can close this window and return to the terminal.")
	}
}

// same reports whether a host is that of the redirect address. localhost has
// several names.
func (c *Callback) same(host string) bool {
	if c.redirect.Hostname() != "localhost" {
		return host == c.redirect.Host
	}
	name, port, err := net.SplitHostPort(host)
	return err == nil && port == c.redirect.Port() && Loopback(name)
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// mine compares in constant time, so that the state cannot be guessed by pieces.
func (c *Callback) mine(state string) bool {
	return subtle.ConstantTimeCompare([]byte(state), []byte(c.state)) == 1
}

// judge reads an answer. mine is false if it does not belong to this login.
func (c *Callback) judge(q url.Values) (r returned, mine bool) {
	if !c.mine(q.Get("state")) {
		return returned{err: errors.New("it belongs to another login")}, false
	}

	// The issuer comes before everything else the answer says: an answer of
	// another login server must not get our verifier.
	switch iss := q.Get("iss"); {
	case c.Issuer != "" && iss != "" && iss != c.Issuer:
		return returned{err: fmt.Errorf("the answer came from another login server (%s) than the one that was asked", Clean(iss))}, true
	case iss == "" && c.Named:
		return returned{err: errors.New("the answer does not say which login server it comes from")}, true
	case q.Get("error") != "":
		return returned{err: errors.New("the login was refused: " + Clean(cmp.Or(q.Get("error_description"), q.Get("error"))))}, true
	case q.Get("code") == "":
		return returned{err: errors.New("the login server gave no code")}, true
	}

	return returned{code: q.Get("code")}, true
}

// paste reads what a person copied from the browser: the whole address, its
// query, or the code.
func (c *Callback) paste(line string) (r returned, mine bool) {
	no := func(why string) (returned, bool) { return returned{err: errors.New(why)}, false }
	line = strings.Trim(strings.TrimSpace(line), `"'<>`)
	switch {
	case strings.Contains(line, "://"):
		u, err := url.Parse(line)
		if err != nil || u.Scheme != c.redirect.Scheme || !c.same(u.Host) || u.Path != c.redirect.Path {
			return no("the address should begin with " + c.Redirect())
		}
		return c.judge(u.Query())

	case strings.Contains(line, "code="):
		q, err := url.ParseQuery(strings.TrimLeft(line, "?&"))
		if err != nil {
			return no("it is not a part of an address")
		}
		return c.judge(q)

	case !c.BareCode:
		return no("paste the whole address of the page")
	case strings.ContainsAny(line, " \t&="):
		return no("it is neither an address nor a code")
	}

	code, state, both := strings.Cut(line, "#")
	if both && !c.mine(state) {
		return no("it belongs to another login")
	}
	return returned{code: code}, true
}
