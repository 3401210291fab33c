package session

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// keyTurn is the metadata key of the note about the turn that a metadata line
// ends. Only that line has it.
const keyTurn = "_turn"

// maxNote bounds the note of one turn.
const maxNote = 128 << 10

// TurnNote holds what people may want to know about a turn beside what was
// said.
type TurnNote struct {
	bus.Turn

	Started time.Time  `json:"started_at,omitzero"`
	Edits   []bus.Edit `json:"edits,omitempty"`
	Notices []Notice   `json:"notices,omitempty"`
}

// Notice is something the person was told during a turn.
type Notice struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Note keeps something about the open turn, which is written with its end. One
// that is too long loses its diffs, or is left out.
func (s *Session) Note(n TurnNote) error {
	raw, err := json.Marshal(n)
	raw = s.store.opt.Secrets.RedactJSON(raw)
	if len(raw) > maxNote {
		edits := make([]bus.Edit, len(n.Edits))
		for i, e := range n.Edits {
			e.Diff = ""
			edits[i] = e
		}
		n.Edits = edits
		raw, err = json.Marshal(n)
		raw = s.store.opt.Secrets.RedactJSON(raw)
	}

	if err != nil {
		return fmt.Errorf("note of a turn: %w", err)
	}

	if len(raw) > maxNote {
		raw = nil
	}
	return s.do(func() error {
		s.note = raw
		return nil
	})
}
