package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// capture keeps the beginning and the end of a stream in bounded memory,
// however much is written: the first half characters and the last half.
// Invalid UTF-8 becomes U+FFFD as it arrives, also across writes.
type capture struct {
	half    int    // characters kept at either end
	pending []byte // start of a character whose rest has not arrived; < utf8.UTFMax bytes
	head    []byte
	headLen int    // characters in head
	tail    []byte // the newest text after head; trimmed when it reaches twice its bound
	total   int    // characters seen
}

func newCapture(limit int) *capture { return &capture{half: (limit + 1) / 2} }

// Write never fails; it implements io.Writer.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	if len(c.pending) > 0 {
		p = append(c.pending, p...)
		c.pending = nil
	}
	if cut := incomplete(p); cut > 0 {
		c.pending = append([]byte(nil), p[len(p)-cut:]...)
		p = p[:len(p)-cut]
	}

	c.add(p)
	return n, nil
}

// incomplete returns how many bytes at the end of p may begin a character.
func incomplete(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if tail := p[len(p)-i:]; utf8.RuneStart(tail[0]) {
			if tail[0] >= utf8.RuneSelf && !utf8.FullRune(tail) {
				return i
			}
			return 0
		}
	}
	return 0
}

func (c *capture) add(p []byte) {
	if !utf8.Valid(p) {
		p = []byte(string([]rune(string(p))))
	}

	c.total += utf8.RuneCount(p)
	for c.headLen < c.half && len(p) > 0 {
		_, n := utf8.DecodeRune(p)
		c.head = append(c.head, p[:n]...)
		c.headLen++
		p = p[n:]
	}

	bound := c.half * utf8.UTFMax
	if len(p) > bound {
		p = p[len(p)-bound:]
	}
	if c.tail = append(c.tail, p...); len(c.tail) > 2*bound {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-bound:]...)
	}
}

// close ends the stream: a character that was never completed is invalid.
func (c *capture) close() {
	p := c.pending
	c.pending = nil
	c.add(p)
}

// drain hands over what was captured so far and starts again. A character whose
// rest has not arrived stays behind.
func (c *capture) drain() *capture {
	old := *c
	*c = capture{half: c.half, pending: c.pending}
	old.pending = nil
	return &old
}

// text renders at most limit characters plus a marker that counts the rest.
func (c *capture) text(limit int) string {
	kept := c.total <= 2*c.half && c.total <= limit
	if kept {
		return string(c.head) + string(c.tail)
	}

	limit = min(limit, 2*c.half)
	whole := string(c.head)
	if c.total <= 2*c.half {
		whole += string(c.tail) // nothing was lost yet, so the tail starts where the head ends
	}
	return firstChars(whole, limit-limit/2) +
		fmt.Sprintf("\n[... %d characters cut ...]\n", c.total-limit) +
		lastChars(string(c.tail), string(c.head), limit/2)
}

func firstChars(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// lastChars takes the last n characters of before+s, where before is needed
// only when s is shorter than that.
func lastChars(s, before string, n int) string {
	if utf8.RuneCountInString(s) < n {
		s = before + s
	}
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}

// ending says how a command ended.
type ending int

const (
	exited ending = iota
	timedOut
	cancelled
	exceeded // it used too much
)

// outcome is a finished command.
type outcome struct {
	stdout, stderr *capture
	code           int
	end            ending
	stopped        int   // background processes that had to be stopped
	outside        bool  // what was printed may come from outside
	over           error // what it used too much of
}

// render shows both streams within limit characters.
func (o *outcome) render(limit int) string {
	text := both(o.stdout, o.stderr, limit)
	if o.stopped > 0 && o.end == exited {
		text += fmt.Sprintf("\n[%d background process(es) stopped: none may outlive the call]", o.stopped)
	}
	return strings.TrimPrefix(text, "\n")
}

// both shows two streams within limit characters: what one does not need the
// other may use, and each is sure of half.
func both(stdout, stderr *capture, limit int) string {
	outLen, errLen := stdout.total, stderr.total
	errShare := min(errLen, max(limit/2, limit-outLen))
	text := stdout.text(min(outLen, limit-errShare))
	if e := stderr.text(errShare); strings.TrimSpace(e) != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "STDERR:\n" + e
	}
	return strings.TrimRight(text, "\n")
}
