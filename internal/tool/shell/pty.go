package shell

import (
	"bytes"
	"os/exec"
)

// The size of a terminal: as long as lines usually are, so that few are folded.
const (
	terminalRows    = 40
	terminalColumns = 120
)

// endOfInput is typed by Ctrl-D: the end of the input, for a program that
// reads lines.
const endOfInput = "\x04"

// newTerminalStreams gives a command a terminal for its three streams. What it
// writes goes to one sink, as text.
func newTerminalStreams(cmd *exec.Cmd, to sink) (*streams, error) {
	ours, theirs, err := openTerminal()
	if err != nil {
		return nil, err
	}

	cmd.Stdin = theirs
	cmd.Stdout = theirs
	cmd.Stderr = theirs
	return &streams{
		copies:   []streamCopy{{r: ours, w: theirs, to: &terminalText{to: to}}},
		terminal: ours,
	}, nil
}

// typedText returns what the guard reads of the keys that are typed on a
// terminal: control characters are keys, and Enter ends a line.
func typedText(chars string) string {
	clean := &keptText{}
	t := terminalText{to: clean}
	_, _ = t.Write([]byte(chars)) // never fails
	return clean.String()
}

type keptText struct{ bytes.Buffer }

func (*keptText) close() {}

// terminalText takes what is written to a terminal and leaves the text: colours,
// titles and movements of the cursor are left out, and each line ends with a
// line feed.
type terminalText struct {
	to     sink
	state  escape
	length int  // of the sequence so far
	line   bool // a carriage return came last
}

// escape is a place inside of an escape sequence.
type escape int

const (
	outsideEscape escape = iota
	afterEscape          // ESC
	inControl            // ESC [: up to a letter
	inString             // ESC ] and others: up to BEL or ESC \
	inStringEscape
)

// maxEscape bounds a sequence, so that one without an end does not swallow
// everything that follows.
const maxEscape = 4096

func (t *terminalText) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for _, c := range p {
		if t.state != outsideEscape {
			t.skip(c)
			continue
		}

		line := t.line
		t.line = false
		switch {
		case c == 0x1b:
			t.state, t.length = afterEscape, 0
			t.line = line
			continue
		case c == '\r':
			t.line = true
			continue
		case line: // a carriage return alone begins a line again, too
			out = append(out, '\n')
		}

		if c >= ' ' && c != 0x7f || c == '\t' || c == '\n' && !line {
			out = append(out, c)
		}
	}

	if len(out) > 0 {
		_, _ = t.to.Write(out) // a sink never fails
	}
	return len(p), nil
}

// skip follows an escape sequence.
func (t *terminalText) skip(c byte) {
	if t.length++; t.length > maxEscape {
		t.state = outsideEscape
		return
	}
	switch t.state {
	case afterEscape:
		switch {
		case c == '[':
			t.state = inControl
		case bytes.IndexByte([]byte("]PX^_"), c) >= 0:
			t.state = inString
		case c < ' ' || c > '/': // those between are followed by one more
			t.state = outsideEscape
		}

	case inControl:
		if c >= '@' && c <= '~' {
			t.state = outsideEscape
		}
	case inString:
		switch c {
		case 0x07:
			t.state = outsideEscape
		case 0x1b:
			t.state = inStringEscape
		}

	default:
		t.state = inString
		if c == '\\' {
			t.state = outsideEscape
		}
	}
}

func (t *terminalText) close() { t.to.close() }
