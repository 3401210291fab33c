package document

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"testing"
)

// The limits of a part count what comes out, not what the file says.
func TestMemberLimit(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	chunk := make([]byte, 64<<10)
	for _, name := range []string{"a", "b", "c"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		n := 10
		if name == "a" {
			n = 13
		}
		for range n {
			if _, err := f.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z, err := openArchive(&input{ctx: t.Context(), r: bytes.NewReader(b.Bytes()), size: int64(b.Len())})
	if err != nil {
		t.Fatal(err)
	}
	z.memberLimit, z.totalLimit = 12<<16, 25<<16
	drain := func(name string) (int64, error) {
		p, err := z.open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		n, err := io.Copy(io.Discard, resetting{p.m})
		return n, err
	}
	if n, err := drain("a"); !errors.Is(err, ErrTooLarge) || n > z.memberLimit {
		t.Errorf("a part of 13 chunks: %d bytes, %v", n, err)
	}
	if _, err := drain("b"); err != nil {
		t.Errorf("a part of 10 chunks: %v", err)
	}
	if _, err := drain("c"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("together over 25 chunks: %v", err)
	}
}

// resetting pretends that every read is an XML token of its own.
type resetting struct{ m *member }

func (r resetting) Read(p []byte) (int, error) {
	r.m.token = 0
	return r.m.Read(p)
}
