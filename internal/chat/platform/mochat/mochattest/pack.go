package mochattest

import (
	"encoding/binary"
	"errors"
	"math"
)

// pack appends a value as msgpack, in the forms that socket.io-msgpack-parser
// uses.
func pack(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, 0xc3)
		}
		return append(dst, 0xc2)

	case int:
		return packNumber(dst, float64(v))
	case int64:
		return packNumber(dst, float64(v))
	case float64:
		return packNumber(dst, v)
	case string:
		return append(packLength(dst, len(v), 0xa0, 32, 0xd9), v...)
	case []any:
		dst = packLength(dst, len(v), 0x90, 16, 0xdb)
		for _, e := range v {
			dst = pack(dst, e)
		}
		return dst

	case map[string]any:
		dst = packLength(dst, len(v), 0x80, 16, 0xdd)
		for k, e := range v {
			dst = pack(pack(dst, k), e)
		}
		return dst
	}
	return append(dst, 0xc0)
}

func packNumber(dst []byte, f float64) []byte {
	switch {
	case f != math.Trunc(f) || f < 0 || f >= 1<<32:
		return binary.BigEndian.AppendUint64(append(dst, 0xcb), math.Float64bits(f))
	case f < 128:
		return append(dst, byte(f))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(f))
}

func packLength(dst []byte, n int, short byte, limit int, kind byte) []byte {
	switch {
	case n < limit:
		return append(dst, short|byte(n)) //nolint:gosec // it was looked at
	case n < 1<<8 && kind == 0xd9:
		return append(dst, kind, byte(n)) //nolint:gosec // it was looked at
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, kind+1), uint16(n)) //nolint:gosec // it was looked at
	}
	return binary.BigEndian.AppendUint32(append(dst, kind+2), uint32(n)) //nolint:gosec // frames are shorter
}

var errPack = errors.New("msgpack: not as expected")

// unpack reads a value of the kinds that JSON has, and returns what follows it.
func unpack(data []byte) (v any, rest []byte, err error) {
	if len(data) == 0 {
		return nil, nil, errPack
	}

	head, data := data[0], data[1:]
	switch {
	case head < 0x80:
		return int64(head), data, nil
	case head >= 0xe0:
		return int64(int8(head)), data, nil //nolint:gosec // with its sign
	case head < 0x90:
		return unpackMap(data, int(head&0xf))
	case head < 0xa0:
		return unpackList(data, int(head&0xf))
	case head < 0xc0:
		return unpackText(data, int(head&0x1f))
	case head == 0xc0:
		return nil, data, nil
	case head == 0xc2 || head == 0xc3:
		return head == 0xc3, data, nil
	}

	sizes := map[byte]int{0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8, 0xd9: 1, 0xda: 2, 0xdb: 4, 0xdc: 2, 0xdd: 4, 0xde: 2, 0xdf: 4}
	size := sizes[head]
	if size == 0 || len(data) < size {
		return nil, nil, errPack
	}

	var n uint64
	for _, b := range data[:size] {
		n = n<<8 | uint64(b)
	}

	data = data[size:]
	switch {
	case head == 0xcb:
		return math.Float64frombits(n), data, nil
	case head < 0xd0:
		return int64(n), data, nil
	case head < 0xd4:
		shift := 64 - 8*size
		return int64(n<<shift) >> shift, data, nil //nolint:gosec // with its sign
	case n > 1<<20:
		return nil, nil, errPack
	case head < 0xdc:
		return unpackText(data, int(n))
	case head < 0xde:
		return unpackList(data, int(n))
	}

	return unpackMap(data, int(n))
}

func unpackText(data []byte, n int) (any, []byte, error) {
	if len(data) < n {
		return nil, nil, errPack
	}
	return string(data[:n]), data[n:], nil
}

func unpackList(data []byte, n int) (any, []byte, error) {
	list := []any{}
	for range n {
		v, rest, err := unpack(data)
		if err != nil {
			return nil, nil, err
		}
		list, data = append(list, v), rest
	}
	return list, data, nil
}

func unpackMap(data []byte, n int) (any, []byte, error) {
	m := map[string]any{}
	for range n {
		k, rest, err := unpack(data)
		name, ok := k.(string)
		if err != nil || !ok {
			return nil, nil, errPack
		}
		if m[name], data, err = unpack(rest); err != nil {
			return nil, nil, err
		}
	}

	return m, data, nil
}
