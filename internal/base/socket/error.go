package socket

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	ws "github.com/coder/websocket"
)

// The errors of a connection.
var (
	// ErrLost is wrapped by errors of Send, Call and Next after the connection
	// ended, together with the reason.
	ErrLost = errors.New("the connection is lost")
	// errSilent ends a connection whose server does not answer any more.
	errSilent = errors.New("the server does not answer any more")
	// errTooLarge ends a connection whose server sends a larger frame than
	// MaxFrame.
	errTooLarge = errors.New("the server sends a frame that is too large")
)

// CloseError says that the server closed the connection.
type CloseError struct {
	Code   int // 1005: none was given
	Reason string
}

func (e *CloseError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the server closed the connection with code %d", e.Code)
	}
	return fmt.Sprintf("the server closed the connection with code %d: %q", e.Code, e.Reason)
}

// StatusError says that the server refused the handshake.
type StatusError struct {
	Host   string
	Code   int
	Header http.Header // of the answer; not part of the text
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s refuses the connection: HTTP status %d %s", e.Host, e.Code, http.StatusText(e.Code))
}

// verdict is an error that says how to go on.
type verdict struct {
	err   error
	fatal bool
	after time.Duration
}

func (v *verdict) Error() string { return v.err.Error() }
func (v *verdict) Unwrap() error { return v.err }

// Fatal marks an error after which connecting again is pointless: it ends Run.
func Fatal(err error) error { return &verdict{err: err, fatal: true} }

// After marks an error after which to connect again when d has passed. A pause
// shorter than the usual one is kept only after a connection that lasted a
// minute, so that no server can make us connect in a loop.
func After(d time.Duration, err error) error { return &verdict{err: err, after: d} }

// readError translates what the library says about the end of a connection.
func readError(err error, hide *strings.Replacer) error {
	if e, ok := errors.AsType[ws.CloseError](err); ok {
		return &CloseError{Code: int(e.Code), Reason: hide.Replace(e.Reason)}
	}

	switch {
	case errors.Is(err, ws.ErrMessageTooBig):
		return errTooLarge
	case errors.Is(err, net.ErrClosed): // by the library: it could not write
		return errSilent
	}
	return fmt.Errorf("read from the server: %w", err)
}

// dialError is about a failed handshake. Of the address it names the host.
func dialError(t Target, res *http.Response, err error) error {
	u, parseErr := url.Parse(t.URL)
	if parseErr != nil {
		return errors.New("the address to connect to is not a URL")
	}

	if res != nil && res.StatusCode != http.StatusSwitchingProtocols {
		refused := &StatusError{Host: u.Host, Code: res.StatusCode, Header: res.Header}
		if n, _ := strconv.Atoi(res.Header.Get("Retry-After")); n > 0 {
			return After(time.Duration(min(n, 3600))*time.Second, refused)
		}
		return refused
	}

	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the address
	}
	return fmt.Errorf("connect to %s: %s", u.Host, t.redactor().Replace(err.Error()))
}

// redactor hides what a server may repeat of an address, headers and
// subprotocols.
func (t Target) redactor() *strings.Replacer {
	list := slices.Clone(t.Subprotocols)
	if u, err := url.Parse(t.URL); err == nil {
		password, _ := u.User.Password()
		list = append(list, u.RawQuery, u.EscapedPath(), password)
		for _, values := range u.Query() {
			list = append(list, values...)
		}
	}

	for _, values := range t.Header {
		list = append(list, values...)
	}

	var pairs []string
	for _, s := range list {
		if len(s) > 3 { // less is not a secret, and would be found in any text
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}
