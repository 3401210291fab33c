package chat

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Divide divides a message into the parts that are sent: texts within the limit,
// then files. The same message has the same parts each time, so that the number
// of parts sent is enough to continue after a restart. It is for a Planner that
// chooses only the limits, too.
func Divide(caps Caps, out bus.Outbound) []bus.Outbound {
	if caps.Whole {
		return []bus.Outbound{out}
	}

	out.Question = worded(out.Language, out.Question)
	files, text := sendable(out.Language, caps, out.Media, planText(caps, out))
	var parts []bus.Outbound
	for _, t := range markdown.Split(text, caps.MaxChars, caps.Unit) {
		p := out
		p.Text, p.Media, p.Question = t, nil, nil
		parts = append(parts, p)
	}

	if n := len(parts); n > 0 {
		parts[n-1].Question = out.Question
	}

	if n := min(caps.Together, len(files)); n > 0 && len(parts) > 0 {
		parts[len(parts)-1].Media = files[:n]
		files = files[n:]
	}

	for group := range slices.Chunk(files, max(caps.Together, 1)) {
		p := out
		p.Text, p.Media = "", group
		if len(parts) > 0 {
			p.Question = nil
		}
		parts = append(parts, p)
	}

	return Keyed(out, parts)
}

// worded returns a question whose options are in a language. The names of answers
// are understood in every one, see bus.Understand.
func worded(language string, q *bus.Question) *bus.Question {
	if q == nil || language != phrase.Chinese {
		return q
	}
	out := *q
	out.Options = make([]string, len(q.Options))
	for i, o := range q.Options {
		out.Options[i] = phrase.In(language, o)
	}
	return &out
}

// Keyed makes parts that can be told apart, of which the first one answers.
func Keyed(out bus.Outbound, parts []bus.Outbound) []bus.Outbound {
	for i := range parts {
		if i > 0 {
			parts[i].ReplyTo = ""
		}
		if out.ID != "" {
			parts[i].Key = out.ID + "/" + strconv.Itoa(i)
		}
	}
	return parts
}

// planText returns the text of a message with its question, and with the answers
// where the platform has no buttons for them.
func planText(caps Caps, out bus.Outbound) string {
	text, q := out.Text, out.Question
	if q == nil || out.Kind != bus.Ask && q.Text != "" {
		return text
	}

	if text == "" {
		text = q.Text
	}

	switch {
	case len(q.Options) == 0 || caps.Buttons:
	case out.Kind == bus.Ask && q.Code != "":
		text += "\n\n" + answerLine(out.Language, q)
	default:
		text += "\n\n" + phrase.In(out.Language, "Answer with one of: %s", strings.Join(q.Options, ", "))
	}

	return text
}

// sendable leaves out the files that cannot be sent and says so in the text.
func sendable(language string, caps Caps, list []bus.Media, text string) ([]bus.Media, string) {
	var out []bus.Media
	for _, m := range list {
		if m.Size == 0 {
			if info, err := os.Stat(m.Path); err == nil {
				m.Size = info.Size()
			}
		}
		switch {
		case caps.MaxMedia == 0:
			text += "\n" + NotSent(m, phrase.In(language, "files cannot be sent here"))
		case m.Size > caps.MaxMedia:
			text += "\n" + NotSent(m, phrase.In(language, "too large"))
		default:
			out = append(out, m)
		}
	}

	return out, text
}

// NotSent returns the line that replaces a file that is not sent.
func NotSent(m bus.Media, why string) string {
	name := m.Name
	if name == "" {
		name = filepath.Base(m.Path)
	}
	return fmt.Sprintf("[attachment: %s - %s]", name, why)
}
