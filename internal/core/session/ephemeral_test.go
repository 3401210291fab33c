package session_test

import (
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// TestEphemeral: a conversation without a file behaves like one with a file
// through a whole turn, and does not pretend to what it has not.
func TestEphemeral(t *testing.T) {
	t.Parallel()
	said := func(role llm.Role, text string) session.Record {
		return session.Record{Message: llm.Message{Role: role, Content: llm.Text(text)}}
	}
	s, err := session.Ephemeral("api:x", time.Now, said(llm.User, "a"), said(llm.Assistant, "b"))
	if err != nil {
		t.Fatal(err)
	}
	steps := []func() error{
		func() error { return s.BeginTurn("t1", said(llm.User, "c")) },
		func() error { return s.Append(said(llm.Assistant, "d")) },
		func() error { return s.SetMeta("k", 1) },
		s.SaveMeta,
		func() error { return s.Sync(t.Context()) },
		func() error { return s.EndTurn() },
		func() error { return s.SetReplay(2) },
	}
	for i, f := range steps {
		if err := f(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if got := s.Messages(); len(got) != 2 || got[0].TurnID != "t1" || s.Len() != 4 || s.Key() != "api:x" {
		t.Errorf("got %d of %d messages: %+v", len(got), s.Len(), got)
	}
	if err := s.Clear(); err == nil {
		t.Error("Clear found a file")
	}
	if err := s.Compact(); err == nil {
		t.Error("Compact found a file")
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
	if err := s.Append(said(llm.User, "e")); err == nil {
		t.Error("Append after Release went through")
	}
}
