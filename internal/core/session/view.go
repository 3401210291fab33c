package session

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// View reads a conversation from any place, in both directions, as its log was
// when the view was opened. What it costs depends on what is read, not on the
// length of the log: metadata lines, of which one comes every metadataEvery
// bytes at least, say how many messages are before them. A log of another
// program has none, and is counted from its beginning.
//
// It takes nothing from the owner of the conversation.
type View struct {
	f    store.Log
	size int64
	end  anchor // behind the last message
}

// anchor is a place in a log: so many messages are before an offset.
type anchor struct {
	count  int
	offset int64
}

// Item holds what a View reads: a message, or what was noted at the end of a
// turn.
type Item struct {
	Index  int // of the message in the log, or of the one behind the note
	Record Record
	Note   json.RawMessage // if it is set, there is no Record; see TurnNote
}

// anchorStep is how exactly a place is looked for before the lines are counted.
const anchorStep = 64 << 10

// OpenView opens a conversation for reading. The error is ErrNotFound when nothing is
// stored. The caller must Close it.
func OpenView(ctx context.Context, st *Store, key string) (*View, error) {
	f, info, err := st.locate(ctx, key)
	if err != nil {
		return nil, err
	}

	v := &View{f: f, size: info.Size}
	last, err := v.lastAnchor()
	if err == nil {
		v.end, err = v.count(ctx, last, -1)
	}

	if err != nil {
		_ = f.Close() // only read from
		return nil, err
	}
	return v, nil
}

// Close ends the view.
func (v *View) Close() error { return v.f.Close() }

// Len returns the number of messages.
func (v *View) Len() int { return v.end.count }

// lastAnchor returns the last place near the end that the log itself tells.
func (v *View) lastAnchor() (anchor, error) {
	for line, err := range diskio.LinesBackward(v.f, v.size) {
		if err != nil {
			return anchor{}, err
		}
		if a, ok := anchorIn(line); ok {
			return a, nil
		}
		if v.size-line.Offset > metadataReach {
			break
		}
	}
	return anchor{}, nil
}

// anchorIn returns what a metadata line says about its own place.
func anchorIn(line diskio.Line) (anchor, bool) {
	if !line.Whole || !mayBeMetadata(line.Bytes) {
		return anchor{}, false
	}
	m, kind := parseMetadata(line.Bytes)
	if kind != "metadata" || !m.replay.fits(line.Offset) {
		return anchor{}, false
	}
	return anchor{m.replay.Count, line.Offset}, true
}

// count goes on from a place until so many messages are before it, or to the end
// if most is negative.
func (v *View) count(ctx context.Context, a anchor, most int) (anchor, error) {
	for line, err := range store.Lines(v.f, a.offset, v.size) {
		if err == nil {
			err = context.Cause(ctx)
		}

		if err != nil {
			return a, err
		}
		if a.count == most {
			return a, nil
		}

		if e, ok := itemIn(line); ok && e.Note == nil {
			a.count++
		}
		a.offset = line.End()
	}
	return a, nil
}

// place finds the offset of a message.
func (v *View) place(ctx context.Context, index int) (anchor, error) {
	if index >= v.end.count {
		return v.end, nil
	}

	low, high := anchor{}, v.end
	for high.offset-low.offset > anchorStep {
		middle := low.offset + (high.offset-low.offset)/2
		a, ok, err := v.anchorBetween(ctx, middle, high.offset)
		switch {
		case err != nil:
			return anchor{}, err
		case !ok || a.count < low.count || a.count > high.count:
			high.offset = middle // nothing is known about what is behind it
		case a.count <= index:
			low = a
		default:
			high = a
		}
	}

	return v.count(ctx, low, index)
}

// IndexAt returns the index of the message that begins at an offset of the log; false
// if none does.
func (v *View) IndexAt(ctx context.Context, offset int64) (int, bool, error) {
	if offset < 0 || offset >= v.size || !afterNewline(v.f, offset) {
		return 0, false, nil
	}

	low, high := anchor{}, v.end
	for min(high.offset, offset)-low.offset > anchorStep {
		middle := low.offset + (min(high.offset, offset)-low.offset)/2
		a, ok, err := v.anchorBetween(ctx, middle, offset)
		if err != nil {
			return 0, false, err
		}

		if ok && a.count >= low.count && a.count <= v.end.count {
			low = a
		} else {
			high.offset = middle
		}
	}

	index := low.count
	for line, err := range store.Lines(v.f, low.offset, v.size) {
		if err == nil {
			err = context.Cause(ctx)
		}

		if err != nil || line.Offset > offset {
			return 0, false, err
		}

		it, ok := itemIn(line)
		if line.Offset == offset {
			return index, ok && it.Note == nil, nil
		}

		if ok && it.Note == nil {
			index++
		}
	}

	return 0, false, nil
}

// anchorBetween returns the first place between two offsets that the log tells.
func (v *View) anchorBetween(ctx context.Context, from, to int64) (anchor, bool, error) {
	first := true
	for line, err := range store.Lines(v.f, from, to) {
		if err == nil {
			err = context.Cause(ctx)
		}

		if err != nil {
			return anchor{}, false, err
		}
		if first { // it may begin in the middle of a line
			first = false
			continue
		}
		if a, ok := anchorIn(line); ok {
			return a, true, nil
		}
	}

	return anchor{}, false, nil
}

// Backward yields what is before a message, the last first.
func (v *View) Backward(ctx context.Context, before int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		a, err := v.place(ctx, before)
		if err != nil {
			yield(Item{}, err)
			return
		}

		for line, err := range diskio.LinesBackward(v.f, a.offset) {
			if err == nil {
				err = context.Cause(ctx)
			}

			if err != nil {
				yield(Item{}, err)
				return
			}

			e, ok := itemIn(line)
			if !ok {
				continue
			}

			if e.Note == nil {
				a.count--
			}

			if e.Index = a.count; !yield(e, nil) {
				return
			}
		}
	}
}

// Forward yields messages from an index on.
func (v *View) Forward(ctx context.Context, from int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		a, err := v.place(ctx, from)
		if err != nil {
			yield(Item{}, err)
			return
		}

		for line, err := range store.Lines(v.f, a.offset, v.size) {
			if err == nil {
				err = context.Cause(ctx)
			}

			if err != nil {
				yield(Item{}, err)
				return
			}

			e, ok := itemIn(line)
			if !ok {
				continue
			}

			e.Index = a.count
			if e.Note == nil {
				a.count++
			}

			if !yield(e, nil) {
				return
			}
		}
	}
}

// itemIn reads a line; ok is false for one that is neither a message nor the
// end of a turn.
func itemIn(line diskio.Line) (e Item, ok bool) {
	if !line.Whole {
		return e, false
	}
	if bytes.HasPrefix(line.Bytes, []byte(metadataStart)) && !bytes.Contains(line.Bytes, []byte(`"`+keyTurn+`"`)) {
		return e, false
	}

	if mayBeMetadata(line.Bytes) {
		m, kind := parseMetadata(line.Bytes)
		if kind != "" {
			e.Note = m.ended
			return e, e.Note != nil
		}
	}

	return e, e.Record.UnmarshalJSON(line.Bytes) == nil
}
