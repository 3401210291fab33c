package session

import (
	"bytes"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// damagedNote stands before the text of a message whose checksum fails.
const damagedNote = "[damaged on disk, parts of it may be wrong] "

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
		if _, _, ok := store.Unseal(bytes.TrimSuffix(before[:n], []byte{'\n'})); ok {
			if body, found, ok := store.Unseal(line); found && !ok {
				start := len(out)
				out = store.Seal(append(append(out, body...), '}'), start)
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
