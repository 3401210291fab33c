package feishu

import (
	"encoding/binary"
	"errors"
	"slices"
)

// frame is a message of the long connection, as protobuf.
type frame struct {
	Seq, Log uint64
	Service  int32
	Method   int32 // 0 control, 1 data
	Headers  []header
	Payload  []byte
}

type header struct{ Key, Value string }

const (
	methodControl = 0
	methodData    = 1
)

// The fields of a frame, and the two of a header.
const (
	fieldSeq = iota + 1
	fieldLog
	fieldService
	fieldMethod
	fieldHeader
	fieldEncoding
	fieldType
	fieldPayload
	fieldLogNew
)

const (
	wireVarint = 0
	wireFixed8 = 1
	wireBytes  = 2
	wireFixed4 = 5
)

var errFrame = errors.New("the frame is not as expected")

func (f *frame) get(key string) string {
	for _, h := range f.Headers {
		if h.Key == key {
			return h.Value
		}
	}
	return ""
}

// encode makes the bytes of a frame. The empty fields are there as well, since
// Feishu's own libraries write them.
func (f *frame) encode() []byte {
	var b []byte
	for n, v := range []uint64{f.Seq, f.Log, uint64(f.Service), uint64(f.Method)} { //nolint:gosec // as protobuf does
		b = binary.AppendUvarint(append(b, byte((n+1)<<3|wireVarint)), v) //nolint:gosec // below 16
	}

	for _, h := range f.Headers {
		b = appendBytes(b, fieldHeader, appendBytes(appendBytes(nil, 1, []byte(h.Key)), 2, []byte(h.Value)))
	}

	b = appendBytes(appendBytes(b, fieldEncoding, nil), fieldType, nil)
	if f.Payload != nil {
		b = appendBytes(b, fieldPayload, f.Payload)
	}
	return appendBytes(b, fieldLogNew, nil)
}

func appendBytes(b []byte, field int, data []byte) []byte {
	b = append(b, byte(field<<3|wireBytes)) //nolint:gosec // below 16
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

// decodeFrame reads the bytes of a frame. Fields that are not known are left
// out; the first four must be there.
func decodeFrame(data []byte) (f frame, err error) {
	var seen [fieldMethod + 1]bool
	err = eachField(data, func(field uint64, v uint64, part []byte) error {
		switch field {
		case fieldSeq:
			f.Seq = v
		case fieldLog:
			f.Log = v
		case fieldService:
			f.Service = int32(v) //nolint:gosec // as protobuf does
		case fieldMethod:
			f.Method = int32(v) //nolint:gosec // as protobuf does
		case fieldHeader:
			var h header
			f.Headers = append(f.Headers, h)
			at := &f.Headers[len(f.Headers)-1]
			return eachField(part, func(field, _ uint64, part []byte) error {
				switch field {
				case 1:
					at.Key = string(part)
				case 2:
					at.Value = string(part)
				}
				return nil
			})

		case fieldPayload:
			f.Payload = slices.Clone(part)
		}

		if field <= fieldMethod {
			seen[field] = true
		}
		return nil
	})
	if err == nil && slices.Contains(seen[1:], false) {
		err = errFrame
	}
	return f, err
}

// eachField calls take with the fields of a message: v is a number, part are
// bytes.
func eachField(data []byte, take func(field, v uint64, part []byte) error) error {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag>>3 == 0 {
			return errFrame
		}

		data = data[n:]
		var v uint64
		var part []byte
		switch tag & 7 {
		case wireVarint, wireBytes:
			if v, n = binary.Uvarint(data); n <= 0 {
				return errFrame
			}

			data = data[n:]
			if tag&7 == wireBytes {
				if v > uint64(len(data)) {
					return errFrame
				}
				part, data = data[:v], data[v:]
			}

		case wireFixed8, wireFixed4:
			size := 8
			if tag&7 == wireFixed4 {
				size = 4
			}
			if len(data) < size {
				return errFrame
			}
			data = data[size:]

		default:
			return errFrame
		}

		if err := take(tag>>3, v, part); err != nil {
			return err
		}
	}
	return nil
}
