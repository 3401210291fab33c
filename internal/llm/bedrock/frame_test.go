package bedrock

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// vendorFrame was written by the vendor's own encoder and has a header of
// every type.
const vendorFrame = "000000c300000086cf4c6b770d3a6d6573736167652d747970650700056576656e7401620001660102693802030369313603000303693332040000000303693634050000000000000003026279060003616263027473080000000000001388017509010203000000000000000000000000000b3a6576656e742d74797065070011636f6e74656e74426c6f636b44656c74617b22636f6e74656e74426c6f636b496e646578223a302c2264656c7461223a7b2274657874223a226869227d7dcf9bb2cf"

func vendorBytes(tb testing.TB) []byte {
	tb.Helper()
	b, err := hex.DecodeString(vendorFrame)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// pack writes a frame with the given header bytes.
func pack(headers, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(preludeBytes+trailerBytes+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func TestFrame(t *testing.T) {
	t.Parallel()
	one := vendorBytes(t)
	r := frameReader{r: iotest.OneByteReader(bytes.NewReader(append(append([]byte(nil), one...), one...)))}
	for range 2 {
		f, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if f.kind != "event" || f.event != "contentBlockDelta" || string(f.payload) != `{"contentBlockIndex":0,"delta":{"text":"hi"}}` {
			t.Errorf("frame = %+v %s", f, f.payload)
		}
	}
	if _, err := r.next(); err != io.EOF { //nolint:errorlint // the end itself, not something that wraps it
		t.Errorf("after the last frame: %v, want EOF", err)
	}
}

// No flipped bit and no cut ever goes unnoticed.
func TestFrameDamage(t *testing.T) {
	t.Parallel()
	one := vendorBytes(t)
	for i := range one {
		bad := bytes.Clone(one)
		bad[i] ^= 1 << (i % 8)
		r := frameReader{r: bytes.NewReader(bad)}
		if _, err := r.next(); !errors.Is(err, errDamaged) {
			t.Errorf("byte %d flipped: error %v, want damage", i, err)
		}
		r = frameReader{r: bytes.NewReader(one[:i])}
		want := io.ErrUnexpectedEOF
		if i == 0 {
			want = io.EOF
		}
		if _, err := r.next(); err != want { //nolint:errorlint // the end itself
			t.Errorf("cut after %d bytes: error %v, want %v", i, err, want)
		}
	}
}

func TestFrameLies(t *testing.T) {
	t.Parallel()
	prelude := func(total, headers uint32) []byte {
		b := binary.BigEndian.AppendUint32(nil, total)
		b = binary.BigEndian.AppendUint32(b, headers)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	for name, b := range map[string][]byte{
		"too long":            prelude(maxFrameBytes+1, 0),
		"huge":                prelude(1<<32-1, 0),
		"headers too long":    prelude(1<<20, maxHeaderBytes+1),
		"headers past end":    prelude(100, 90),
		"headers overflow":    prelude(100, 1<<32-1),
		"shorter than itself": prelude(10, 0),
		"name past end":       pack([]byte{9, 'a', 7}, nil),
		"name only":           pack([]byte{1, 'a'}, nil),
		"value past end":      pack([]byte{1, 'a', 7, 0, 9, 'x'}, nil),
		"length cut":          pack([]byte{1, 'a', 7, 0}, nil),
		"unknown type":        pack([]byte{1, 'a', 10, 0, 0}, nil),
		"number cut":          pack([]byte{1, 'a', 4, 0, 0}, nil),
	} {
		r := frameReader{r: bytes.NewReader(b)}
		if f, err := r.next(); !errors.Is(err, errDamaged) {
			t.Errorf("%s: frame %+v, error %v, want damage", name, f, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(vendorBytes(f))
	f.Add(pack([]byte("\x0d:message-type\x07\x00\x09exception\x0f:exception-type\x07\x00\x03abc"), []byte(`{}`)))
	f.Add([]byte(strings.Repeat("\x00", 40)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, stream := range [][]byte{data, pack(data[:len(data)/2], data[len(data)/2:])} {
			r := frameReader{r: bytes.NewReader(stream)}
			total := 0
			for {
				fr, err := r.next()
				if err != nil {
					break
				}
				if total += len(fr.payload) + preludeBytes + trailerBytes; total > len(stream) {
					t.Fatalf("%d bytes of frames in a stream of %d", total, len(stream))
				}
			}
		}
	})
}
