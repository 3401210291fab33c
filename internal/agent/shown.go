package agent

import (
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/session"
	"github.com/nanobot-go/nanobot/internal/text"
)

// Bounds of what is noted about a turn.
const (
	notedEdits    = 100
	notedDiffs    = 32 << 10 // bytes of all diffs
	notedReceipts = 200
	notedNotices  = 20
	noticeBytes   = 1 << 10
)

// shown is what people saw of a turn that is not in its messages. Tools run side
// by side, hence the lock.
type shown struct {
	segment int // number of the visible message being streamed

	mu      sync.Mutex
	took    map[string]int64 // milliseconds of calls that have ended
	edits   []bus.Edit
	diffs   int
	notices []session.Notice
}

// ended notes how long a call took.
func (s *shown) ended(call string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.took == nil {
		s.took = map[string]int64{}
	}
	s.took[call] = d.Milliseconds()
}

// of is how long a call took, in milliseconds.
func (s *shown) of(call string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took[call]
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
