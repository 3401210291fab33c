package socket

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writes is a connection that notes each write.
type writes struct {
	net.Conn
	got []string
	err error
}

func (w *writes) Write(p []byte) (int, error) {
	w.got = append(w.got, string(p))
	return len(p), w.err
}

// SetWriteDeadline fails after the first write, as if the peer had got it and
// gone at once.
func (w *writes) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return net.ErrClosed
	}
	return nil
}

func TestCork(t *testing.T) {
	t.Parallel()
	w := &writes{}
	c := &cork{Conn: w}
	say := func(s string) {
		t.Helper()
		if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	say("a")
	c.hold()
	say("b")
	say("c")
	if err := c.flush(); err != nil {
		t.Fatal(err)
	}
	say("d")
	if diff := cmp.Diff([]string{"a", "bc", "d"}, w.got); diff != "" {
		t.Error(diff)
	}
	w.got = nil
	c.hold()
	for range 3 {
		say(string(bytes.Repeat([]byte("x"), corkBytes/2)))
	}
	if len(w.got) != 1 {
		t.Errorf("%d writes while much is held back, want 1", len(w.got))
	}
	w.err = errors.New("gone")
	if err := c.flush(); !errors.Is(err, w.err) {
		t.Errorf("flush = %v", err)
	}
}
