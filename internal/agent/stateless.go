package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/runner"
	"github.com/nanobot-go/nanobot/internal/session"
)

// stateless answers a message whose sender keeps the conversation. The turn
// is an ordinary one on a session without a file: no log is read or written,
// memory takes nothing in, slash commands are just text, and when it is over
// nothing of it is left here.
func (a *Agent) stateless(ctx context.Context, act *actor, it *item) error {
	t := &turn{Agent: a, act: act, it: it, id: newID(), key: it.key, begun: a.Now(), asking: make(chan struct{}, 1)}
	if it.in.Shell {
		t.reply("Commands cannot be run in a temporary chat: nothing of them could be kept.")
		return nil
	}
	sess, err := session.Ephemeral(it.key, a.Now, t.past(ctx)...)
	if err != nil {
		return fmt.Errorf("take over the history: %w", err)
	}
	t.sess = sess
	a.mu.Lock()
	act.turn = t
	a.mu.Unlock()
	defer t.vanish(ctx)
	return t.answer(ctx)
}

// past is the history as the model gets it. What was said after the last
// answer is put in front of the message itself, so that the message follows an
// answer.
func (t *turn) past(ctx context.Context) []session.Record {
	var recs []session.Record
	var open []string
	var results []bus.Quote // of tools of the client, since the last answer
	var media []bus.Media
	for i, s := range t.it.in.History {
		t.foreign = t.foreign || !s.Clean || len(s.Media) > 0
		switch s.Role {
		case bus.RoleTool:
			results = append(results, bus.Quote{About: "result of a tool of the client", Text: s.Text})
		case bus.RoleUser:
			open, media = append(open, escapeMarkers(strings.TrimSpace(s.Text))), append(media, s.Media...)
		case bus.RoleAssistant:
			for j, q := range results {
				open = append(open, quoted(q, fmt.Sprint(t.key, i, "/", j)))
			}
			if len(open) > 0 {
				recs = append(recs, record(llm.User, t.earlier(ctx, strings.Join(open, "\n\n"), media)))
			}
			recs = append(recs, record(llm.Assistant, llm.Text(s.Text)))
			open, results, media = nil, nil, nil
		}
	}
	t.it.in.Quoted = append(results, t.it.in.Quoted...)
	t.it.in.Text = strings.Join(append(open, t.it.in.Text), "\n\n")
	t.it.in.Media = append(media, t.it.in.Media...)
	return recs
}

func record(role llm.Role, c llm.Content) session.Record {
	return session.Record{
		Message: llm.Message{Role: role, Content: c},
		Runtime: &session.RuntimeContext{Version: 1, Sources: []string{"client"}}, // turn.foreign says whose words
	}
}

// earlier is what a person said before, with the pictures.
func (t *turn) earlier(ctx context.Context, body string, media []bus.Media) llm.Content {
	images, notes := t.attachments(ctx, media)
	body = strings.Join(append([]string{body}, notes...), "\n")
	if len(images) == 0 {
		return llm.Text(body)
	}
	return llm.Content{Blocks: append(images, llm.Block{Type: "text", Text: body})}
}

// instructions are those that came with the message, for this turn only.
func (t *turn) instructions() string {
	var said []string
	for _, s := range t.it.in.History {
		if text := strings.TrimSpace(s.Text); s.Role == bus.RoleSystem && text != "" {
			if !s.Clean {
				text = runner.Fence(llm.Text(text), t.key, "client").Text
			}
			said = append(said, text)
		}
	}
	if said == nil {
		return ""
	}
	return "# Instructions for This Turn\n\n" + strings.Join(said, "\n\n")
}

// remembers reports whether memory may take in what is said.
func (t *turn) remembers() bool { return t.Memory != nil && !t.it.in.Stateless }

// vanish forgets all that was kept for the turn of a conversation that is
// nobody's any more.
func (t *turn) vanish(ctx context.Context) {
	if err := t.sess.Release(); err != nil {
		t.Log.ErrorContext(ctx, "release session", "session", t.key, "err", err)
	}
	t.forget(t.key)
	t.sets.forget(t.key)
	if t.Ended != nil {
		t.Ended(t.key, false)
	}
}

// forget drops what a session was told to be missing.
func (s *toolSets) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.told {
		if strings.HasPrefix(k, key+"\x00") {
			delete(s.told, k)
		}
	}
}
