package mochat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	collected = 50 // messages of a panel that are answered together
)

// how a message came.
type how int

const (
	pushed how = iota // by the socket, as it was written
	missed            // asked for: it may be old
)

// event is what is held until the agent has it: messages that are answered
// together.
type event struct {
	Account string  `json:"account"`
	Chat    string  `json:"chat"`
	Panel   bool    `json:"panel,omitempty"`
	Many    bool    `json:"many,omitempty"`     // several people read it
	ForUs   bool    `json:"for_us,omitempty"`   // else it is only context
	Alone   bool    `json:"alone,omitempty"`    // it is not answered together with others: a command, an answer
	Backlog bool    `json:"backlog,omitempty"`  // it was written while we were away
	DelayMS int64   `json:"delay_ms,omitempty"` // how long to wait for more
	Entries []entry `json:"said"`
}

// entry is what one person wrote.
type entry struct {
	ID        string    `json:"id"`
	Author    string    `json:"author"`
	Name      string    `json:"name,omitempty"`
	Username  string    `json:"username,omitempty"`
	Group     string    `json:"group,omitempty"`
	Text      string    `json:"text"`
	Made      bool      `json:"made,omitempty"` // the platform wrote it, not a person
	Mentioned bool      `json:"mentioned,omitempty"`
	At        time.Time `json:"at,omitzero"` // by our clock
}

// Joins returns how long to wait for messages that are answered with this one.
func (e event) Joins() time.Duration { return time.Duration(e.DelayMS) * time.Millisecond }

// Join adds the next message of the panel. One that mentions us ends the wait.
func (e event) Join(next event) (event, bool) {
	if e.Alone || next.Alone || !next.ForUs || len(e.Entries)+len(next.Entries) > collected || e.Account != next.Account {
		return e, false
	}
	next.Entries = append(append([]entry{}, e.Entries...), next.Entries...)
	return next, true
}

// batch handles events of a session or a panel. Rest says that there may be more.
func (l *line) batch(ctx context.Context, raw json.RawMessage, panel bool, came how) (t *target, rest bool, err error) {
	var w watched
	if err := json.Unmarshal(raw, &w); err != nil {
		l.bot.once(ctx, "events cannot be read", "err", err)
		return nil, false, nil
	}

	id, list := string(w.SessionID), l.bot.o.Sessions
	if panel {
		id, list = string(cmp.Or(w.PanelID, w.SessionID)), l.bot.o.Panels
	}

	if id == "" {
		l.bot.once(ctx, "events without a session")
		return nil, false, nil
	}
	if !wants(list, id) {
		return nil, false, nil
	}

	switch t = l.add(id, panel); {
	case t == nil:
		l.bot.once(ctx, "there are too many sessions or panels", "most", chatsMost)
		return nil, false, nil
	case t.panel != panel:
		l.bot.once(ctx, "a session has events of a panel, or a panel those of a session")
		return nil, false, nil
	}

	rest, err = l.receiveEvents(ctx, t, &w, came)
	return t, rest, err
}

// receiveEvents handles the events of a target. The cursor is set after all of them are
// durable.
func (l *line) receiveEvents(ctx context.Context, t *target, w *watched, came how) (rest bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()

	reached := whole(-1)
	if w.Cursor != nil {
		reached = *w.Cursor
	}

	for _, raw := range w.Events {
		var e happened
		if err := json.Unmarshal(raw, &e); err != nil {
			l.bot.once(ctx, "an event cannot be read", "err", err)
			continue
		}

		if e.Seq != nil {
			reached = max(reached, *e.Seq)
		}

		if e.Type != "message.add" {
			continue
		}

		var m message
		if err := json.Unmarshal(e.Payload, &m); err != nil {
			l.bot.once(ctx, "a message cannot be read", "err", err)
			continue
		}

		if t.panel {
			err = l.panelSaid(ctx, t, &m, e.Timestamp.at, came)
		} else {
			err = l.sessionSaid(ctx, t, &m, &e, came)
		}

		if err != nil {
			return false, err
		}
	}

	rest = came == missed && len(w.Events) >= l.bot.o.limit()
	if !t.panel && reached >= 0 {
		l.marks.set(t.id, int64(reached))
	}
	if came == missed && !rest {
		t.cold, t.caught = false, true
	}
	return rest, nil
}

// sessionSaid handles a message of a session. Of a session that was never read
// all that is older than this Run is history.
func (l *line) sessionSaid(ctx context.Context, t *target, m *message, e *happened, came how) error {
	at, seq := e.Timestamp.at, ""
	if e.Seq != nil {
		seq = strconv.FormatInt(int64(*e.Seq), 10)
	}
	if m.identify(at, seq); came == missed && t.cold && at.Before(l.start()) {
		t.seen.Put(m.id, true) // it may come once more with another answer
		return nil
	}
	return l.accept(ctx, t, m, at, came == missed && !t.caught)
}

// panelSaid handles a message of a panel, if it is not older than what was read.
func (l *line) panelSaid(ctx context.Context, t *target, m *message, at time.Time, came how) error {
	m.identify(at, "")
	last, id := placed(l.panels.Get(t.id))
	beforeStart := t.cold && at.Before(l.start())
	lastRead := at.UnixMilli() == last.UnixMilli() && m.id == id
	read := !at.IsZero() && (at.Before(last) || lastRead)
	if came == missed && (beforeStart || read) {
		t.seen.Put(m.id, true)
		return nil
	}
	if err := l.accept(ctx, t, m, at, came == missed && !t.caught); err != nil {
		return err
	}
	if at.After(last) {
		return l.panels.Set(t.id, place(at, m.id))
	}
	return nil
}

// panelMessage handles a message that a panel's members are told of.
func (l *line) panelMessage(ctx context.Context, raw json.RawMessage) error {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		l.bot.once(ctx, "a message cannot be read", "err", err)
		return nil
	}

	panel := string(cmp.Or(m.ConverseID, m.PanelID))
	if m.GroupID == "" || panel == "" || !wants(l.bot.o.Panels, panel) {
		return nil
	}

	t := l.add(panel, true)
	if t == nil || !t.panel {
		return nil
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	return l.panelSaid(ctx, t, &m, m.CreatedAt.at, pushed)
}

// inboxItem is a message that the inbox of the agent tells of.
type inboxItem struct {
	converse string
	m        message
	at       time.Time
}

// inboxMessage handles one. Which session it belongs to may have to be found
// first.
func (l *line) inboxMessage(ctx context.Context, raw json.RawMessage) error {
	var got struct {
		Type      string          `json:"type"`
		ID        str             `json:"_id"`
		CreatedAt stamp           `json:"createdAt"`
		Payload   json.RawMessage `json:"payload"`
	}

	var detail struct {
		GroupID  str    `json:"groupId"`
		Converse str    `json:"converseId"`
		Message  str    `json:"messageId"`
		Author   str    `json:"messageAuthor"`
		Plain    string `json:"messagePlainContent"`
		Snippet  string `json:"messageSnippet"`
	}
	if json.Unmarshal(raw, &got) != nil || json.Unmarshal(got.Payload, &detail) != nil {
		l.bot.once(ctx, "an entry of the inbox cannot be read")
		return nil //nolint:nilerr // it is ignored
	}
	if got.Type != "message" || detail.GroupID != "" || detail.Converse == "" {
		return nil
	}

	content, err := json.Marshal(cmp.Or(detail.Plain, detail.Snippet))
	if err != nil {
		return err
	}

	item := inboxItem{
		converse: string(detail.Converse),
		m:        message{MessageID: cmp.Or(detail.Message, got.ID), Author: detail.Author, Content: content},
		at:       got.CreatedAt.at,
	}
	if l.session(item.converse) != "" {
		return l.inboxed(ctx, item)
	}

	select {
	case l.inbox <- item:
	default:
		l.bot.once(ctx, "too many messages of unknown sessions")
	}
	return nil
}

// inboxed hands over a message of the inbox whose session is known.
func (l *line) inboxed(ctx context.Context, item inboxItem) error {
	id := l.session(item.converse)
	if id == "" || !wants(l.bot.o.Sessions, id) {
		return nil
	}

	t := l.add(id, false)
	if t == nil || t.panel {
		return nil
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	item.m.identify(item.at, "")
	return l.accept(ctx, t, &item.m, item.at, false)
}

// accept holds a message. Nil means that it is durable, or that nothing comes of
// it. The target's lock is held.
func (l *line) accept(ctx context.Context, t *target, m *message, at time.Time, backlog bool) error {
	b := l.bot
	said, typed := m.words()
	s := entry{ID: m.id, Author: string(m.Author), Group: string(m.GroupID), Text: said, Made: !typed}
	switch s.Author {
	case "":
		b.once(ctx, "a message without an author")
		return nil
	case b.o.AgentUserID:
		return nil
	}

	if t.seen.Has(s.ID) {
		return nil
	}
	if b.o.AgentUserID == "" && b.own(t.id, said) {
		t.seen.Put(s.ID, true)
		return nil
	}

	var who struct {
		Nickname str `json:"nickname"`
		Email    str `json:"email"`
		AgentID  str `json:"agentId"`
	}

	object(m.AuthorInfo, &who)
	s.Name = text.Speaker(string(cmp.Or(who.Nickname, who.Email)))
	s.Username = text.Speaker(string(who.AgentID))
	s.Mentioned = m.mentions(b.o.AgentUserID)
	if typed {
		s.Text = unaddressed(said, b.o.AgentUserID)
	}
	if !at.IsZero() {
		s.At = b.api.clock.Here(at)
	}

	e := event{Account: b.account(), Chat: t.id, Panel: t.panel, ForUs: true, Backlog: backlog, Entries: []entry{s}}
	l.mu.Lock()
	e.Many = t.panel || t.many || s.Group != ""
	l.mu.Unlock()

	if t.panel {
		b.recordKind(t.id, true, s.Group)
		if !b.weigh(ctx, &e) {
			t.seen.Put(s.ID, true)
			return nil
		}
	}

	if err := l.in.Hold(ctx, t.id, t.id+"/"+s.ID, e); err != nil {
		if !errors.Is(err, chat.ErrStopping) {
			err = fmt.Errorf("a message of Mochat is not taken yet: %w", err)
		}
		return err
	}

	t.seen.Put(s.ID, true)
	return nil
}

// weigh decides what a message of a panel is: for us, at once or later, or
// context. Words of people who may not talk to us are neither. False: nothing
// comes of it.
func (b *bot) weigh(ctx context.Context, e *event) bool {
	s := &e.Entries[0]
	if b.o.barred(s.Group, e.Chat) {
		return false
	}

	e.ForUs = s.Mentioned || !b.o.required(s.Group, e.Chat)
	e.Alone = strings.HasPrefix(s.Text, "/") || b.answers(e.Chat, s.Text)
	if e.ForUs && !s.Mentioned && !e.Alone {
		e.DelayMS = b.o.delay().Milliseconds()
	}

	v := b.visitor(e, s)
	if b.deps.Gate.Knows(ctx, v) {
		return true
	}

	if s.Mentioned {
		_, _ = b.deps.Gate.Admit(ctx, v) // it counts who was refused
	}
	return false
}

func (b *bot) visitor(e *event, s *entry) access.Visitor {
	v := access.Visitor{
		Route:     bus.Route{Channel: b.deps.Name, ChatID: e.Chat, MessageID: s.ID},
		IDs:       []string{s.Author},
		Name:      cmp.Or(s.Name, s.Username, text.Speaker(s.Author)),
		Direct:    !e.Many,
		Mentioned: e.ForUs,
		Text:      s.Text,
		Backlog:   e.Backlog,
	}
	if e.Backlog {
		v.At = s.At // of others only the server's clock knows
	}
	return v
}

// receiver hands held messages to the agent during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle deals with messages that are answered together. The last one is what is
// answered.
func (rc *receiver) handle(ctx context.Context, e event) error {
	b := rc.bot
	if e.Account != b.account() || len(e.Entries) == 0 {
		return nil // of the account that this section was for before
	}

	last := e.Entries[len(e.Entries)-1]
	pass, ok := b.deps.Gate.Admit(ctx, b.visitor(&e, &last))
	if !ok {
		return nil
	}

	own, others := []string{}, []string{}
	made, foreign := false, false
	for _, s := range e.Entries {
		v := b.visitor(&e, &s)
		if s.Author != last.Author && !b.deps.Gate.Knows(ctx, v) {
			continue // it was before
		}

		line := v.Name + ": " + cmp.Or(s.Text, emptyText)
		others = append(others, line)
		if s.Author != last.Author {
			foreign = true
			continue
		}

		made = made || s.Made
		own = append(own, line)
	}

	in := pass.Inbound(e.Chat+"/"+last.ID, strings.Join(own, "\n"))
	if len(own) == 1 {
		in.Text = cmp.Or(last.Text, emptyText)
	}

	in.Untrusted = made
	in.Meta = meta(&e, &last, len(others))
	if foreign {
		in.Quoted = append(in.Quoted, bus.Quote{About: "the conversation in the panel since the last answer, with words of others", Text: strings.Join(others, "\n")})
	}
	return pass.Submit(ctx, in, rc.submit)
}

// emptyText stands for a message without words.
const emptyText = "[empty message]"

// meta returns what Python nanobot tells its tools of a message.
func meta(e *event, last *entry, count int) map[string]string {
	kind, at := "session", ""
	if e.Panel {
		kind = "panel"
	}
	if !last.At.IsZero() {
		at = strconv.FormatInt(last.At.UnixMilli(), 10)
	}
	return map[string]string{
		"message_id":      last.ID,
		"timestamp":       at,
		"is_group":        strconv.FormatBool(e.Many),
		"group_id":        last.Group,
		"sender_name":     last.Name,
		"sender_username": last.Username,
		"target_kind":     kind,
		"was_mentioned":   strconv.FormatBool(last.Mentioned),
		"buffered_count":  strconv.Itoa(count),
	}
}
