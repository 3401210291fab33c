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
	// SealKey is what stands before its digits.
	SealKey  = `,"` + SumKey + `":"`
	sealSize = len(SealKey) + 8 + len(`"}`)
)

// sumOf is the checksum as it is written: CRC-32C, for which processors have an
// instruction.
func sumOf(line []byte) []byte {
	sum := crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli))
	return strconv.AppendUint(make([]byte, 0, 9), 1<<32|uint64(sum), 16)[1:]
}

// Seal puts a checksum into the JSON object that begins at start and ends with b.
func Seal(b []byte, start int) []byte {
	b = b[:len(b)-1]
	sum := sumOf(b[start:])
	return append(append(append(b, SealKey...), sum...), `"}`...)
}

// Unseal looks for the checksum of a line: body is the line without it and without
// its last brace, or all of the line if sealed is false. ok is false if the checksum
// fails.
func Unseal(line []byte) (body []byte, sealed, ok bool) {
	n := len(line) - sealSize
	if n <= 0 || string(line[n:n+len(SealKey)]) != SealKey || string(line[len(line)-2:]) != `"}` {
		return line, false, true
	}
	return line[:n], true, bytes.Equal(line[n+len(SealKey):len(line)-2], sumOf(line[:n]))
}
