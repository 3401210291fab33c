package socket

import (
	"slices"
)

const (
	keepEvents  = 64       // of one chat, for peers that come back
	burstEvents = 256      // of one chat, while a connected peer has not got them yet
	keepBytes   = 1 << 20  // of one chat
	burstBytes  = 8 << 20  // of one chat, while a connected peer has not got them yet
	pieceBytes  = 64 << 10 // of text that is kept as one event
)

// audience says who gets an event.
type audience uint8

const (
	allClients audience = iota
	modern              // peers that speak the newer protocol
)

// event is one thing that happened in a chat: a finished frame, or a piece of
// streamed text that grows while nothing else happens. Growing is what joins
// deltas for peers that are slow: they get all they miss in one frame.
type event struct {
	first, last int64 // sequence numbers
	frame       []byte
	kind        string // of streamed text: the event it is sent as
	stream      string
	over        bool // the call whose output it is has ended
	text        []byte
	cuts        []int // length of text after each number

	id string // of the bus, for what must be delivered
	// A streamed answer goes as a whole to connections that have not got
	// everything after the number whole; the others get the rest, if there is one.
	streamed bool
	whole    int64
	rest     []byte

	keep    bool // an answer: goes last when room is needed
	to      audience
	except  string        // home of the connection that caused it and does not need a copy
	seen    bool          // a peer has got it
	written chan struct{} // closed when seen, or when no connection is left; nil if no sender waits

	joined      []byte // the frame of text that was made last
	joinedAfter int64
	joinedLast  int64
}

func (e *event) size() int { return len(e.frame) + len(e.text) }

// after returns the frame for a peer that has got everything up to seq.
func (e *event) after(seq int64, chat string) []byte {
	if e.frame != nil {
		return e.frame
	}

	seq = max(seq, e.first-1)
	if e.joined != nil && e.joinedAfter == seq && e.joinedLast == e.last {
		return e.joined
	}

	from := 0
	if n := seq - e.first; n >= 0 {
		from = e.cuts[n]
	}

	rest := string(e.text[from:])
	name := "stream_id"
	if e.kind == evToolOutput {
		name = "call_id"
	}

	e.joined = newFrame(e.kind, chat, len(rest)+len(e.stream)).must("text", rest).text(name, e.stream).numbered(e.last)
	e.joinedAfter, e.joinedLast = seq, e.last
	return e.joined
}

// ring holds what happened last in one chat. Numbers rise within a chat, also
// over restarts.
type ring struct {
	numbers *numbers // of all chats

	last   int64 // number given last
	gone   int64 // highest number that is not kept any more
	bytes  int
	events []*event
}

// count gives out the next number.
func (r *ring) count() {
	r.last++
	r.numbers.use(r.last)
}

// add appends an event, giving it its number.
func (r *ring) add(e *event, f frame) *event {
	r.count()
	e.first, e.last, e.frame = r.last, r.last, f.numbered(r.last)
	r.push(e)
	return e
}

// stream appends text to the event before it, or to a new one.
func (r *ring) stream(kind, stream, text string, to audience) {
	r.count()
	if n := len(r.events); n > 0 {
		e := r.events[n-1]
		if e.frame == nil && e.kind == kind && e.stream == stream && len(e.text) < pieceBytes {
			e.text = append(e.text, text...)
			e.cuts = append(e.cuts, len(e.text))
			e.last = r.last
			r.bytes += len(text)
			return
		}
	}

	e := &event{first: r.last, last: r.last, kind: kind, stream: stream, text: []byte(text), cuts: []int{len(text)}, to: to, keep: to == allClients}
	r.push(e)
}

func (r *ring) push(e *event) {
	r.events = append(r.events, e)
	r.bytes += e.size()
}

// trim makes room. What all connected peers have got, which is up to passed,
// is kept only as far as keepEvents and keepBytes go.
func (r *ring) trim(passed int64) {
	for len(r.events) > 1 {
		i := r.spare()
		e := r.events[i]
		fits, must := len(r.events) <= keepEvents && r.bytes <= keepBytes, len(r.events) > burstEvents || r.bytes > burstBytes
		if fits || !must && e.last > passed {
			return
		}

		r.bytes -= e.size()
		r.gone = max(r.gone, e.last)
		e.release() // who waits for it tries again
		r.events = slices.Delete(r.events, i, i+1)
	}
}

// spare is the event that can be done without best: the oldest that is no
// answer, else the oldest.
func (r *ring) spare() int {
	return max(0, slices.IndexFunc(r.events[:len(r.events)-1], func(e *event) bool { return !e.keep }))
}

// find returns the event with a bus id.
func (r *ring) find(id string) *event {
	if id == "" {
		return nil
	}
	for _, e := range slices.Backward(r.events) {
		if e.id == id {
			return e
		}
	}
	return nil
}

// next returns the first event that is not all known to a peer at seq.
func (r *ring) next(seq int64) *event {
	if r.last <= seq {
		return nil
	}

	i, _ := slices.BinarySearchFunc(r.events, seq, func(e *event, s int64) int {
		if e.last <= s {
			return -1
		}
		return 1
	})
	if i == len(r.events) {
		return nil
	}
	return r.events[i]
}

// over notes that a call has ended, or without a name that all have. Later peers
// do not need its output.
func (r *ring) over(call string) {
	for _, e := range r.events {
		e.over = e.over || call == "" || e.stream == call
	}
}

// start is where a peer that knows nothing begins: before the first undelivered
// answer or the output of a running call, else before the text that is being
// streamed, else now.
func (r *ring) start() int64 {
	for _, e := range r.events {
		if e.id != "" && !e.seen || e.kind == evToolOutput && !e.over {
			return e.first - 1
		}
	}
	if n := len(r.events); n > 0 && r.events[n-1].frame == nil {
		return r.events[n-1].first - 1
	}
	return r.last
}
