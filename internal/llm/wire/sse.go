package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// maxSSEBytes bounds one line, and the joined data of one event, of a stream.
// Whole images travel in one line at some gateways, so the limit is generous.
const maxSSEBytes = 16 << 20

// SSEEvent is one server-sent event.
type SSEEvent struct {
	// Name is the event field, "" if the server sent none. Chat servers never
	// do, others repeat the name inside Data.
	Name string
	// Data is the joined data lines. It is reused: copy what must outlive the
	// iteration step.
	Data []byte
}

// SSE reads a stream of server-sent events until EOF. Lines may end in LF,
// CRLF or CR; a byte order mark, comments and unknown fields are skipped; an
// event that the end of the stream leaves without its blank line is still
// delivered. A read error is yielded once, as the last element; EOF is not an
// error here, because only the driver knows whether the answer was complete.
func SSE(r io.Reader) iter.Seq2[SSEEvent, error] {
	return func(yield func(SSEEvent, error) bool) {
		s := sseReader{br: bufio.NewReaderSize(r, 1<<10)}
		for {
			ev, ok, err := s.next()
			if err != nil {
				yield(SSEEvent{}, err)
				return
			}
			if !ok || !yield(ev, nil) {
				return
			}
		}
	}
}

// SniffSSE tells whether a body is a stream of events, by what the server calls
// it or how it begins. The reader gives all of it.
func SniffSSE(contentType string, body io.Reader) (io.Reader, bool) {
	if strings.Contains(contentType, "event-stream") {
		return body, true
	}

	br := bufio.NewReader(body)
	lead, _ := br.Peek(16)
	lead = bytes.TrimLeft(lead, "\xEF\xBB\xBF \t\r\n")
	for _, p := range []string{"data:", "event:", ":", "id:", "retry:"} {
		if bytes.HasPrefix(lead, []byte(p)) {
			return br, true
		}
	}
	return br, false
}

type sseReader struct {
	br     *bufio.Reader
	line   []byte // the current line, when it spans buffers
	data   []byte
	skipLF bool // the last line ended in CR; a LF now belongs to it
	begun  bool // the byte order mark was looked for
	ended  bool
}

// next returns the next event that has data; ok is false at the end.
func (s *sseReader) next() (ev SSEEvent, ok bool, err error) {
	s.data = s.data[:0]
	has := false
	for !s.ended {
		line, err := s.readLine()
		if err == io.EOF { //nolint:errorlint // an error that wraps it is not a clean end
			s.ended = true
			if len(line) == 0 {
				break
			}
		} else if err != nil {
			return SSEEvent{}, false, err
		}

		if len(line) == 0 {
			if has {
				ev.Data = s.data
				return ev, true, nil
			}
			ev.Name = ""
			continue
		}

		field, value := splitField(line)
		switch field {
		case "data":
			if has {
				s.data = append(s.data, '\n')
			}
			has = true
			s.data = append(s.data, value...)
			if len(s.data) > maxSSEBytes {
				return SSEEvent{}, false, errTooLong()
			}
		case "event":
			ev.Name = string(value)
		}
	}

	ev.Data = s.data
	return ev, has, nil
}

// splitField separates "name: value"; a comment has the empty name.
func splitField(line []byte) (field string, value []byte) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		return "data", value
	case "event":
		return "event", value
	}
	return "", nil
}

// readLine returns the next line without its end. The result is valid until
// the next call. io.EOF may come together with a last unterminated line.
func (s *sseReader) readLine() ([]byte, error) {
	s.line = s.line[:0]
	for {
		if _, err := s.br.Peek(1); err != nil {
			return s.line, err
		}

		chunk, _ := s.br.Peek(s.br.Buffered())
		if s.skipLF {
			s.skipLF = false
			if chunk[0] == '\n' {
				_, _ = s.br.Discard(1)
				continue
			}
		}

		if !s.begun {
			if skip, more := s.byteOrderMark(); skip {
				continue
			} else if more {
				chunk, _ = s.br.Peek(s.br.Buffered())
			}
		}

		i := lineEnd(chunk)
		if i < 0 {
			s.line = append(s.line, chunk...)
			_, _ = s.br.Discard(len(chunk))
			if len(s.line) > maxSSEBytes {
				return nil, errTooLong()
			}
			continue
		}

		s.skipLF = chunk[i] == '\r'
		line := chunk[:i]
		if len(s.line) > 0 {
			s.line = append(s.line, line...)
			line = s.line
		}

		_, _ = s.br.Discard(i + 1) // does not move the buffer: line stays valid
		return line, nil
	}
}

// byteOrderMark drops a BOM at the very start. It waits for three bytes only
// if the first one can begin a mark.
func (s *sseReader) byteOrderMark() (skipped, refilled bool) {
	s.begun = true
	if b, _ := s.br.Peek(1); b[0] != 0xEF {
		return false, false
	}

	b, _ := s.br.Peek(3)
	if bytes.Equal(b, []byte("\xEF\xBB\xBF")) {
		_, _ = s.br.Discard(3)
		return true, false
	}
	return false, true
}

func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n >= 0 {
		b = b[:n]
	}
	if r := bytes.IndexByte(b, '\r'); r >= 0 {
		return r
	}
	return n
}

func errTooLong() *llm.Error {
	no := false
	return &llm.Error{
		Kind: llm.ServerError, ShouldRetry: &no,
		Message: fmt.Sprintf("the server sent an event longer than %d MiB", maxSSEBytes>>20),
	}
}

// Idle cancels a request when its server stays silent. Every byte that arrives
// through Body counts as life, so comments and pings keep a slow model going.
// The limit is separate for the first byte, because a local server may read a
// long prompt for minutes before it says anything.
type Idle struct {
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	between time.Duration
}

// WatchIdle starts watching: the returned context ends with a Timeout error as
// its cause if first passes before the first byte, or between after any later
// one. A zero duration means no limit. Stop must be called.
func WatchIdle(ctx context.Context, first, between time.Duration) (context.Context, *Idle) {
	ctx, cancel := context.WithCancelCause(ctx)
	i := &Idle{cancel: cancel, between: between}
	start := first
	if start <= 0 {
		start = between
	}

	if start <= 0 {
		return ctx, i
	}

	i.timer = time.AfterFunc(start, func() {
		cancel(&llm.Error{Kind: llm.Timeout, Message: "the model server was silent for too long"})
	})
	if first <= 0 {
		i.timer.Stop()
	}
	return ctx, i
}

// Alive restarts the clock.
func (i *Idle) Alive() {
	if i.timer == nil {
		return
	}
	if i.between <= 0 {
		i.timer.Stop()
		return
	}
	i.timer.Reset(i.between)
}

// Limit lowers the allowed silence from now on, for the moment when only
// trailing data is missing.
func (i *Idle) Limit(d time.Duration) {
	if i.between <= 0 || i.between > d {
		i.between = d
	}
	if i.timer != nil {
		i.timer.Reset(i.between)
	}
}

// Drain reads what is left of a body whose answer is already complete, so that
// the connection can be used again. Servers that keep the body open lose the
// connection after a moment instead.
func (i *Idle) Drain(body io.Reader) {
	const drainLimit = 50 * time.Millisecond
	i.between = 0
	if i.timer == nil {
		i.timer = time.AfterFunc(drainLimit, func() { i.cancel(context.Canceled) })
	} else {
		i.timer.Reset(drainLimit)
	}

	if b, ok := body.(*idleBody); ok {
		body = b.body
	}
	_, _ = io.CopyN(io.Discard, body, 64<<10)
}

// Stop ends the watch and releases the context.
func (i *Idle) Stop() {
	if i.timer != nil {
		i.timer.Stop()
	}
	i.cancel(context.Canceled)
}

// Body watches the reads of a response body made under ctx, the context from
// WatchIdle. A read that fails because the watch fired returns the Timeout
// error instead of the transport's.
func (i *Idle) Body(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	i.Alive()
	return &idleBody{body: body, idle: i, cause: func() error { return context.Cause(ctx) }}
}

type idleBody struct {
	body  io.ReadCloser
	idle  *Idle
	cause func() error
}

func (b *idleBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if n > 0 {
		b.idle.Alive()
	}

	if err != nil && err != io.EOF { //nolint:errorlint // an error that wraps it is not a clean end
		if e, ok := errors.AsType[*llm.Error](b.cause()); ok && e.Kind == llm.Timeout {
			err = e
		}
	}
	return n, err
}

func (b *idleBody) Close() error { return b.body.Close() }
