package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// What Recover writes in place of what never came. The model reads these.
// TurnCut is the mark of an interrupted turn: it stands behind what the user
// said, as a note of ours, so that no model takes it for an answer of its own.
const (
	TurnCut       = "[System note: this turn was interrupted. The user has not received an answer to it.]"
	textReadCut   = "Error: interrupted before this call finished. It only reads, so it can be made again."
	textEffectCut = "Error: interrupted before this call finished. It may have taken effect: check before you repeat it."
)

// What earlier versions, and the Python version, wrote as an answer of the model.
const (
	oldTurnCut    = "Error: this turn was interrupted before an answer was written."
	pythonTurnCut = "Error: Task interrupted before a response was generated."
)

// Mark reports whether the record is the mark of an interrupted turn, in the
// form of any version.
func (r *Record) Mark() bool {
	switch r.Role {
	case llm.User:
		return r.Interrupted
	case llm.Assistant:
		return len(r.ToolCalls) == 0 && (r.Interrupted || r.Content.Text == oldTurnCut || r.Content.Text == pythonTurnCut)
	}
	return false
}

// Recovery says what Recover had to do.
type Recovery struct {
	Turn    *OpenTurn // the turn that was open, if one was
	Results int       // tool results written for calls that never finished
	Note    bool      // a mark was written in place of the answer
}

// Recover closes a turn that was interrupted, so that the log is legal again:
// each call at the end that has no result gets one that says so, in the order
// of the calls, and an unanswered end gets a mark. Calls of tools for which
// readOnly is false, or all when it is nil, are said to have perhaps taken
// effect. Everything is one write; running it again, also after a crash in
// the middle of it, changes nothing further. What older versions left of an
// interrupted turn in the metadata is taken in first.
func (s *Session) Recover(readOnly func(tool string) bool) (Recovery, error) {
	var rec Recovery
	err := s.do(func() (err error) {
		rec, err = s.recover(readOnly)
		return err
	})
	return rec, err
}

func (s *Session) recover(readOnly func(tool string) bool) (Recovery, error) {
	m := s.j.meta
	rec := Recovery{Turn: m.open}
	add := s.fromCheckpoint()
	live := append(s.j.recs[:len(s.j.recs):len(s.j.recs)], add...)
	missing, last := unfinished(live)
	for _, c := range missing {
		text := textEffectCut
		if readOnly != nil && readOnly(c.Name) {
			text = textReadCut
		}

		add = append(add, Record{
			Message: llm.Message{
				Role: llm.ToolRole, ToolCallID: c.ID, Name: c.Name, Content: llm.Text(text), IsError: true,
			},
			Interrupted: true,
		})
	}

	rec.Results = len(missing)
	rec.Note = last == llm.User || len(missing) > 0 || (last == llm.ToolRole && m.open != nil)
	if rec.Note {
		add = append(add, Record{
			Message:     llm.Message{Role: llm.User, Content: llm.Text(TurnCut)},
			Interrupted: true,
		})
	}

	_, checkpoint := m.values[keyCheckpoint]
	_, pending := m.values[keyPendingUser]
	if len(add) == 0 && m.open == nil && !checkpoint && !pending {
		return rec, nil
	}

	b := s.batch("")
	if err := b.records(add); err != nil {
		return Recovery{}, err
	}

	m.open = nil
	m.ended, s.note = s.note, nil
	m.values = maps.Clone(m.values)
	delete(m.values, keyCheckpoint)
	delete(m.values, keyPendingUser)
	b.metadata(m)
	if err := s.write(b); err != nil {
		return Recovery{}, err
	}
	return rec, s.syncIf(FsyncAlways, FsyncTurn)
}

// unfinished finds the calls at the end of a history that have no result, and
// the role of the last record that the model would be shown.
func unfinished(recs []Record) (calls []llm.ToolCall, last llm.Role) {
	done := map[string]bool{}
	for _, r := range slices.Backward(recs) {
		if r.Command {
			continue
		}

		if last == "" {
			if last = r.Role; r.Mark() {
				last = llm.Assistant // closed already
			}
		}

		if r.Role == llm.ToolRole {
			done[r.ToolCallID] = true
			continue
		}

		for _, c := range r.ToolCalls {
			if !done[c.ID] {
				done[c.ID] = true
				calls = append(calls, c)
			}
		}
		break
	}

	return calls, last
}

// fromCheckpoint gives the messages of an interrupted Python turn that its
// file keeps only in the metadata.
func (s *Session) fromCheckpoint() []Record {
	var c struct {
		Assistant *llm.Message  `json:"assistant_message"`
		Results   []llm.Message `json:"completed_tool_results"`
	}
	raw, ok := s.j.meta.values[keyCheckpoint]
	if !ok || json.Unmarshal(raw, &c) != nil || c.Assistant == nil || c.Assistant.Role != llm.Assistant {
		return nil
	}

	var lost []Record
	for _, m := range append([]llm.Message{*c.Assistant}, c.Results...) {
		lost = append(lost, Record{Message: m})
	}

	// The beginning of the checkpoint may be the end of the log already.
	for k := min(len(lost), len(s.j.recs)); k > 0; k-- {
		if sameMessages(s.j.recs[len(s.j.recs)-k:], lost[:k]) {
			return lost[k:]
		}
	}
	return lost
}

func sameMessages(a, b []Record) bool {
	for i := range a {
		if !bytes.Equal(plain(a[i].Message), plain(b[i].Message)) {
			return false
		}
	}
	return true
}

// plain returns the part of a message that Python compares.
func plain(m llm.Message) []byte {
	m.IsError = false
	m.Origin = ""
	m.ReasoningDetails = nil
	return m.AppendFields(nil)
}
