package store

import (
	"bytes"
	"hash/crc32"
	"strconv"
)

// Lines of logs end with a checksum of what is before it, as a key that other
// programs pass over. A flipped bit mostly leaves JSON that can be read, with
// another word in it. Lines without one, of other programs and of versions
// before, are as good as they are.
const (
	// SumKey names the checksum in a line.
	SumKey = "_crc"
	// sealKey stands before its digits.
	sealKey = `,"` + SumKey + `":"`
	// SealSize is how much a checksum adds to a line.
	SealSize = len(sealKey) + 8 + len(`"`)
	sealEnd  = SealSize + len(`}`)
)

// Sum returns the checksum of anything as it is written: CRC-32C, for which processors
// have an instruction.
func Sum(data []byte) []byte {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return strconv.AppendUint(make([]byte, 0, 9), 1<<32|uint64(sum), 16)[1:]
}

// Seal puts a checksum into the JSON object that begins at start and ends with b.
func Seal(b []byte, start int) []byte {
	b = b[:len(b)-1]
	sum := Sum(b[start:])
	return append(append(append(b, sealKey...), sum...), `"}`...)
}

// Unseal looks for the checksum of a line: body is the line without it and without
// its last brace, or all of the line if sealed is false. ok is false if the checksum
// fails.
func Unseal(line []byte) (body []byte, sealed, ok bool) {
	n := len(line) - sealEnd
	if n <= 0 || string(line[n:n+len(sealKey)]) != sealKey || string(line[len(line)-2:]) != `"}` {
		return line, false, true
	}
	return line[:n], true, bytes.Equal(line[n+len(sealKey):len(line)-2], Sum(line[:n]))
}

// SplitSealed finds a whole line at the beginning of a damaged one, and where the
// next begins, if that is in the damaged one as well: what is damaged is what
// divides them. The line is changed.
func SplitSealed(line []byte) (first []byte, next int) {
	key := []byte(sealKey)
	for at := 0; ; at += len(key) {
		i := bytes.Index(line[at:], key)
		if i < 0 {
			return nil, 0
		}

		at += i
		last := at + sealEnd
		if last > len(line) {
			return nil, 0
		}

		body, sealed, ok := Unseal(line[:last])
		if !sealed || !ok {
			continue
		}

		next = len(line) + 1 // the newline
		if i := bytes.Index(line[last:], []byte(`{"`)); i >= 0 {
			next = last + i
		}
		return append(body, '}'), next
	}
}
