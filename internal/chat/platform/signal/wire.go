package signal

import (
	"encoding/json"
	"slices"
	"strings"
)

// event is one message of the daemon's stream.
type event struct {
	Account  string    `json:"account"`
	Envelope *envelope `json:"envelope"`
}

type envelope struct {
	Source          string       `json:"source,omitempty"`
	SourceNumber    string       `json:"sourceNumber,omitempty"`
	SourceUUID      string       `json:"sourceUuid,omitempty"`
	SourceServiceID string       `json:"sourceServiceId,omitempty"`
	SourceACI       string       `json:"sourceAci,omitempty"` // some versions write sourceACI
	SourceName      string       `json:"sourceName,omitempty"`
	Timestamp       int64        `json:"timestamp,omitempty"`
	Data            *dataMessage `json:"dataMessage,omitempty"`
	Edit            *editMessage `json:"editMessage,omitempty"`
}

type editMessage struct {
	Target int64        `json:"targetSentTimestamp"`
	Data   *dataMessage `json:"dataMessage"`
}

type dataMessage struct {
	Timestamp        int64           `json:"timestamp"`
	Message          string          `json:"message,omitempty"`
	ExpiresInSeconds int             `json:"expiresInSeconds,omitempty"`
	ExpirationUpdate bool            `json:"isExpirationUpdate,omitempty"`
	ViewOnce         bool            `json:"viewOnce,omitempty"`
	Reaction         json.RawMessage `json:"reaction,omitempty"`
	RemoteDelete     json.RawMessage `json:"remoteDelete,omitempty"`
	Quote            *quote          `json:"quote,omitempty"`
	Mentions         []mention       `json:"mentions,omitempty"`
	Attachments      []attachment    `json:"attachments,omitempty"`
	Contacts         []contact       `json:"contacts,omitempty"`
	Sticker          *sticker        `json:"sticker,omitempty"`
	GroupInfo        *group          `json:"groupInfo,omitempty"`
	GroupV2          *group          `json:"groupV2,omitempty"`
}

type group struct {
	GroupID string `json:"groupId,omitempty"`
	ID      string `json:"id,omitempty"`
	Type    string `json:"type,omitempty"`
}

type quote struct {
	ID           int64        `json:"id"`
	Author       string       `json:"author,omitempty"`
	AuthorNumber string       `json:"authorNumber,omitempty"`
	AuthorUUID   string       `json:"authorUuid,omitempty"`
	Text         string       `json:"text,omitempty"`
	Attachments  []attachment `json:"attachments,omitempty"`
}

// mention is where a person is named; the text has one character there.
type mention struct {
	Name      string `json:"name,omitempty"`
	Number    string `json:"number,omitempty"`
	UUID      string `json:"uuid,omitempty"`
	ServiceID string `json:"serviceId,omitempty"`
	ACI       string `json:"aci,omitempty"`
	Start     int    `json:"start"`  // UTF-16 units
	Length    int    `json:"length"` // UTF-16 units
}

func (m mention) ids() []string {
	return slices.DeleteFunc([]string{m.Number, m.UUID, m.ServiceID, m.ACI}, func(s string) bool { return s == "" })
}

type attachment struct {
	ContentType string `json:"contentType,omitempty"`
	Filename    string `json:"filename,omitempty"`
	ID          string `json:"id,omitempty"`
	Size        int64  `json:"size,omitempty"`
}

type contact struct {
	Name struct {
		Display string `json:"display,omitempty"`
		Given   string `json:"given,omitempty"`
		Family  string `json:"family,omitempty"`
	} `json:"name"`
	Phone []struct {
		Value string `json:"value,omitempty"`
	} `json:"phone,omitempty"`
}

type sticker struct {
	Emoji string `json:"emoji,omitempty"`
}

// message returns what a person wrote, nil if the envelope holds something else.
func (e *envelope) message() (m *dataMessage, edited bool) {
	switch {
	case e.Data != nil:
		m = e.Data
	case e.Edit != nil && e.Edit.Data != nil:
		m, edited = e.Edit.Data, true
	default:
		return nil, false
	}

	present := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	if present(m.Reaction) || present(m.RemoteDelete) || m.ExpirationUpdate || m.group() != "" && m.update() {
		return nil, false
	}
	if m.Message == "" && len(m.Attachments) == 0 && len(m.Contacts) == 0 && m.Sticker == nil {
		return nil, false
	}
	return m, edited
}

// update reports whether a message only tells of a change of the group.
func (m *dataMessage) update() bool {
	return m.GroupInfo != nil && m.GroupInfo.Type != "" && m.GroupInfo.Type != "DELIVER" && m.Message == "" && len(m.Attachments) == 0
}

// group returns the id of the group a message was written in, "" if it is direct.
func (m *dataMessage) group() string {
	for _, g := range []*group{m.GroupInfo, m.GroupV2} {
		switch {
		case g == nil:
		case g.GroupID != "":
			return g.GroupID
		case g.ID != "":
			return g.ID
		}
	}
	return ""
}

// senders returns the normal ids of whoever wrote.
func (e *envelope) senders() []string {
	var out []string
	for _, id := range []string{e.SourceNumber, e.Source, e.SourceUUID, e.SourceServiceID, e.SourceACI} {
		if id = normal(id); (isNumber(id) || isUUID(id)) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func (q *quote) authors() []string {
	return slices.DeleteFunc([]string{q.AuthorNumber, q.AuthorUUID, q.Author}, func(s string) bool { return s == "" })
}

// notes returns the parts of a message that are neither text nor files.
func (m *dataMessage) notes() []string {
	var out []string
	for _, c := range m.Contacts {
		name := c.Name.Display
		if name == "" {
			name = strings.TrimSpace(c.Name.Given + " " + c.Name.Family)
		}
		for _, p := range c.Phone {
			name += ", " + p.Value
		}
		out = append(out, "[contact: "+name+"]")
	}

	if m.Sticker != nil {
		out = append(out, strings.TrimSpace("[sticker: "+m.Sticker.Emoji)+"]")
	}
	return out
}
