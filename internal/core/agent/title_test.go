package agent_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm/llmtest"
)

// A conversation is named by the first words of its user, once; a title that the
// user gave outlives /new.
func TestTitles(t *testing.T) {
	t.Parallel()
	m := llmtest.NewScript(t)
	h := newHouse(t, m).start()
	title := func(key string) string {
		t.Helper()
		list, err := h.store.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.Key == key {
				return s.Title
			}
		}
		return "(no conversation)"
	}
	for i, c := range []struct{ chat, said, want string }{
		{"1", "\n## Plan a trip to Lisbon. I have a week and like trains.", "Plan a trip to Lisbon"},
		{"1", "Something else entirely?", "Plan a trip to Lisbon"},
		{"1", "/new", ""},
		{"1", "Hi. Compare two\u202e laptops\x07 for me", "Hi. Compare two laptops for me"},
		{"2", strings.Repeat("word ", 40), text.Ellipsis(strings.Repeat("word ", 40), 60)},
		{"3", "里斯本有什么好吃的？我下周去。", "里斯本有什么好吃的？"},
		{"4", "/history", "(no conversation)"},
	} {
		if !strings.HasPrefix(c.said, "/") {
			m.Add(llmtest.Reply("ok"))
		}
		h.ask(in(c.chat, c.said))
		if got := title("test:" + c.chat); got != c.want || len([]rune(got)) > 60 {
			t.Errorf("%d: title %q, want %q", i, got, c.want)
		}
	}

	if err := h.store.Annotate(t.Context(), "test:2", func(s *session.Session) error {
		if err := s.SetMeta("title_user_edited", true); err != nil {
			return err
		}
		return s.SetMeta(session.TitleKey, "Mine")
	}); err != nil {
		t.Fatal(err)
	}
	h.ask(in("2", "/new"))
	m.Add(llmtest.Reply("ok"))
	h.ask(in("2", "a new subject"))
	if got := title("test:2"); got != "Mine" {
		t.Errorf("the user's own title became %q", got)
	}
	job := in("5", "check the stove")
	job.Event, job.SessionKey = "cron", "cron:1"
	m.Add(llmtest.Reply("ok"))
	h.ask(job)
	if got := title("cron:1"); got != "" {
		t.Errorf("a job has the title %q", got)
	}
}
