package mochattest

import (
	"context"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

func (s *Server) listSessions(*http.Request, map[string]any) (any, *Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()

	list := []any{}
	for _, id := range s.order {
		people := []any{map[string]any{"userId": s.self}}
		for _, m := range s.sessions[id].members {
			people = append(people, map[string]any{"userId": m})
		}
		list = append(list, map[string]any{"sessionId": id, "converseId": "c_" + id, "participants": people})
	}

	return map[string]any{"sessions": list}, nil
}

// whole is a number that is not negative.
func whole(v any) (int, bool) {
	f, ok := v.(float64)
	if n, isInt := v.(int64); isInt {
		f, ok = float64(n), true
	}
	return int(f), ok && f >= 0 && f == float64(int(f))
}

// watch waits for events after a cursor.
func (s *Server) watch(r *http.Request, body map[string]any) (any, *Failure) {
	id, _ := body["sessionId"].(string)
	cursor, ok := whole(body["cursor"])
	limit, ok2 := whole(body["limit"])
	ms, ok3 := whole(body["timeoutMs"])
	if !ok || !ok2 || !ok3 || limit < 1 {
		return nil, refuse(http.StatusBadRequest, "cursor, limit and timeoutMs must be numbers")
	}

	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(ms)*time.Millisecond)
	defer cancel()
	for {
		s.mu.Lock()
		t, changed, closed := s.sessions[id], s.changed, s.closed
		var got map[string]any
		if t != nil {
			got = limited(t, cursor, limit)
		}

		s.mu.Unlock()
		if t == nil {
			return nil, refuse(http.StatusNotFound, "there is no session %s", id)
		}
		if events, _ := got["events"].([]any); len(events) > 0 || closed {
			return got, nil
		}

		select {
		case <-ctx.Done():
			return got, nil
		case <-changed:
		}
	}
}

// limited is a part of what a session has after a cursor.
func limited(t *session, cursor, limit int) map[string]any {
	got := batch(t, cursor)
	if events, _ := got["events"].([]any); len(events) > min(limit, eventsMost) {
		got["events"] = events[:min(limit, eventsMost)]
		got["cursor"] = cursor + min(limit, eventsMost)
	}
	return got
}

func (s *Server) sendSession(_ *http.Request, body map[string]any) (any, *Failure) {
	id, _ := body["sessionId"].(string)
	s.mu.Lock()
	known := s.sessions[id] != nil
	s.mu.Unlock()
	if !known {
		return nil, refuse(http.StatusNotFound, "there is no session %s", id)
	}
	bad := s.keep(Sent{Chat: id}, body)
	return map[string]any{"sessionId": id, "status": "sent"}, bad
}

// keep notes a message of the agent, and shows it to all who listen.
func (s *Server) keep(m Sent, body map[string]any) *Failure {
	content, _ := body["content"].(string)
	m.Text = content
	m.ReplyTo, _ = body["replyTo"].(string)
	m.Group, _ = body["groupId"].(string)

	switch n := utf8.RuneCountInString(content); {
	case n == 0:
		return refuse(http.StatusBadRequest, "content is empty")
	case n > contentMost:
		return refuse(http.StatusBadRequest, "content is too long")
	}

	s.mu.Lock()
	s.sent = append(s.sent, m)
	self := s.self
	s.mu.Unlock()

	if echo := (Message{From: self, Text: content}); m.Panel {
		s.Post(m.Chat, echo)
	} else {
		s.Say(m.Chat, echo)
	}
	return nil
}

func (s *Server) listPanels(*http.Request, map[string]any) (any, *Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []any{}
	for id, p := range s.panels {
		list = append(list, map[string]any{"id": id, "name": p.name, "type": p.kind})
	}
	return map[string]any{"groupId": Group, "panels": list}, nil
}

func (s *Server) panelMessages(_ *http.Request, body map[string]any) (any, *Failure) {
	id, _ := body["panelId"].(string)
	limit, ok := whole(body["limit"])
	if !ok || limit < 1 || limit > 100 {
		return nil, refuse(http.StatusBadRequest, "limit must be 1 to 100")
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	p := s.panels[id]
	if p == nil {
		return nil, refuse(http.StatusNotFound, "there is no panel %s", id)
	}

	list := slices.Clone(p.messages[max(0, len(p.messages)-limit):])
	slices.Reverse(list)
	return map[string]any{"groupId": p.group, "panelId": id, "messages": list}, nil
}

func (s *Server) sendPanel(_ *http.Request, body map[string]any) (any, *Failure) {
	id, _ := body["panelId"].(string)
	group, has := body["groupId"].(string)
	s.mu.Lock()
	p := s.panels[id]
	s.mu.Unlock()
	if p == nil || has && group != p.group {
		return nil, refuse(http.StatusNotFound, "there is no panel %s in %s", id, group)
	}
	return map[string]any{"panelId": id, "messageId": "sent"}, s.keep(Sent{Chat: id, Panel: true}, body)
}

func (s *Server) register(_ *http.Request, body map[string]any) (any, *Failure) {
	if name, _ := body["name"].(string); name == "" {
		return nil, refuse(http.StatusBadRequest, "name is missing")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]any{"workspaceId": "w1", "groupId": Group, "botUserId": s.self, "token": s.token}, nil
}

func (*Server) bind(_ *http.Request, body map[string]any) (any, *Failure) {
	if email, _ := body["email"].(string); email != Ann+"@mochat.example" {
		return nil, refuse(http.StatusNotFound, "there is no user %s", email)
	}
	return map[string]any{"ownerUserId": Ann, "sessionId": SessionOf(Ann), "converseId": "c_" + SessionOf(Ann)}, nil
}
