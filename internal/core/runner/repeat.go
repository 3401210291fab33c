package runner

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Weak models fall into repeating themselves. A text repeats itself when it ends
// with the same piece over and over, at least so often and for so long. Texts
// that people want, such as tables and lists, stay below that.
type repeatRule struct{ times, bytes int }

const (
	repeatTail  = 16 << 10 // bytes at the end of a text that are looked at
	repeatEvery = 256      // bytes between two looks
	repeatProbe = 24       // bytes at the end whose earlier places are tried
	repeatTries = 16       // places
)

// whileGrowing is for a text that still grows, whenCut for one that the output
// limit cut off: there is less to lose.
func whileGrowing() []repeatRule { return []repeatRule{{20, 2000}, {5, 5000}} }
func whenCut() []repeatRule      { return []repeatRule{{6, 300}, {3, 1500}} }

// repeats finds a piece that the end of a text consists of: its length, and
// that of all its repetitions; 0 if there is none.
func repeats(s []byte, rules []repeatRule) (piece, all int) {
	s = s[max(len(s)-repeatTail, 0):]
	if len(s) <= repeatProbe {
		return 0, 0
	}

	probe := s[len(s)-repeatProbe:]
	for end, tries := len(s)-1, 0; tries < repeatTries; tries++ {
		at := bytes.LastIndex(s[:end], probe)
		if at < 0 {
			return 0, 0
		}

		piece, all = len(s)-repeatProbe-at, repeatProbe
		for all < len(s) && all+piece < len(s) && s[len(s)-1-all] == s[len(s)-1-all-piece] {
			all++
		}

		all += piece
		for _, r := range rules {
			if all >= r.bytes && all/piece >= r.times {
				return piece, all
			}
		}

		end = at + repeatProbe - 1
	}

	return 0, 0
}

// repeater watches a growing text.
type repeater struct {
	tail    []byte
	pending int
}

// add takes in the next part and reports whether the text repeats itself.
func (r *repeater) add(part string) bool {
	r.tail = append(r.tail, part...)
	if len(r.tail) > 2*repeatTail {
		r.tail = slices.Delete(r.tail, 0, len(r.tail)-repeatTail)
	}

	if r.pending += len(part); r.pending < repeatEvery {
		return false
	}

	r.pending = 0
	piece, _ := repeats(r.tail, whileGrowing())
	return piece > 0
}

// What is said about an answer that was stopped because it repeated itself.
const (
	repeatedText  = "(I stopped here: the model was repeating itself.)"
	repeatedEmpty = "The model repeated itself without coming to an answer, so I stopped it. Please ask again in other words, or use a larger model."
)

// endRepeated ends a run with what was said until the text began to repeat
// itself. More of it in the history would make the model do it again.
func endRepeated(ctx context.Context, r *run, it *Iteration, said string) (next, error) {
	said = strings.TrimSpace(r.fragments + it.glue + said)
	if piece, all := repeats([]byte(said), whenCut()); piece > 0 {
		said = strings.TrimSpace(text.CutBytes(said, len(said)-all+piece))
	}

	r.fragments = ""
	r.transient = nil
	r.drains = drainCycles

	if said == "" {
		it.streamed = false
		return r.finish(ctx, it, llm.Message{}, phrase.Of(ctx, repeatedEmpty), LoopDetected)
	}

	if it.streamed {
		r.delta(ctx, it, "\n\n"+phrase.Of(ctx, repeatedText))
	}
	return r.finish(ctx, it, llm.Message{}, said+"\n\n"+phrase.Of(ctx, repeatedText), LoopDetected)
}
