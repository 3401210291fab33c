package openai

import (
	"encoding/json"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// detailList collects reasoning_details, which some gateways stream in pieces
// and want back whole: pieces with the same type and index are joined.
type detailList struct{ list []map[string]json.RawMessage }

func (l *detailList) add(raw json.RawMessage) {
	if !present(raw) {
		return
	}

	var items []map[string]json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return
	}

	for _, item := range items {
		if n := len(l.list); n > 0 && samePiece(l.list[n-1], item) {
			joinPiece(l.list[n-1], item)
			continue
		}
		l.list = append(l.list, item)
	}
}

func samePiece(a, b map[string]json.RawMessage) bool {
	return present(a["index"]) && slices.Equal(a["index"], b["index"]) && slices.Equal(a["type"], b["type"])
}

// joinPiece appends the texts of a piece; other fields are taken over.
func joinPiece(into, piece map[string]json.RawMessage) {
	for k, v := range piece {
		if !present(v) {
			continue
		}
		var a, b string
		if (k == "text" || k == "summary" || k == "data") && json.Unmarshal(into[k], &a) == nil && json.Unmarshal(v, &b) == nil {
			v = text.AppendJSON(nil, a+b)
		}
		into[k] = v
	}
}

// json returns the list, nil if there is none. Keys are sorted, so that the
// same details are always the same bytes.
func (l *detailList) json() json.RawMessage {
	if len(l.list) == 0 {
		return nil
	}
	b, err := json.Marshal(l.list)
	if err != nil {
		return nil
	}
	return b
}
