// Package wire has what the drivers of model protocols share: event streams,
// limits on silence, classification of errors, the arguments of tool calls and
// calls written as text, the arrangement of a history into alternating turns,
// and the thinking modes of Claude models.
package wire

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Endpoint returns the address that requests go to: path appended to base, unless
// base ends in it already, with the query added. The error names no provider.
func Endpoint(base, path string, query map[string]string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", &llm.Error{Kind: llm.Configuration, Message: fmt.Sprintf("base URL %q is not an http(s) URL", base)}
	}

	if u.Path = strings.TrimRight(u.Path, "/"); !strings.HasSuffix(u.Path, path) {
		u.Path += path
	}

	if len(query) > 0 {
		q := u.Query()
		for k, v := range query {
			q.Set(k, v)
		}
		u.RawQuery = q.Encode()
	}

	return u.String(), nil
}

// Silence returns how long a driver waits for the first byte, and how long a
// stream may be silent later: as given, without limit (0) if that is negative.
// Given 0, it is 120 s and 90 s, or 600 s and 300 s for a local server, which
// may read a long prompt for minutes; the wait for the first byte is then never
// the shorter one.
func Silence(first, idle time.Duration, local bool) (atFirst, later time.Duration) {
	usual := [2]time.Duration{120 * time.Second, 90 * time.Second}
	if local {
		usual = [2]time.Duration{600 * time.Second, 300 * time.Second}
	}

	later = max(cmp.Or(idle, usual[1]), 0)
	switch {
	case first != 0:
		return max(first, 0), later
	case idle < 0:
		return 0, later
	}
	return max(usual[0], later), later
}

// Resendable marks a request that may be sent again if the server has closed a
// reused connection before the first byte of an answer, as servers do whose
// keep-alive ends at that moment. The HTTP client does so at once, on another
// connection; nothing of the mark is sent.
func Resendable(h http.Header) { h["Idempotency-Key"] = []string{} }

// ErrStopped is returned by emit to an exchange whose consumer has left the
// loop.
var ErrStopped = errors.New("the consumer stopped")

// Streamed makes a stream of an exchange with a server. An *Error before the
// first event goes to again, with how often that has happened before: if it
// says so, the exchange is made once more. A nil again never does.
func Streamed(exchange func(emit func(llm.Event) error) error, again func(before int, e *llm.Error) bool) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		started := false
		emit := func(ev llm.Event) error {
			started = true
			if !yield(ev, nil) {
				return ErrStopped
			}
			return nil
		}
		for n := 0; ; n++ {
			err := exchange(emit)
			if err == nil || errors.Is(err, ErrStopped) {
				return
			}
			if e, ok := errors.AsType[*llm.Error](err); ok && !started && again != nil && again(n, e) {
				continue
			}

			yield(llm.Event{}, err)
			return
		}
	}
}

// SizeOf guesses the size of an encoded request, to allocate its buffer once.
func SizeOf(req llm.Request) int {
	n := 1024 + len(req.System)
	for _, t := range req.Tools {
		n += 96 + len(t.Name) + len(t.Description) + len(t.Schema)
	}

	for _, m := range req.Messages {
		n += 160 + len(m.Content.Text)
		for _, b := range m.Content.Blocks {
			n += 96 + len(b.Text) + len(b.ImageURL) + len(b.Raw)
		}

		for _, c := range m.ToolCalls {
			n += 96 + len(c.Arguments)
		}

		for _, t := range m.Thinking {
			n += len(t) + 2
		}
	}

	return n + n/16 // escapes
}
