package text

import "bytes"

// Think separates what a model thinks from what it says, while the text
// arrives in pieces of any size. Reasoning stands in <think>, <thinking> or
// <thought> blocks (any case, blanks before ">" allowed). The rules can be
// honoured by a stream and give the same result for every way of cutting the
// text into pieces:
//
//   - Code is never touched: inside a fence, or between backticks on one line,
//     tags are ordinary text.
//   - A block at the start (only blanks, blocks and stray tags before it) is
//     reasoning as it arrives, also when it is never closed.
//   - A block opened later is reasoning if the closing tag of the same name
//     follows; its text is held until that is known. If the text ends first,
//     the tag was only mentioned, and it is visible with all that follows.
//   - Closing tags without a block and empty <think/> tags vanish at the start
//     and at the end of the text and are ordinary text elsewhere.
//   - An opening tag that lost its ">" vanishes where it cannot be a mention:
//     directly before a non-ASCII character, or at the start before anything
//     that does not continue the name.
//   - The channel markers <|channel|> and <channel|> vanish at the start.
//   - A tag that is cut off by the end of the text, from "<thi" on, vanishes.
//   - Blanks (ASCII) at the start and the end of the visible text and of each
//     block are removed; blocks are separated by an empty line.
//
// Apart from a block opened mid-text nothing is held back but blanks and an
// unfinished tag, and nothing visible is ever taken back. The zero value is
// ready for a new text; so is a Think after Close.
type Think struct {
	mode  thinkMode
	buf   []byte // arrived, not decided; in modeHeld it begins with the tag
	open  int    // length of that tag
	from  int    // where in buf the search for the closing tag goes on
	name  tagName
	dead  [tagNameCount]bool // at the end: names known to have no closing tag ahead
	seen  bool               // something visible was put out
	tail  []byte             // blanks and stray tags that vanish if nothing visible follows
	fresh bool               // the current block has put out nothing yet
	blank []byte             // blanks that vanish if the block ends here
	some  bool               // an earlier block put out reasoning
	code  codeSpans

	visible, reasoning []byte
}

type thinkMode uint8

const (
	modeText  thinkMode = iota
	modeBlock           // in a block from the start of the text: certainly reasoning
	modeHeld            // in a block opened mid-text: reasoning if it gets closed
)

// Feed takes the next piece of the text and returns what is now known to be
// visible and what is known to be reasoning; either may be empty.
func (t *Think) Feed(delta string) (visible, reasoning string) {
	t.buf = append(t.buf, delta...)
	t.run(false)
	return t.drain()
}

// Close says that the text is complete and returns the rest of it.
func (t *Think) Close() (visible, reasoning string) {
	t.run(true)
	visible, reasoning = t.drain()
	*t = Think{}
	return visible, reasoning
}

// splitThink separates a complete text by the rules of Think.
func splitThink(s string) (visible, reasoning string) {
	var t Think
	v1, r1 := t.Feed(s)
	v2, r2 := t.Close()
	return v1 + v2, r1 + r2
}

// StripThink returns the visible part of a complete text.
func StripThink(s string) string {
	visible, _ := splitThink(s)
	return visible
}

func (t *Think) drain() (visible, reasoning string) {
	visible, reasoning = string(t.visible), string(t.reasoning)
	t.visible, t.reasoning = t.visible[:0], t.reasoning[:0]
	return visible, reasoning
}

// run decides as much as possible; each step returns false when it needs more
// text or, at the end, when nothing is left.
func (t *Think) run(final bool) {
	for more := true; more; {
		switch t.mode {
		case modeText:
			more = t.text(final)
		case modeBlock:
			more = t.block(final)
		case modeHeld:
			more = t.held(final)
		}
	}
}

func (t *Think) text(final bool) bool {
	for {
		at := bytes.IndexByte(t.buf, '<')
		if at < 0 {
			t.show(len(t.buf))
			return false
		}

		t.show(at)
		if t.code.inside() {
			t.show(1)
			continue
		}

		tag := matchTag(t.buf)
		switch tag.kind {
		case tagNone:
			t.show(1)
		case tagPartial:
			switch {
			case !final:
				return false
			case tag.droppable(t.buf):
				t.skip(len(t.buf))
			default:
				t.show(1)
			}

		case tagOpen:
			if t.dead[tag.name] {
				t.show(tag.size)
				continue
			}

			t.name = tag.name
			t.fresh = true
			t.blank = t.blank[:0]

			if t.seen {
				t.mode = modeHeld
				t.open = tag.size
				t.from = tag.size
			} else {
				t.mode = modeBlock
				t.skip(tag.size)
			}

			return true

		case tagClose, tagEmpty:
			t.edge(tag.size)
		case tagBroken:
			if t.seen && t.buf[tag.size] < 0x80 {
				t.show(tag.size)
			} else {
				t.skip(tag.size)
			}

		case tagChannel:
			if t.seen {
				t.show(1)
			} else {
				t.skip(tag.size)
			}
		}
	}
}

func (t *Think) block(final bool) bool {
	at, size := t.findClose(0)
	switch {
	case size > 0:
		t.reason(t.buf[:at])
		t.skip(at + size)
		t.mode = modeText
		return true

	case final:
		if !matchTag(t.buf[at:]).droppable(t.buf[at:]) {
			at = len(t.buf)
		}
		t.reason(t.buf[:at])
		t.skip(len(t.buf))

	default:
		t.reason(t.buf[:at])
		t.skip(at)
	}

	return false
}

func (t *Think) held(final bool) bool {
	at, size := t.findClose(t.from)
	switch {
	case size > 0:
		t.reason(t.buf[t.open:at])
		t.skip(at + size)
		t.mode = modeText
		return true

	case final:
		t.dead[t.name] = true
		t.show(t.open)
		t.mode = modeText
		return true

	default:
		t.from = at
		return false
	}
}

// findClose looks for the closing tag of the current block. Without one, size
// is 0 and at is where it could still begin: an unfinished tag, or the end.
func (t *Think) findClose(from int) (at, size int) {
	for at = from; ; at++ {
		next := bytes.IndexByte(t.buf[at:], '<')
		if next < 0 {
			return len(t.buf), 0
		}

		at += next
		switch tag := matchTag(t.buf[at:]); {
		case tag.kind == tagClose && tag.name == t.name:
			return at, tag.size
		case tag.kind == tagPartial:
			return at, 0
		}
	}
}

// show makes the first n bytes of buf visible, except for blanks that may turn
// out to be outer ones.
func (t *Think) show(n int) {
	p := t.buf[:n]
	t.buf = t.buf[n:]
	if !t.seen {
		if p = bytes.TrimLeft(p, blanks); len(p) == 0 {
			return
		}
	}

	t.code.feed(p)
	body := bytes.TrimRight(p, blanks)
	if len(body) > 0 {
		t.visible = append(append(t.visible, t.tail...), body...)
		t.tail, t.seen = t.tail[:0], true
	}
	t.tail = append(t.tail, p[len(body):]...)
}

// edge drops the stray tag at the beginning of buf if it is at the start of
// the text, else keeps it for the case that visible text follows.
func (t *Think) edge(n int) {
	if t.seen {
		t.code.feed(t.buf[:n])
		t.tail = append(t.tail, t.buf[:n]...)
	}
	t.skip(n)
}

func (t *Think) skip(n int) { t.buf = t.buf[n:] }

func (t *Think) reason(p []byte) {
	if t.fresh {
		if p = bytes.TrimLeft(p, blanks); len(p) == 0 {
			return
		}
		if t.some {
			t.reasoning = append(t.reasoning, "\n\n"...)
		}
		t.fresh, t.some = false, true
	}

	body := bytes.TrimRight(p, blanks)
	if len(body) > 0 {
		t.reasoning = append(append(t.reasoning, t.blank...), body...)
		t.blank = t.blank[:0]
	}
	t.blank = append(t.blank, p[len(body):]...)
}

const blanks = " \t\r\n\v\f"
