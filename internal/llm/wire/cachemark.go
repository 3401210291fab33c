package wire

import "slices"

// lookBack is how many blocks may lie between the newest cache marker and an
// older entry for the server to find it; the vendors document 20.
const lookBack = 18

// CacheMark names the part of a turn behind which a prompt-cache marker goes.
type CacheMark struct{ Turn, Part int }

// CacheMarks places the markers of a history: on the last block of the newest
// user turn, and, only when that turn lies so many blocks behind the one before
// that the server's look-back would miss it, at the end of the previous user
// turn.
func CacheMarks(turns []Turn) []CacheMark {
	last := len(turns) - 1
	newest, ok := lastCacheable(turns, last)
	if !ok {
		return nil
	}

	marks := []CacheMark{newest}
	if last < 2 {
		return marks
	}

	if gap := len(turns[last-1].Parts) + newest.Part + 1; gap > lookBack {
		if prev, ok := lastCacheable(turns, last-2); ok {
			marks = append(marks, prev)
		}
	}
	return marks
}

func lastCacheable(turns []Turn, i int) (CacheMark, bool) {
	if i < 0 {
		return CacheMark{}, false
	}
	for j, p := range slices.Backward(turns[i].Parts) {
		if p.cacheable() {
			return CacheMark{i, j}, true
		}
	}
	return CacheMark{}, false
}

// MayThink reports whether thinking with a budget may be on: in the middle of
// a tool loop the last assistant turn must then begin with a thinking block,
// which one of another provider, or from before the effort was changed, does not.
func MayThink(turns []Turn) bool {
	n := len(turns)
	if n < 2 || turns[n-1].Parts[0].Kind != ResultPart {
		return true
	}
	return turns[n-2].Parts[0].Kind == ThinkingPart
}

// AppendCacheMark appends the member that marks a part of a request for the prompt
// cache, for five minutes or for an hour.
func AppendCacheMark(b []byte, long bool) []byte {
	if long {
		return append(b, `,"cache_control":{"type":"ephemeral","ttl":"1h"}`...)
	}
	return append(b, `,"cache_control":{"type":"ephemeral"}`...)
}
