package bedrock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	preludeBytes = 12 // total length, header length, checksum of both
	trailerBytes = 4  // checksum of everything before it

	// Limits of the protocol; a longer frame is not one.
	maxFrameBytes  = 16 << 20
	maxHeaderBytes = 128 << 10
)

// errDamaged is a stream whose bytes are not those the server sent.
var errDamaged = errors.New("the server's stream is damaged")

// frame is one message of the vendor's binary event stream. Only the headers
// this protocol uses are kept.
type frame struct {
	kind      string // :message-type: event, exception or error
	event     string // :event-type
	exception string // :exception-type, or :error-code
	message   string // :error-message
	payload   []byte // valid until the next read
}

// frameReader reads frames; both checksums are verified, so nothing damaged is
// ever taken for an answer.
type frameReader struct {
	r   io.Reader
	buf []byte
}

// next returns io.EOF at the end of the stream and io.ErrUnexpectedEOF inside
// a frame.
func (r *frameReader) next() (frame, error) {
	var prelude [preludeBytes]byte
	if _, err := io.ReadFull(r.r, prelude[:]); err != nil {
		return frame{}, err
	}

	total, headers := binary.BigEndian.Uint32(prelude[:]), binary.BigEndian.Uint32(prelude[4:])
	switch {
	case crc32.ChecksumIEEE(prelude[:8]) != binary.BigEndian.Uint32(prelude[8:]):
		return frame{}, fmt.Errorf("%w: wrong checksum of a frame's lengths", errDamaged)
	case total > maxFrameBytes || headers > maxHeaderBytes || total < preludeBytes+trailerBytes+headers:
		return frame{}, fmt.Errorf("%w: a frame of %d bytes with %d bytes of headers", errDamaged, total, headers)
	}

	rest := int(total) - preludeBytes
	if cap(r.buf) < rest {
		r.buf = make([]byte, max(rest, 4<<10))
	}

	buf := r.buf[:rest]
	if _, err := io.ReadFull(r.r, buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}

	body := buf[:rest-trailerBytes]
	sum := crc32.Update(crc32.ChecksumIEEE(prelude[:]), crc32.IEEETable, body)
	if sum != binary.BigEndian.Uint32(buf[rest-trailerBytes:]) {
		return frame{}, fmt.Errorf("%w: wrong checksum of a frame", errDamaged)
	}

	f := frame{payload: body[headers:]}
	if err := f.read(body[:headers]); err != nil {
		return frame{}, err
	}
	return f, nil
}

// read takes the known headers out of their encoded form: a name with a length
// byte, a type byte, and a value whose size the type tells.
func (f *frame) read(b []byte) error {
	broken := fmt.Errorf("%w: malformed headers", errDamaged)
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 2+n {
			return broken
		}

		name, kind := string(b[1:1+n]), b[1+n]
		b = b[2+n:]
		size, skip := valueSize(kind, b)
		if size < 0 || len(b) < skip+size {
			return broken
		}

		value := b[skip : skip+size]
		b = b[skip+size:]
		if kind != stringValue {
			continue
		}

		switch name {
		case ":message-type":
			f.kind = string(value)
		case ":event-type":
			f.event = string(value)
		case ":exception-type", ":error-code":
			f.exception = string(value)
		case ":error-message":
			f.message = string(value)
		}
	}

	return nil
}

const stringValue = 7

// valueSize tells how long a header value is and how many bytes of length
// stand before it; size is negative if the type is unknown.
func valueSize(kind byte, b []byte) (size, skip int) {
	switch kind {
	case 0, 1: // true, false
		return 0, 0
	case 2: // byte
		return 1, 0
	case 3: // int16
		return 2, 0
	case 4: // int32
		return 4, 0
	case 5, 8: // int64, timestamp
		return 8, 0
	case 9: // UUID
		return 16, 0
	case 6, stringValue: // bytes, string
		if len(b) >= 2 {
			return int(binary.BigEndian.Uint16(b)), 2
		}
	}
	return -1, 0
}
