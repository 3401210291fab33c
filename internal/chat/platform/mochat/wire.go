package mochat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// The kinds of packets: of Engine.IO, which begin a text, and of Socket.IO.
const (
	engineOpen    = '0'
	engineClose   = '1'
	enginePing    = '2'
	enginePong    = "3"
	engineMessage = '4'
	engineNoop    = '6'

	ioConnect    = 0
	ioDisconnect = 1
	ioEvent      = 2
	ioAck        = 3
	ioRefused    = 4
)

var errPacket = errors.New("it is not a packet of Socket.IO")

// packet is one of Socket.IO.
type packet struct {
	Type int             `json:"type"`
	Nsp  string          `json:"nsp"`
	ID   *int64          `json:"id"`
	Data json.RawMessage `json:"data"`
}

// readPacket reads a frame: a text of Engine.IO that holds a message, or msgpack.
func readPacket(f socket.Frame) (p packet, err error) {
	p.Type = -1
	if f.Binary {
		data, err := fromMsgpack(f.Data)
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		return p, err
	}

	rest := f.Data
	if len(rest) < 2 || rest[0] != engineMessage || rest[1] < '0' || rest[1] > '4' {
		return p, errPacket
	}

	p.Type, rest = int(rest[1]-'0'), rest[2:]
	if len(rest) > 0 && rest[0] == '/' {
		name, after, _ := bytes.Cut(rest, []byte(","))
		p.Nsp, rest = string(name), after
	}

	digits := 0
	for digits < len(rest) && digits < 18 && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}

	if digits > 0 {
		id, _ := strconv.ParseInt(string(rest[:digits]), 10, 64)
		p.ID, rest = &id, rest[digits:]
	}

	if len(rest) > 0 && !json.Valid(rest) {
		return p, errPacket
	}

	p.Data = rest
	return p, nil
}

// frame returns a packet to send. A negative id is none.
func frame(plain bool, kind int, id int64, data any) (socket.Frame, error) {
	if !plain {
		p := map[string]any{"type": kind, "nsp": "/", "data": data}
		if id >= 0 {
			p["id"] = id
		}
		return socket.Frame{Binary: true, Data: toMsgpack(nil, p)}, nil
	}

	body, err := json.Marshal(data)
	if err != nil {
		return socket.Frame{}, err
	}

	out := []byte{engineMessage, byte('0' + kind)} //nolint:gosec // of 0 to 4
	if id >= 0 {
		out = strconv.AppendInt(out, id, 10)
	}
	return socket.Frame{Data: append(out, body...)}, nil
}

// named returns an event: its name and what it holds.
func (p *packet) named() (name string, body json.RawMessage, err error) {
	var list []json.RawMessage
	if err := json.Unmarshal(p.Data, &list); err != nil || len(list) == 0 {
		return "", nil, errPacket
	}
	if err := json.Unmarshal(list[0], &name); err != nil {
		return "", nil, errPacket
	}

	if len(list) > 1 {
		body = list[1]
	}
	return name, body, nil
}

// str is a text without the blanks around it. Numbers become one, everything else
// is empty.
type str string

// UnmarshalJSON implements json.Unmarshaler.
func (v *str) UnmarshalJSON(data []byte) error {
	*v = ""
	if len(data) == 0 || data[0] != '"' {
		if len(data) > 0 && (data[0] == '-' || data[0] >= '0' && data[0] <= '9') {
			*v = str(data)
		}
		return nil
	}

	var s string
	err := json.Unmarshal(data, &s)
	*v = str(strings.TrimSpace(s))
	return err
}

// whole is a number that is not negative; -1: it is not one.
type whole int64

// UnmarshalJSON implements json.Unmarshaler.
func (v *whole) UnmarshalJSON(data []byte) error {
	*v = -1
	if n, err := strconv.ParseInt(string(data), 10, 64); err == nil && n >= 0 {
		*v = whole(n)
	}
	return nil
}

// stamp is a time: a text of ISO 8601 or a number of ms; zero: it is not one.
type stamp struct{ at time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (v *stamp) UnmarshalJSON(data []byte) error {
	v.at = time.Time{}
	if n, err := strconv.ParseInt(string(data), 10, 64); err == nil && n > 0 && n < 1<<47 {
		v.at = time.UnixMilli(n)
		return nil
	}

	s := strings.Trim(string(data), `"`)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} { // Python leaves out that it is UTC
		if at, err := time.Parse(layout, s); err == nil && at.Year() > 1970 {
			v.at = at
			return nil
		}
	}
	return nil
}

// object fills a struct as far as the data is an object that fits.
func object(data json.RawMessage, into any) { _ = json.Unmarshal(data, into) }

// watched is what the server knows of a session since a cursor, or of a panel.
type watched struct {
	SessionID str               `json:"sessionId"`
	PanelID   str               `json:"panelId"`
	Cursor    *whole            `json:"cursor"`
	Events    []json.RawMessage `json:"events"`
}

// happened is an event of a session or a panel.
type happened struct {
	Seq       *whole          `json:"seq"`
	Type      string          `json:"type"`
	Timestamp stamp           `json:"timestamp"`
	Payload   json.RawMessage `json:"payload"`
}

// message is one as each of the server's ways to tell it names its parts.
type message struct {
	MessageID  str             `json:"messageId"`
	OtherID    str             `json:"_id"`
	Author     str             `json:"author"`
	AuthorInfo json.RawMessage `json:"authorInfo"`
	Content    json.RawMessage `json:"content"`
	Meta       json.RawMessage `json:"meta"`
	GroupID    str             `json:"groupId"`
	ConverseID str             `json:"converseId"`
	PanelID    str             `json:"panelId"`
	CreatedAt  stamp           `json:"createdAt"`

	id string // see identify
}

// identify finds the id of a message. One without an id is known by how it looks
// when it comes again.
func (m *message) identify(at time.Time, seq string) {
	m.id = string(cmp.Or(m.MessageID, m.OtherID))
	if m.id == "" {
		m.id = "x" + fingerprint(strings.Join([]string{string(m.Author), seq, at.String(), string(m.Content)}, "\n"))
	}
}

// words returns the content as text, and whether a person typed it.
func (m *message) words() (said string, typed bool) {
	var s *string
	if json.Unmarshal(m.Content, &s) == nil {
		if s == nil {
			return "", true
		}
		return strings.TrimSpace(text.Valid(*s)), true
	}
	return text.Valid(string(m.Content)), len(m.Content) == 0
}

// mentions reports whether a message mentions a user.
func (m *message) mentions(user string) bool {
	var flags struct {
		Mentioned    any `json:"mentioned"`
		WasMentioned any `json:"wasMentioned"`
	}
	object(m.Meta, &flags)
	if flags.Mentioned == true || flags.WasMentioned == true {
		return true
	}
	if user == "" {
		return false
	}

	var lists map[string]json.RawMessage
	object(m.Meta, &lists)
	for _, key := range []string{"mentions", "mentionIds", "mentionedUserIds", "mentionedUsers"} {
		var list []json.RawMessage
		object(lists[key], &list)
		if slices.ContainsFunc(list, func(raw json.RawMessage) bool { return idOf(raw) == user }) {
			return true
		}
	}

	said, typed := m.words()
	return typed && (strings.Contains(said, "<@"+user+">") || at(said, user) >= 0)
}

// idOf returns the id of a user: a text, or an object that has one.
func idOf(raw json.RawMessage) string {
	var s str
	var o struct {
		ID     str `json:"id"`
		UserID str `json:"userId"`
		Other  str `json:"_id"`
	}

	object(raw, &s)
	object(raw, &o)
	for _, id := range []str{s, o.ID, o.UserID, o.Other} {
		if id != "" {
			return string(id)
		}
	}
	return ""
}

// at returns where a text has @user as a word; -1: it does not.
func at(s, user string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], "@"+user)
		if i < 0 {
			return -1
		}

		from += i
		next, _ := utf8.DecodeRuneInString(s[from+1+len(user):])
		if next != '_' && !unicode.IsLetter(next) && !unicode.IsDigit(next) || next > unicode.MaxLatin1 {
			return from
		}
		from++
	}
}

// unaddressed returns a text without a mention of a user at its beginning.
func unaddressed(s, user string) string {
	if user == "" {
		return s
	}
	if rest, ok := strings.CutPrefix(s, "<@"+user+">"); ok {
		return strings.TrimSpace(rest)
	}
	if at(s, user) == 0 {
		return strings.TrimSpace(s[1+len(user):])
	}
	return s
}

// acked is the answer to a call on the socket: an object, or anything else that
// means yes.
type acked struct {
	Result  *bool           `json:"result"`
	Message str             `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// batches returns what a subscription of sessions gives.
func (p *packet) batches() ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(p.Data, &list); err != nil {
		return nil, errPacket
	}
	if len(list) == 0 {
		return nil, nil
	}

	a := acked{Data: list[0]}
	if bytes.HasPrefix(bytes.TrimSpace(list[0]), []byte("{")) {
		a.Data = nil
		if err := json.Unmarshal(list[0], &a); err != nil || a.Result == nil || !*a.Result {
			return nil, fmt.Errorf("Mochat refuses the subscription: %s", text.Label(string(a.Message), 200)) //nolint:staticcheck // a name
		}
	}

	var many []json.RawMessage
	if json.Unmarshal(a.Data, &many) == nil {
		return many, nil
	}

	var sessions struct {
		Sessions  []json.RawMessage `json:"sessions"`
		SessionID str               `json:"sessionId"`
	}
	object(a.Data, &sessions)
	if sessions.Sessions == nil && sessions.SessionID != "" {
		return []json.RawMessage{a.Data}, nil
	}
	return sessions.Sessions, nil
}
