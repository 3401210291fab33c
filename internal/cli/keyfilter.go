package cli

import "io"

const (
	keyEscape    = 0x1b
	maxKeySeries = 32 // bytes of the longest key that a terminal sends
)

// keyFilter passes on what a terminal sends, but escape sequences only as a whole.
// The line editor below it reads everything after a lone Esc as part of a sequence:
// after the Esc key, Ctrl-C and the next letters would not arrive. So Esc alone, and
// a sequence that a control character interrupts, are dropped.
type keyFilter struct {
	in   io.Reader
	part []byte // of a sequence that is not complete
	out  []byte // to be read
}

// Read implements io.Reader.
func (k *keyFilter) Read(p []byte) (int, error) {
	for len(k.out) == 0 {
		buf := make([]byte, 256)
		n, err := k.in.Read(buf)
		for _, b := range buf[:n] {
			k.add(b)
		}
		if err != nil && len(k.out) == 0 {
			return 0, err
		}
	}

	n := copy(p, k.out)
	k.out = k.out[n:]
	return n, nil
}

// add takes one byte.
func (k *keyFilter) add(b byte) {
	switch {
	case b == keyEscape: // what was begun before it is not a key
		k.part = []byte{b}
	case len(k.part) == 0:
		k.out = append(k.out, b)
	case len(k.part) == 1 && (b == '[' || b == 'O'):
		k.part = append(k.part, b)
	case len(k.part) == 1: // Esc was a key of its own
		k.part = nil
		k.out = append(k.out, b)
	case b < ' ': // such as Ctrl-C
		k.part = nil
		k.out = append(k.out, b)
	case b >= '@' && b <= '~': // the last byte of a sequence
		k.out = append(append(k.out, k.part...), b)
		k.part = nil
	case len(k.part) == maxKeySeries:
		k.part = nil
	default:
		k.part = append(k.part, b)
	}
}
