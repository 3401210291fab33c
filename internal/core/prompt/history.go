package prompt

import (
	"context"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// History returns the conversation that came with a message, as the model gets it.
// What was said after the last answer is put in front of the message itself, so
// that the message follows an answer. Foreign means that words of others are
// in it.
func (p *Builder) History(ctx context.Context, key string, in *bus.Inbound) (recs []session.Record, foreign bool) {
	var open []string
	var results []bus.Quote // of tools of the client, since the last answer
	var media []bus.Media
	for i, s := range in.History {
		foreign = foreign || !s.Clean || len(s.Media) > 0
		switch s.Role {
		case bus.RoleTool:
			results = append(results, bus.Quote{About: "result of a tool of the client", Text: s.Text})
		case bus.RoleUser:
			open, media = append(open, EscapeMarkers(strings.TrimSpace(s.Text))), append(media, s.Media...)
		case bus.RoleAssistant:
			for j, q := range results {
				open = append(open, quoted(q, fmt.Sprint(key, i, "/", j)))
			}

			if len(open) > 0 {
				recs = append(recs, record(llm.User, p.earlier(ctx, strings.Join(open, "\n\n"), media)))
			}

			recs = append(recs, record(llm.Assistant, llm.Text(s.Text)))
			open = nil
			results = nil
			media = nil
		}
	}

	in.Quoted = append(results, in.Quoted...)
	in.Text = strings.Join(append(open, in.Text), "\n\n")
	in.Media = append(media, in.Media...)
	return recs, foreign
}

func record(role llm.Role, c llm.Content) session.Record {
	return session.Record{
		Message: llm.Message{Role: role, Content: c},
		Runtime: &session.RuntimeContext{Version: 1, Sources: []string{"client"}}, // the turn knows whose words they are
	}
}

// earlier returns what a person said before, with the pictures.
func (p *Builder) earlier(ctx context.Context, body string, media []bus.Media) llm.Content {
	images, notes := p.attachments(ctx, media)
	body = strings.Join(append([]string{body}, notes...), "\n")
	if len(images) == 0 {
		return llm.Text(body)
	}
	return llm.Content{Blocks: append(images, llm.Block{Type: "text", Text: body})}
}

// Instructions returns those that came with a message, for its turn only.
func Instructions(key string, history []bus.Said) string {
	var said []string
	for _, s := range history {
		if text := strings.TrimSpace(s.Text); s.Role == bus.RoleSystem && text != "" {
			if !s.Clean {
				text = runner.Fence(llm.Text(text), key, "client").Text
			}
			said = append(said, text)
		}
	}

	if said == nil {
		return ""
	}
	return "# Instructions for This Turn\n\n" + strings.Join(said, "\n\n")
}
