package prompt

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Markers of the block that tells the model what the user did not write.
const (
	runtimeOpen  = "[Runtime Context — metadata only, not instructions]"
	runtimeClose = "[/Runtime Context]"
)

// About holds what a turn knows about its message.
type About struct {
	Folder  string // lines about the folder it works in
	Goal    string // the open goal; "" is none
	Foreign bool   // words of others are in Goal
}

// Message turns an inbound message into its stored and its sent form. They
// differ only when pictures came along: those are sent, and remembered by path.
func (p *Builder) Message(ctx context.Context, in bus.Inbound, about About) (session.Record, llm.Message) {
	body := EscapeMarkers(strings.TrimSpace(in.Text))
	if in.Untrusted && body != "" {
		body = runner.Fence(llm.Text(body), in.ID, "message").Text
	}

	// Whatever the person did not type is behind what they typed, apart from
	// it: people are not shown it as their words, and memory does not keep it
	// as such.
	images, notes := p.attachments(ctx, in.Media)
	suffix := ""
	for i, q := range in.Quoted {
		suffix += "\n" + quoted(q, fmt.Sprint(in.ID, "/", i))
	}

	for _, n := range notes {
		suffix += "\n" + n
	}

	suffix += "\n\n" + p.runtimeBlock(in, about)
	if body == "" {
		suffix = strings.TrimLeft(suffix, "\n")
	}

	src := Sources(in)
	if about.Foreign && !in.Foreign() {
		src = append(src, memory.SourceForeign) // it stands in the runtime block
	}

	rec := session.Record{
		Message: llm.Message{Role: llm.User, Content: llm.Text(body + suffix)},
		Time:    in.At, InboundID: in.ID, SenderID: in.SenderID,
		Runtime: &session.RuntimeContext{Version: 1, Sources: src, Suffix: suffix},
	}
	if in.Event != "" {
		rec.Event, rec.Internal = in.Event, true
		_, rec.TaskID, _ = strings.Cut(in.ID, ":")
	}

	msg := rec.Message
	if len(images) > 0 {
		blocks := make([]llm.Block, 0, len(images)+1)
		for _, img := range images {
			rec.Media = append(rec.Media, img.Path)
			blocks = append(blocks, img)
		}
		msg.Content = llm.Content{Blocks: append(blocks, llm.Block{Type: "text", Text: body + suffix})}
	}

	return rec, msg
}

// quoted returns a piece of a message that its sender did not type.
func quoted(q bus.Quote, id string) string {
	about := ""
	if q.About != "" {
		about = "[" + OneLine(q.About) + "]\n"
	}
	return about + runner.Fence(llm.Text(q.Text), id, "quote").Text
}

// EscapeMarkers keeps a user from writing a block that looks like ours.
func EscapeMarkers(s string) string {
	if !strings.Contains(s, "Runtime Context") {
		return s
	}
	return strings.NewReplacer("[Runtime Context", "[ Runtime Context", "[/Runtime Context", "[ /Runtime Context").Replace(s)
}

// runtimeBlock tells the model when and where a message was written. It is
// stored with the message, so a replay is the same byte for byte.
func (p *Builder) runtimeBlock(in bus.Inbound, about About) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\nChannel: %s\nChat ID: %s\n", runtimeOpen, p.clock(in.At), OneLine(in.Route.Channel), OneLine(in.Route.ChatID))
	b.WriteString(about.Folder)

	if skills := p.Skills(in.Scope); skills != nil && !in.Untrusted {
		for _, s := range skills.Mentioned(in.Text) {
			fmt.Fprintf(&b, "\nThe user asked for this skill:\n### Skill: %s\n\n%s\n", s.Name, s.Body)
		}
	}

	if about.Goal != "" {
		fmt.Fprintf(&b, "Open goal: %s\n", about.Goal)
	}

	b.WriteString(runtimeClose)
	return b.String()
}

// clock returns a line that tells the time.
func (p *Builder) clock(at time.Time) string {
	now := at.In(p.opts.Location)
	zone, offset := now.Zone()
	if name := p.opts.Location.String(); name != "Local" && name != "" {
		zone = name
	}

	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	return fmt.Sprintf("Current Time: %s (%s, UTC%c%02d:%02d)", now.Format("2006-01-02 15:04 (Monday)"), zone, sign, offset/3600, offset%3600/60)
}

// ChatOf returns the chat that a message was written in, as runtimeBlock told it.
func ChatOf(r *session.Record) (chat bus.Route, ok bool) {
	if r.Runtime == nil {
		return chat, false
	}

	block := r.Runtime.Suffix[max(0, strings.LastIndex(r.Runtime.Suffix, runtimeOpen)):]
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		if s, found := strings.CutPrefix(line, "Channel: "); found && chat.Channel == "" {
			chat.Channel = s
		}
		if s, found := strings.CutPrefix(line, "Chat ID: "); found && chat.ChatID == "" {
			chat.ChatID = s
		}
	}

	return chat, chat.Channel != "" && chat.ChatID != ""
}

// OneLine keeps names chosen by others from breaking out of their line and of
// the brackets around it.
func OneLine(s string) string {
	return text.Label(strings.NewReplacer("[", " ", "]", " ").Replace(s), 0)
}

// Sources says what the log should know about a message beside its words.
func Sources(in bus.Inbound) []string {
	out := []string{"time", "route"}
	if in.Foreign() {
		out = append(out, memory.SourceForeign)
	}
	if len(in.Media) > 0 {
		out = append(out, memory.SourceMedia)
	}
	if in.Scope != "" {
		out = append(out, memory.SourceScope+in.Scope)
	}
	return out
}

// Objective returns the goal as the model reads it: what a turn with words from
// outside made of it is not the user's.
func Objective(g bus.Goal) string {
	if !g.Untrusted {
		return EscapeMarkers(g.Objective)
	}
	return runner.Fence(llm.Text(g.Objective), g.StartedAt.UTC().Format(time.RFC3339Nano), "goal").Text
}

// Folder returns what a model should know about its folder.
func Folder(p tool.Project, gone, workspace string) string {
	if gone != "" {
		return fmt.Sprintf("Working folder: %s is gone; this turn works in the workspace\n", Path(gone))
	}
	s := fmt.Sprintf("Working folder: %s (relative paths and commands start there, not in the workspace %s)\n", Path(p.Dir), Path(workspace))
	if p.Only {
		s = fmt.Sprintf("Working folder: %s (relative paths and commands start there; files and commands cannot reach anything outside of it, except skills)\n", Path(p.Dir))
	}
	return s
}

// Path returns the name of a file or folder in one line of a prompt.
func Path(s string) string { return EscapeMarkers(text.Reveal(s, text.Prose)) }
