package feishutest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of a card.
const (
	maxElements = 200
	maxLabel    = 100 // characters
)

// element is one of a card of schema 2.0.
type element struct {
	Tag       string     `json:"tag"`
	ID        string     `json:"element_id"`
	Content   string     `json:"content"`
	Elements  []element  `json:"elements"` // of a column
	Columns   []element  `json:"columns"`  // of a column_set
	Text      *element   `json:"text"`     // of a button
	Type      string     `json:"type"`
	Behaviors []behavior `json:"behaviors"`
}

type behavior struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// shown is a card as people see it.
type shown struct {
	texts   []string
	buttons []element
	ids     map[string]bool
	count   int
}

func (c *shown) text() string {
	if c == nil {
		return ""
	}
	return strings.Join(c.texts, "\n")
}

func (c *shown) labels() (list []string) {
	if c == nil {
		return nil
	}
	for _, b := range c.buttons {
		list = append(list, b.Text.Content)
	}
	return list
}

func badCard(code int, why string) error {
	return refuse(230099, "Failed to create card content, ext=ErrCode: %d; ErrMsg: %s", code, why)
}

// checkCard refuses a card that Feishu does not take. One without a schema is of
// schema 1.0, which CardKit does not take. The lock is held.
func (s *Server) checkCard(data string, kit bool) (*shown, error) {
	var c struct {
		Schema   string    `json:"schema"`
		Elements []element `json:"elements"`
		Config   struct {
			Shared *bool `json:"update_multi"`
		} `json:"config"`
		Body struct {
			Elements []element `json:"elements"`
		} `json:"body"`
	}

	err := json.Unmarshal([]byte(data), &c)
	if c.Schema == "2.0" {
		c.Elements = c.Body.Elements
	}

	if err != nil || len(c.Elements) == 0 || c.Schema != "2.0" && (c.Schema != "" || kit) {
		return nil, badCard(200621, "parse card json err")
	}
	if c.Schema != "" && c.Config.Shared != nil && !*c.Config.Shared {
		return nil, badCard(200622, "update_multi of schema 2.0 must be true")
	}

	out := &shown{ids: map[string]bool{}}
	for _, e := range c.Elements {
		if err := s.checkElement(out, &e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *Server) checkElement(out *shown, e *element) error {
	if out.count++; out.count > maxElements {
		return badCard(11310, "card element number over limit")
	}

	if e.ID != "" {
		if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,19}$`).MatchString(e.ID) {
			return badCard(200861, "invalid element_id "+e.ID)
		}
		if out.ids[e.ID] {
			return badCard(200861, "duplicate element_id "+e.ID)
		}
		out.ids[e.ID] = true
	}

	switch e.Tag {
	case "markdown":
		if err := s.checkMarkdown(e.Content); err != nil {
			return err
		}
		out.texts = append(out.texts, seenMarkdown(e.Content))

	case "div":
		if e.Text == nil || e.Text.Content == "" {
			return badCard(200861, "a div has a text")
		}
		if err := s.checkMarkdown(e.Text.Content); err != nil {
			return err
		}
		out.texts = append(out.texts, seenMarkdown(e.Text.Content))

	case "column_set":
		return s.checkColumns(out, e)
	case "button":
		return checkButton(out, e)
	default: // action is of schema 1.0
		return badCard(200861, "unknown tag "+e.Tag)
	}

	return nil
}

func (s *Server) checkColumns(out *shown, e *element) error {
	for _, column := range e.Columns {
		if column.Tag != "column" || len(column.Elements) == 0 {
			return badCard(200861, "a column_set has columns")
		}
		for _, inner := range column.Elements {
			if err := s.checkElement(out, &inner); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkButton(out *shown, e *element) error {
	if e.Text == nil || e.Text.Tag != "plain_text" || e.Text.Content == "" || len([]rune(e.Text.Content)) > maxLabel {
		return badCard(200861, "invalid text of a button")
	}
	if !slices.Contains([]string{"", "default", "primary", "danger", "text", "primary_text", "danger_text", "primary_filled", "danger_filled", "laser"}, e.Type) {
		return badCard(200861, "invalid type of a button")
	}
	if len(e.Behaviors) != 1 || e.Behaviors[0].Type != "callback" || !strings.HasPrefix(string(e.Behaviors[0].Value), "{") {
		return badCard(200861, "invalid behaviors of a button")
	}

	out.buttons = append(out.buttons, *e)
	return nil
}

// pressEvent is the callback of a button.
const pressEvent = "card.action.trigger"

// Pressed is what the person sees who pressed a button.
type Pressed struct {
	Answered bool // in time; else Feishu says that it did not work
	Toast    string
	Kind     string // of the toast
	Updated  bool   // the card is another one, for all who see it
}

// Press lets a person press the button with a label of a message of the bot,
// and waits for the answer.
func (s *Server) Press(message, person, label string) Pressed {
	value := s.Value(message, label)
	if value == nil {
		return Pressed{}
	}
	s.mu.Lock()
	body := Callback(message, s.message(message).Chat, person, value)
	s.mu.Unlock()
	return s.Answered(s.Emit(pressEvent, body))
}

// Value is what a button of a message bears, nil if there is no such button.
func (s *Server) Value(message, label string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()

	m := s.message(message)
	if m == nil || m.Deleted {
		return nil
	}

	c, err := s.checkCard(m.Content, false)
	if err != nil {
		return nil
	}

	for _, b := range c.buttons {
		if b.Text.Content == label {
			return b.Behaviors[0].Value
		}
	}
	return nil
}

// Callback is the body of the event of a press.
func Callback(message, chat, person string, value json.RawMessage) map[string]any {
	return map[string]any{
		"operator": map[string]any{"tenant_key": "t1", "open_id": person, "union_id": "on_" + person, "user_id": nil},
		"token":    "c-" + strconv.FormatInt(time.Now().UnixNano(), 36),
		"action":   map[string]any{"value": value, "tag": "button", "timezone": "Asia/Shanghai"},
		"host":     "im_message",
		"context":  map[string]any{"open_message_id": message, "open_chat_id": chat},
	}
}

// Answered waits for the answer to the event of a press, and shows it.
func (s *Server) Answered(id string) (p Pressed) {
	patience := time.NewTimer(10 * time.Minute)
	defer patience.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		i := slices.IndexFunc(s.events, func(e *event) bool { return e.id == id && e.acked })
		if i >= 0 {
			p = s.respond(s.events[i])
		}

		s.mu.Unlock()
		if i >= 0 {
			return p
		}

		select {
		case <-changed:
		case <-patience.C:
			return p
		}
	}
}

// respond does what an answer to a press says. The lock is held.
func (s *Server) respond(e *event) (p Pressed) {
	var answer struct {
		Toast *struct{ Type, Content string } `json:"toast"`
		Card  *struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		} `json:"card"`
	}

	p.Answered = true
	if len(e.answer) > 0 && json.Unmarshal(e.answer, &answer) != nil {
		s.bad = append(s.bad, "the answer to a press is not JSON: "+string(e.answer))
		return p
	}

	if t := answer.Toast; t != nil {
		if p.Toast, p.Kind = t.Content, t.Type; t.Content == "" || !slices.Contains([]string{"info", "success", "error", "warning"}, t.Type) {
			s.bad = append(s.bad, "a wrong toast: "+string(e.answer))
		}
	}

	if c := answer.Card; c != nil {
		var in struct {
			Event struct {
				Context struct {
					Message string `json:"open_message_id"`
				} `json:"context"`
			} `json:"event"`
		}

		_ = json.Unmarshal(e.payload, &in) // we made it
		m := s.message(in.Event.Context.Message)
		if m == nil || c.Type != "raw" {
			s.bad = append(s.bad, "a wrong card: "+string(e.answer))
			return p
		}
		if _, err := s.change(m, string(c.Data)); err != nil {
			s.bad = append(s.bad, err.Error())
			return p
		}
		p.Updated = true
	}

	return p
}
