package session

import (
	"bytes"
	"hash/crc32"
	"strconv"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Each line of a log ends with a checksum of what is before it, as a key that
// other programs pass over. A flipped bit mostly leaves JSON that can be read,
// with another word in it. Lines without one, of other programs and of versions
// before, are as good as they are.
const (
	keySum   = "_crc"
	sealKey  = `,"` + keySum + `":"`
	sealSize = len(sealKey) + 8 + len(`"}`)
)

// damagedNote stands before the text of a message whose checksum fails.
const damagedNote = "[damaged on disk, parts of it may be wrong] "

// sumOf is the checksum as it is written: CRC-32C, for which processors have an
// instruction.
func sumOf(line []byte) []byte {
	sum := crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli))
	return strconv.AppendUint(make([]byte, 0, 9), 1<<32|uint64(sum), 16)[1:]
}

// seal puts the checksum into the object that begins at start.
func seal(b []byte, start int) []byte {
	b = b[:len(b)-1]
	sum := sumOf(b[start:])
	return append(append(append(b, sealKey...), sum...), `"}`...)
}

// sealed finds the checksum of a line; ok is false for one that fails.
func sealed(line []byte) (body []byte, found, ok bool) {
	n := len(line) - sealSize
	if n <= 0 || string(line[n:n+len(sealKey)]) != sealKey || string(line[len(line)-2:]) != `"}` {
		return line, false, true
	}
	return line[:n], true, bytes.Equal(line[n+len(sealKey):len(line)-2], sumOf(line[:n]))
}

// spoil marks a message whose line is damaged.
func (r *Record) spoil() {
	if r.Content.Blocks == nil {
		r.Content.Text = damagedNote + r.Content.Text
		return
	}
	r.Content.Blocks = append([]llm.Block{{Type: "text", Text: damagedNote}}, r.Content.Blocks...)
}

// reseal gives the lines of a log that were changed on purpose their checksums
// again. The log before has the same lines; one that was damaged stays so.
func reseal(before, after []byte) []byte {
	out := after[:0:0]
	for len(after) > 0 {
		n := bytes.IndexByte(before, '\n') + 1
		if n == 0 {
			n = len(before)
		}
		line := bytes.TrimSuffix(after[:n], []byte{'\n'})
		if _, _, ok := sealed(bytes.TrimSuffix(before[:n], []byte{'\n'})); ok {
			if body, found, ok := sealed(line); found && !ok {
				start := len(out)
				out = seal(append(append(out, body...), '}'), start)
				line = nil
			}
		}
		if line != nil {
			out = append(out, line...)
		}
		if after[n-1] == '\n' {
			out = append(out, '\n')
		}
		before, after = before[n:], after[n:]
	}
	return out
}
