package agent

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/session"
)

// Bounds of what is noted about a turn.
const (
	notedEdits    = 100
	notedDiffs    = 32 << 10 // bytes of all diffs
	notedReceipts = 200
	notedNotices  = 20
	noticeBytes   = 1 << 10
	outsideMost   = 5        // things from outside that a question names
	resultBytes   = 16 << 10 // of what a call returned that is shown while the turn runs
)

// shown is what people saw of a turn that is not in its messages. Tools run side
// by side, hence the lock.
type shown struct {
	segment int       // number of the visible message being streamed
	used    bus.Usage // by answers of the model that called tools, in all rounds of a goal

	mu      sync.Mutex
	calls   map[string]ended
	edits   []bus.Edit
	diffs   int
	notices []session.Notice
	outside []bus.Read
	printed map[string]*httpsafe.Stream // of commands that run
}

// ended is what is noted about a call that has ended.
type ended struct {
	ms     int64 // it took
	denied bool
}

// ended notes how long a call took, and whether it was not allowed.
func (s *shown) ended(call string, d time.Duration, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[string]ended{}
	}
	s.calls[call] = ended{d.Milliseconds(), denied}
}

// saw notes that a result came from outside; the last ones are kept.
func (s *shown) saw(at time.Time, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outside = append(s.outside, bus.Read{What: what, At: at})
	s.outside = s.outside[max(0, len(s.outside)-outsideMost):]
}

// explain completes what a question says about its call, credentials taken out.
func (s *shown) explain(d *bus.Detail, redact func(string) string) {
	if d == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Command, d.Diff, d.Outside = redact(d.Command), redact(d.Diff), slices.Clone(s.outside)
	if args := []byte(redact(string(d.Arguments))); json.Valid(args) {
		d.Arguments = args
	}
}

// prints is a piece of what a command prints, credentials taken out; they may lie
// across two pieces.
func (s *shown) prints(secrets *httpsafe.Registry, call, piece string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.printed == nil {
		s.printed = map[string]*httpsafe.Stream{}
	}
	if s.printed[call] == nil {
		s.printed[call] = secrets.Stream()
	}
	return s.printed[call].Push(piece)
}

// of is what was noted about a call.
func (s *shown) of(call string) ended {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

// noticed notes what the person was told.
func (s *shown) noticed(at time.Time, said string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.notices) < notedNotices {
		s.notices = append(s.notices, session.Notice{At: at, Text: text.Cut(said, noticeBytes)})
	}
}

// edited notes changes of files, the first diffs with their text.
func (s *shown) edited(edits []bus.Edit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range edits[:min(len(edits), notedEdits-len(s.edits))] {
		if s.diffs+len(e.Diff) > notedDiffs {
			e.Diff = ""
		}
		s.diffs += len(e.Diff)
		s.edits = append(s.edits, e)
	}
}

// note is what is kept about the turn. What the conversation says anyway, and
// what may be many, is left out.
func (s *shown) note(begun time.Time, sum bus.Turn) session.TurnNote {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum.SessionKey, sum.Goal, sum.Tools = "", nil, nil
	sum.Receipts = sum.Receipts[:min(len(sum.Receipts), notedReceipts)]
	return session.TurnNote{Turn: sum, Started: begun, Edits: s.edits, Notices: s.notices}
}
