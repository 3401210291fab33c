package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// browserFlow signs in with a browser that comes back to this machine with a
// code (authorization code with PKCE). Whoever sees the code cannot use it
// without the verifier, which never leaves this process.
type browserFlow struct {
	w    *client
	port int    // 0: any
	path string // where the browser comes back to
	// authorize makes the address to open.
	authorize func(redirect, state, challenge string) string
}

// run sends the person to the provider and waits for the code.
func (b browserFlow) run(ctx context.Context, d Dialog) (grant, error) {
	r := &returning{state: random(32), got: make(chan outcome, 1)}
	g := grant{verifier: random(64)}
	ls, err := listenLoopback(ctx, b.port)
	port := b.port
	switch {
	case err == nil:
		port = ls[0].Addr().(*net.TCPAddr).Port //nolint:errcheck // a TCP listener has one
	case d.Pasted == nil || b.port == 0:
		return g, &llm.Error{
			Kind: llm.Connection, Provider: b.w.name, Err: err,
			Message: fmt.Sprintf("the browser cannot come back: %v; end the program that uses port %d, or sign in with --device", err, b.port),
		}
	default:
		d.tell(Step{Note: fmt.Sprintf("Port %d cannot be used, so the browser cannot come back by itself.", b.port)})
	}
	g.redirect = "http://localhost:" + strconv.Itoa(port) + b.path
	r.redirect, _ = url.Parse(g.redirect) // made here
	r.listening = len(ls) > 0
	stop := httpsafe.ServeReturn(ctx, r, ls...)
	defer stop()
	sum := sha256.Sum256([]byte(g.verifier))
	d.tell(Step{
		URL: b.authorize(g.redirect, r.state, base64.RawURLEncoding.EncodeToString(sum[:])), Paste: d.Pasted != nil,
	})
	g.code, err = b.wait(ctx, d, r)
	return g, err
}

func (b browserFlow) wait(ctx context.Context, d Dialog, r *returning) (string, error) {
	limit := d.Wait
	if limit <= 0 {
		limit = 2 * time.Minute
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	var pasted <-chan string
	if d.Pasted != nil {
		pasted = d.Pasted()
	}
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-t.C:
			return "", b.w.failed(fmt.Sprintf("nobody signed in within %s; start again", limit))
		case o := <-r.got:
			if o.refused != "" {
				return "", b.w.failed("the sign-in was refused: " + httpsafe.RedactSecrets(o.refused))
			}
			return o.code, nil
		case line, ok := <-pasted:
			if !ok && !r.listening {
				return "", b.w.failed("the browser cannot come back and nothing was pasted; sign in with --device")
			}
			if !ok {
				pasted = nil
				continue
			}
			if strings.TrimSpace(line) == "" {
				continue
			}
			code, err := r.pasted(line)
			if err != nil {
				d.tell(Step{Note: "That does not fit: " + err.Error() + ".", Paste: true})
				continue
			}
			return code, nil
		}
	}
}

// random is a text of n random bytes that is safe in URLs.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// listenLoopback listens on this machine only, on both address families where
// they exist: browsers disagree about what localhost means.
func listenLoopback(ctx context.Context, port int) ([]net.Listener, error) {
	var lc net.ListenConfig
	l4, err := lc.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	ls := []net.Listener{l4}
	port = l4.Addr().(*net.TCPAddr).Port //nolint:errcheck // a TCP listener has one
	if l6, err := lc.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(port))); err == nil {
		ls = append(ls, l6)
	}
	return ls, nil
}

// outcome is what the browser brought.
type outcome struct{ code, refused string }

// returning takes the browser in when it comes back. The first answer that
// carries the right state counts; everything else is turned away and does not
// end the sign-in, so that no other page can spoil it.
type returning struct {
	redirect *url.URL
	state    string
	got      chan outcome // holds one

	listening bool

	mu   sync.Mutex
	over bool
}

// ServeHTTP is the page at which the browser ends.
func (r *returning) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	say := func(status int, text string) { httpsafe.SayReturn(w, status, text) }
	host, port, err := net.SplitHostPort(req.Host)
	switch {
	case err != nil || port != r.redirect.Port() || !loopback(host):
		say(http.StatusForbidden, "This address is only for the sign-in.")
		return
	case req.URL.Path != r.redirect.Path:
		say(http.StatusNotFound, "There is nothing here.")
		return
	case req.Method != http.MethodGet:
		say(http.StatusMethodNotAllowed, "This address is only for the sign-in.")
		return
	}
	q := req.URL.Query()
	if !r.mine(q.Get("state")) {
		say(http.StatusBadRequest, "This does not belong to the sign-in that is waiting. Please start again from the terminal.")
		return
	}
	o := outcome{code: q.Get("code")}
	if q.Get("error") != "" || o.code == "" {
		o = outcome{refused: cmp.Or(q.Get("error_description"), q.Get("error"), "no code was given")}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		say(http.StatusGone, "This sign-in is over already. You can close this window.")
		return
	}
	r.over = true
	r.got <- o
	if o.refused != "" {
		say(http.StatusOK, "The sign-in was refused. The terminal says more.")
		return
	}
	say(http.StatusOK, "Thank you. You can close this window and go back to the terminal.")
}

// mine compares in constant time, so that the state cannot be guessed by pieces.
func (r *returning) mine(state string) bool {
	return subtle.ConstantTimeCompare([]byte(state), []byte(r.state)) == 1
}

// pasted reads what a person copied from the browser: the whole address, its
// query, or the code alone.
func (r *returning) pasted(line string) (string, error) {
	line = strings.Trim(strings.TrimSpace(line), `"'<>`)
	var q url.Values
	switch {
	case strings.Contains(line, "://"):
		u, err := url.Parse(line)
		if err != nil {
			return "", errors.New("it is not an address")
		}
		if u.Scheme != r.redirect.Scheme || !loopback(u.Hostname()) || u.Port() != r.redirect.Port() || u.Path != r.redirect.Path {
			return "", fmt.Errorf("the address should begin with %s", r.redirect)
		}
		q = u.Query()
	case strings.Contains(line, "code="):
		var err error
		if q, err = url.ParseQuery(strings.TrimLeft(line, "?&")); err != nil {
			return "", errors.New("it is not a part of an address")
		}
	case strings.ContainsAny(line, " \t&="):
		return "", errors.New("it is neither an address nor a code")
	default:
		code, state, both := strings.Cut(line, "#")
		if both && !r.mine(state) {
			return "", errors.New("it belongs to another sign-in")
		}
		return code, nil
	}
	if !r.mine(q.Get("state")) {
		return "", errors.New("it belongs to another sign-in")
	}
	if e := cmp.Or(q.Get("error_description"), q.Get("error")); e != "" {
		return "", errors.New("the sign-in was refused")
	}
	if q.Get("code") == "" {
		return "", errors.New("it has no code in it")
	}
	return q.Get("code"), nil
}
