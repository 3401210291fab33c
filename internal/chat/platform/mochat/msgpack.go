package mochat

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// nesting is how deep a value may be nested.
const nesting = 64

var (
	errDeep  = errors.New("msgpack: nested too deeply")
	errShort = errors.New("msgpack: the end is missing")
	errExtra = errors.New("msgpack: something follows the value")
	errKind  = errors.New("msgpack: unknown kind of value")
)

// fromMsgpack returns a value as JSON. Nothing is allocated by what a length says:
// each value takes at least a byte of the data.
func fromMsgpack(data []byte) ([]byte, error) {
	r := unpacker{data: data, out: make([]byte, 0, len(data)+len(data)/4)}
	if err := r.value(0); err != nil {
		return nil, err
	}
	if len(r.data) > 0 {
		return nil, errExtra
	}
	return r.out, nil
}

// unpacker appends what it reads to out.
type unpacker struct {
	data, out []byte
}

// next returns the n bytes that follow.
func (r *unpacker) next(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)) {
		return nil, errShort
	}
	part := r.data[:n]
	r.data = r.data[n:]
	return part, nil
}

// number returns an unsigned one of so many bytes.
func (r *unpacker) number(size uint64) (uint64, error) {
	part, err := r.next(size)
	if err != nil {
		return 0, err
	}
	var n uint64
	for _, b := range part {
		n = n<<8 | uint64(b)
	}
	return n, nil
}

func (r *unpacker) value(depth int) error {
	head, err := r.number(1)
	if err != nil {
		return err
	}

	switch {
	case head < 0x80:
		r.out = strconv.AppendUint(r.out, head, 10)
		return nil
	case head < 0x90:
		return r.object(head&0xf, depth)
	case head < 0xa0:
		return r.list(head&0xf, depth)
	case head < 0xc0:
		return r.text(head & 0x1f)
	case head >= 0xe0:
		r.out = strconv.AppendInt(r.out, int64(head)-0x100, 10) //nolint:gosec // of one byte
		return nil
	}

	return r.tagged(head, depth)
}

// tagged reads a value whose kind is the first byte.
func (r *unpacker) tagged(kind uint64, depth int) error {
	switch kind {
	case 0xc0:
		r.out = append(r.out, "null"...)
		return nil
	case 0xc2, 0xc3:
		r.out = strconv.AppendBool(r.out, kind == 0xc3)
		return nil
	case 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3:
		return r.numeric(kind)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(1 << (kind - 0xd4))
	}

	size := lengthOf(kind)
	if size == 0 {
		return errKind
	}

	n, err := r.number(size)
	if err != nil {
		return err
	}

	switch kind {
	case 0xc4, 0xc5, 0xc6:
		part, err := r.next(n)
		if err != nil {
			return err
		}
		r.out = append(r.out, '"')
		r.out = base64.StdEncoding.AppendEncode(r.out, part)
		r.out = append(r.out, '"')
		return nil

	case 0xc7, 0xc8, 0xc9:
		return r.extension(n)
	case 0xd9, 0xda, 0xdb:
		return r.text(n)
	case 0xdc, 0xdd:
		return r.list(n, depth)
	}

	return r.object(n, depth)
}

// lengthOf is in how many bytes a kind of value says its length.
func lengthOf(kind uint64) uint64 {
	switch {
	case kind >= 0xc4 && kind <= 0xc6:
		return 1 << (kind - 0xc4)
	case kind >= 0xc7 && kind <= 0xc9:
		return 1 << (kind - 0xc7)
	case kind >= 0xd9 && kind <= 0xdb:
		return 1 << (kind - 0xd9)
	case kind == 0xdc || kind == 0xde:
		return 2
	case kind == 0xdd || kind == 0xdf:
		return 4
	}
	return 0
}

func (r *unpacker) numeric(kind uint64) error {
	size := uint64(1) << (kind & 3)
	if kind < 0xcc {
		size = 4 << (kind - 0xca)
	}

	n, err := r.number(size)
	if err != nil {
		return err
	}

	switch {
	case kind == 0xca:
		r.float(float64(math.Float32frombits(uint32(n)))) //nolint:gosec // of four bytes
	case kind == 0xcb:
		r.float(math.Float64frombits(n))
	case kind < 0xd0:
		r.out = strconv.AppendUint(r.out, n, 10)
	default:
		shift := 64 - 8*size
		r.out = strconv.AppendInt(r.out, int64(n<<shift)>>shift, 10) //nolint:gosec // with its sign
	}

	return nil
}

// float writes a number of JavaScript, whose whole numbers may be floats.
func (r *unpacker) float(f float64) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		r.out = append(r.out, "null"...)
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		r.out = strconv.AppendInt(r.out, int64(f), 10)
	default:
		r.out = strconv.AppendFloat(r.out, f, 'g', -1, 64)
	}
}

func (r *unpacker) text(n uint64) error {
	part, err := r.next(n)
	if err != nil {
		return err
	}
	r.out = text.AppendJSON(r.out, string(part))
	return nil
}

// extension reads a time, which is the only one that has a meaning.
func (r *unpacker) extension(n uint64) error {
	kind, err := r.number(1)
	if err != nil {
		return err
	}

	part, err := r.next(n)
	if err != nil {
		return err
	}

	var at time.Time
	switch {
	case kind == 0xff && n == 4:
		at = time.Unix(int64(binary.BigEndian.Uint32(part)), 0)
	case kind == 0xff && n == 8:
		v := binary.BigEndian.Uint64(part)
		at = time.Unix(int64(v&(1<<34-1)), int64(v>>34))
	case kind == 0 && n == 8: // of notepack, in ms
		if ms := binary.BigEndian.Uint64(part); ms < 1<<47 {
			at = time.UnixMilli(int64(ms))
		}
	}

	if at.IsZero() {
		r.out = append(r.out, "null"...)
		return nil
	}

	r.out = at.UTC().AppendFormat(r.out, `"`+time.RFC3339Nano+`"`)
	return nil
}

func (r *unpacker) list(n uint64, depth int) error {
	if depth >= nesting {
		return errDeep
	}

	r.out = append(r.out, '[')
	for i := range n {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if err := r.value(depth + 1); err != nil {
			return err
		}
	}

	r.out = append(r.out, ']')
	return nil
}

func (r *unpacker) object(n uint64, depth int) error {
	if depth >= nesting {
		return errDeep
	}

	r.out = append(r.out, '{')
	for i := range n {
		if i > 0 {
			r.out = append(r.out, ',')
		}

		if err := r.key(); err != nil {
			return err
		}

		r.out = append(r.out, ':')
		if err := r.value(depth + 1); err != nil {
			return err
		}
	}

	r.out = append(r.out, '}')
	return nil
}

// key reads the name of a value: a text, or a number that becomes one.
func (r *unpacker) key() error {
	at := len(r.out)
	if err := r.value(nesting); err != nil {
		return err
	}

	switch name := r.out[at:]; {
	case name[0] == '"':
		return nil
	case name[0] == '-' || name[0] >= '0' && name[0] <= '9':
		name = slices.Clone(name)
		r.out = append(append(append(r.out[:at], '"'), name...), '"')
		return nil
	}

	return errKind
}

// toMsgpack appends a value that was made of JSON or of our own maps.
func toMsgpack(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, 0xc3)
		}
		return append(dst, 0xc2)

	case int:
		return packInt(dst, int64(v))
	case int64:
		return packInt(dst, v)
	case string:
		return append(packHead(dst, len(v), 0xa0, 32, 0xd9), v...)
	case []string:
		dst = packHead(dst, len(v), 0x90, 16, 0xdb)
		for _, s := range v {
			dst = toMsgpack(dst, s)
		}
		return dst

	case []any:
		dst = packHead(dst, len(v), 0x90, 16, 0xdb)
		for _, e := range v {
			dst = toMsgpack(dst, e)
		}
		return dst

	case map[string]int64:
		dst = packHead(dst, len(v), 0x80, 16, 0xdd)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			dst = packInt(toMsgpack(dst, k), v[k])
		}
		return dst

	case map[string]any:
		dst = packHead(dst, len(v), 0x80, 16, 0xdd)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			dst = toMsgpack(toMsgpack(dst, k), v[k])
		}
		return dst
	}
	return append(dst, 0xc0)
}

func packInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0 && n < 0x80, n < 0 && n >= -32:
		return append(dst, byte(n)) //nolint:gosec // one byte is the value
	case n >= math.MinInt32 && n <= math.MaxInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(n)) //nolint:gosec // with its sign
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n)) //nolint:gosec // with its sign
}

// packHead begins a value of a length: short has it in its first byte, up to a
// limit; else it follows kind in one byte for texts, kind+1 in two, kind+2 in
// four.
func packHead(dst []byte, n int, short byte, limit int, kind byte) []byte {
	switch {
	case n < limit:
		return append(dst, short|byte(n)) //nolint:gosec // it is less than 32
	case n < 1<<8 && kind == 0xd9:
		return append(dst, kind, byte(n)) //nolint:gosec // it is less than 256
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, kind+1), uint16(n)) //nolint:gosec // it was looked at
	}
	return binary.BigEndian.AppendUint32(append(dst, kind+2), uint32(n)) //nolint:gosec // frames are shorter
}
