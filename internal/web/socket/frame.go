package socket

import (
	"strconv"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// frame is a JSON object under construction, without its closing brace. It is
// built by hand because every piece of every answer becomes one.
type frame []byte

// newFrame begins an event. Chat is "" for events that belong to none.
func newFrame(event, chat string, size int) frame {
	f := append(make(frame, 0, size+len(event)+len(chat)+96), `{"event":"`...)
	f = append(append(f, event...), '"')
	return f.text("chat_id", chat)
}

// key appends a name of our own, which does not need escaping.
func (f frame) key(k string) frame {
	return append(append(append(f, `,"`...), k...), `":`...)
}

// text appends a string, unless it is empty.
func (f frame) text(k, v string) frame {
	if v == "" {
		return f
	}
	return f.must(k, v)
}

// must appends a string, empty or not.
func (f frame) must(k, v string) frame { return text.AppendJSON(f.key(k), v) }

func (f frame) number(k string, v int64) frame { return strconv.AppendInt(f.key(k), v, 10) }

func (f frame) flag(k string, v bool) frame { return strconv.AppendBool(f.key(k), v) }

// raw appends what is JSON already.
func (f frame) raw(k string, v []byte) frame { return append(f.key(k), v...) }

// list appends a list of strings.
func (f frame) list(k string, v []string) frame { return appendList(f.key(k), v) }

func appendList(b []byte, v []string) []byte {
	b = append(b, '[')
	for i, s := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = text.AppendJSON(b, s)
	}
	return append(b, ']')
}

// end closes the object.
func (f frame) end() []byte { return append(f, '}') }

// numbered closes the object of an event that has a place in its chat.
func (f frame) numbered(seq int64) []byte { return f.number("seq", seq).end() }
