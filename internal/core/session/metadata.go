package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Keys inside the metadata object that the log keeps for itself, and those of
// the Python generations that Recover and Clear must know.
const (
	keyOpenTurn    = "open_turn"
	keyReplay      = "_replay"
	keyInbound     = "_inbound"
	keyCheckpoint  = "runtime_checkpoint"
	keyPendingUser = "pending_user_turn"
	keySummary     = "_last_summary"
	keyLastUsage   = "_last_usage"
	keyTitled      = "title_user_edited"
)

// TitleKey is the metadata key of the title of a conversation.
const TitleKey = "title"

// metadataStart is how the metadata lines that we write begin.
const metadataStart = `{"_type":"metadata",`

// OpenTurn marks a turn that was begun and not ended.
type OpenTurn struct {
	ID      string
	Started time.Time
	PID     int // of the process that began it
}

// replay says where the live part of a log begins, so that a cold load reads
// no more than that. at is the offset of the metadata line that says so: when
// it is found elsewhere, another program rewrote the file and the rest is void.
type replay struct {
	Index  int   `json:"index"`  // messages before the live part
	Offset int64 `json:"offset"` // where its first line begins
	Count  int   `json:"count"`  // messages before this metadata line
	At     int64 `json:"at"`
}

// metadata holds the fields of a metadata line. The last line of a log wins.
type metadata struct {
	key          string
	created      string // as written, because old files have many forms
	updated      string
	values       map[string]json.RawMessage // without open_turn and _replay
	extra        map[string]json.RawMessage // top-level keys we do not know
	consolidated int
	open         *OpenTurn
	replay       *replay
	ended        json.RawMessage // what was noted about the turn that the line ends
}

// mayBeMetadata tells cheaply whether a line may be something other than a message.
func mayBeMetadata(line []byte) bool { return bytes.Contains(line, []byte(`"_type"`)) }

// parseMetadata reads a metadata line; kind is the line's _type, "" for messages.
// The kind of a line whose checksum fails is "damaged".
func parseMetadata(line []byte) (m metadata, kind string) {
	var top map[string]json.RawMessage
	if json.Unmarshal(line, &top) != nil {
		return metadata{}, ""
	}

	take := func(key string, into any) {
		if v, ok := top[key]; ok {
			_ = json.Unmarshal(v, into) // an unusable value counts as absent
			delete(top, key)
		}
	}
	if take("_type", &kind); kind != "metadata" {
		return metadata{}, kind
	}
	if _, _, ok := store.Unseal(line); !ok {
		return metadata{}, "damaged"
	}

	delete(top, store.SumKey)
	take("key", &m.key)
	take("created_at", &m.created)
	take("updated_at", &m.updated)
	take("metadata", &m.values)
	take("last_consolidated", &m.consolidated)
	m.consolidated = max(m.consolidated, 0)
	m.extra = top

	if v, ok := m.values[keyOpenTurn]; ok {
		m.open = parseOpenTurn(v)
		delete(m.values, keyOpenTurn)
	}

	if v, ok := m.values[keyReplay]; ok {
		var r replay
		if json.Unmarshal(v, &r) == nil {
			m.replay = &r
		}
		delete(m.values, keyReplay)
	}

	if v, ok := m.values[keyTurn]; ok {
		m.ended = v
		delete(m.values, keyTurn)
	}
	return m, kind
}

func parseOpenTurn(v json.RawMessage) *OpenTurn {
	var w struct {
		ID      string `json:"id"`
		Started string `json:"started_at"`
		PID     int    `json:"pid"`
	}
	if string(v) == "null" || json.Unmarshal(v, &w) != nil {
		return nil
	}

	t, _ := parseTime(w.Started)
	return &OpenTurn{ID: w.ID, Started: t, PID: w.PID}
}

// appendLine appends the line without its newline; keys come in a fixed order.
func (m *metadata) appendLine(b []byte) []byte {
	b = append(b, metadataStart+`"key":`...)
	b = text.AppendJSON(b, m.key)
	b = append(b, `,"created_at":`...)
	b = text.AppendJSON(b, m.created)
	b = append(b, `,"updated_at":`...)
	b = text.AppendJSON(b, m.updated)
	b = append(b, `,"metadata":{`...)
	sep := len(b)
	for _, k := range slices.Sorted(maps.Keys(m.values)) {
		b = appendPair(b, sep, k, m.values[k])
	}

	if r := m.replay; r != nil {
		v := append([]byte(`{"index":`), strconv.Itoa(r.Index)...)
		v = append(v, `,"offset":`...)
		v = strconv.AppendInt(v, r.Offset, 10)
		v = append(v, `,"count":`...)
		v = strconv.AppendInt(v, int64(r.Count), 10)
		v = append(v, `,"at":`...)
		v = strconv.AppendInt(v, r.At, 10)
		b = appendPair(b, sep, keyReplay, append(v, '}'))
	}

	if o := m.open; o != nil {
		v := text.AppendJSON([]byte(`{"id":`), o.ID)
		v = append(v, `,"started_at":"`...)
		v = appendTime(v, o.Started)
		v = append(v, `","pid":`...)
		v = strconv.AppendInt(v, int64(o.PID), 10)
		b = appendPair(b, sep, keyOpenTurn, append(v, '}'))
	}

	if m.ended != nil {
		b = appendPair(b, sep, keyTurn, m.ended)
	}

	b = append(b, `},"last_consolidated":`...)
	b = strconv.AppendInt(b, int64(m.consolidated), 10)
	for _, k := range slices.Sorted(maps.Keys(m.extra)) {
		b = appendPair(b, 0, k, m.extra[k])
	}
	return append(b, '}')
}

// appendPair appends a key and its value, with a comma unless b ends at first.
func appendPair(b []byte, first int, key string, v []byte) []byte {
	if len(b) != first {
		b = append(b, ',')
	}
	b = text.AppendJSON(b, key)
	b = append(b, ':')
	return append(b, v...)
}
