package httpsafe

import (
	"strings"
)

// Stream redacts text that arrives in pieces: a value cut in two by the pieces
// is still found, because what could be its beginning is held back until more
// is known. At most the length of the longest form of a value waits. Not safe
// for concurrent use.
type Stream struct {
	r       *Registry
	held    string
	covered int // bytes at the start of held whose replacement is already out
}

// Stream starts a stream.
func (r *Registry) Stream() *Stream { return &Stream{r: r} }

// Push takes a piece and returns what is certain so far, perhaps nothing.
func (s *Stream) Push(piece string) string {
	m := s.r.find()
	if m == nil && s.held == "" {
		return piece
	}
	buf := s.held + piece
	if m == nil {
		return s.emit(nil, buf, len(buf))
	}
	return s.emit(m, buf, m.partial(buf))
}

// Flush returns what was held back; the stream can be used again.
func (s *Stream) Flush() string {
	if s.held == "" {
		return ""
	}
	return s.emit(s.r.find(), s.held, len(s.held))
}

// emit redacts what begins before limit and keeps the rest.
func (s *Stream) emit(m *matcher, buf string, limit int) string {
	var b strings.Builder
	at := s.covered // everything before is out or replaced
	for from := 0; m != nil; {
		start, end, name, ok := m.span(buf, from)
		if !ok || start >= limit {
			break
		}

		if start > at || start == at && at == 0 {
			b.WriteString(buf[at:start])
			b.WriteString(marker(name))
		}
		at, from = max(at, end), end
	}

	if at < limit {
		b.WriteString(buf[at:limit])
		at = limit
	}

	s.held, s.covered = buf[limit:], at-limit
	return b.String()
}
