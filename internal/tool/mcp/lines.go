package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// maxLine bounds one message of a stdio server.
	maxLine = 4 << 20
	// maxKept is how much of the beginning and end of a longer line is kept, to
	// find out which request it answers.
	maxKept = 4 << 10
	// maxStderr is how much of a server's log is kept.
	maxStderr = 64 << 10
)

// lineReader reads newline-delimited JSON-RPC messages and survives what is
// none: banners and log lines of servers that print to the wrong stream, and
// lines of any length.
type lineReader struct {
	r     *bufio.Reader
	queue []jsonrpc.Message // rest of a batch
	odd   func(line string) // told of every line that is not a message
}

func newLineReader(r io.Reader, odd func(string)) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 32<<10), odd: odd}
}

// next returns the next message, or the error that ends the stream.
func (l *lineReader) next() (jsonrpc.Message, error) {
	for {
		if len(l.queue) > 0 {
			m := l.queue[0]
			l.queue = l.queue[1:]
			return m, nil
		}

		line, tail, err := l.line()
		switch {
		case tail != nil:
			if m := tooLong(line, tail); m != nil {
				return m, nil
			}
			l.odd(fmt.Sprintf("a line of more than %d MiB was dropped", maxLine>>20))
		case len(bytes.TrimSpace(line)) > 0:
			if l.queue = decodeLine(line); l.queue == nil {
				l.odd(string(line[:min(len(line), 300)]))
			}
		}

		if err != nil && len(l.queue) == 0 {
			return nil, err
		}
	}
}

// line reads one line. Of one that is too long only beginning and end come back.
func (l *lineReader) line() (line, tail []byte, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		switch {
		case tail != nil:
			tail = append(tail, part...)
			tail = tail[max(0, len(tail)-maxKept):]
		case len(line)+len(part) > maxLine:
			tail = append(tail, part[max(0, len(part)-maxKept):]...)
			line = bytes.Clone(line[:min(len(line), maxKept)])
		default:
			line = append(line, part...)
		}

		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tail, err
		}
	}
}

// decodeLine reads a message or a batch of messages; nil when it is neither.
func decodeLine(line []byte) []jsonrpc.Message {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' && line[0] != '[' {
		return nil
	}

	if line[0] == '{' {
		m, err := jsonrpc.DecodeMessage(line)
		if err != nil {
			return nil
		}
		return []jsonrpc.Message{m}
	}

	var batch []json.RawMessage
	if json.Unmarshal(line, &batch) != nil {
		return nil
	}

	var out []jsonrpc.Message
	for _, raw := range batch {
		if m, err := jsonrpc.DecodeMessage(raw); err == nil {
			out = append(out, m)
		}
	}
	return out
}

var (
	idInFront = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,`)
	})
	idAtEnd = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`,\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
	})
)

// tooLong makes the answer to a request whose real answer was too long to be
// read, so that its caller does not wait for it. nil when the request cannot
// be told.
func tooLong(head, tail []byte) jsonrpc.Message {
	m := idInFront().FindSubmatch(head)
	if m == nil {
		m = idAtEnd().FindSubmatch(tail)
	}

	if m == nil {
		return nil
	}

	var n float64
	if json.Unmarshal(m[1], &n) != nil {
		return nil
	}

	id, err := jsonrpc.MakeID(n)
	if err != nil {
		return nil
	}
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the answer is longer than %d MiB and was dropped", maxLine>>20),
	}}
}

// ring keeps the end of what a server logs.
type ring struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer and never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = append(r.buf, p...)
	if len(r.buf) > 2*maxStderr { // moved seldom, so that small writes stay cheap
		r.buf = append(r.buf[:0], r.buf[len(r.buf)-maxStderr:]...)
	}
	return len(p), nil
}

func (r *ring) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.buf[max(0, len(r.buf)-maxStderr):])
}

// last returns the last line that is not empty.
func (r *ring) last() string {
	s := strings.TrimRight(r.text(), "\r\n\t ")
	return s[strings.LastIndexByte(s, '\n')+1:]
}
