package feishu

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// content is what a message says.
type content struct {
	text   string // the sender's own words
	quotes []bus.Quote
	files  []fileRef
}

// fileRef is a file that is in a message.
type fileRef struct{ kind, key, name string }

// addQuote appends words that the sender did not type.
func (c *content) addQuote(about, format string, args ...any) {
	c.quotes = append(c.quotes, bus.Quote{About: about, Text: fmt.Sprintf(format, args...)})
}

// object is a JSON object of any form.
type object map[string]any

func (o object) text(keys ...string) string {
	for _, k := range keys {
		if s, ok := o[k].(string); ok && s != "" {
			return text.Valid(s)
		}
	}
	return ""
}

// label returns a text for one line.
func (o object) label(keys ...string) string { return text.Label(o.text(keys...), nameShown) }

func (o object) object(key string) object {
	m, _ := o[key].(map[string]any)
	return m
}

func (o object) list(key string) []any {
	l, _ := o[key].([]any)
	return l
}

// read finds out what a message says.
func (b *bot) read(m *message) (c content) {
	var o object
	if json.Unmarshal([]byte(m.Content), &o) != nil && m.Type != "merge_forward" {
		c.addQuote("sent along", "[%s that cannot be read]", text.Label(m.Type, nameShown))
		return c
	}

	switch m.Type {
	case "text":
		c.text = b.withNames(o.text("text"), m.Mentions)
	case "post":
		c.post(o)
		c.text = b.withNames(c.text, m.Mentions)
	case "image", "file", "audio", "media":
		c.file(m.Type, o)
	case "interactive":
		lines, key := cardText(o)
		c.addQuote("a card", "%s", cut(strings.Join(lines, "\n"), noteMost))
		if len(lines) == 0 {
			c.quotes[0].Text = "[interactive card]"
		}
		if key != "" {
			c.files = append(c.files, fileRef{"image", key, ""})
		}

	case "merge_forward":
	default:
		c.addQuote("sent along", "%s", brief(m.Type, o))
	}

	return c
}

// brief returns a short text for kinds of messages that are no words.
func brief(kind string, o object) string {
	with := func(name string, parts ...string) string {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		return "[" + strings.TrimSuffix(name+": "+strings.Join(parts, ", "), ": ") + "]"
	}
	switch kind {
	case "share_chat":
		return with("shared chat", o.label("chat_id"))
	case "share_user":
		return with("shared user", o.label("user_id"))
	case "share_calendar_event", "calendar", "general_calendar":
		return with("shared calendar event", o.label("event_key", "summary"))
	case "system":
		return "[system message]"
	case "sticker":
		return "[sticker]"
	case "location":
		return with("location", o.label("name"), o.label("latitude"), o.label("longitude"))
	case "todo":
		var summary content
		summary.post(o.object("summary"))
		return with("task", text.Label(summary.text, nameShown))
	case "vote":
		parts := []string{o.label("topic")}
		for _, v := range o.list("options") {
			s, _ := v.(string)
			parts = append(parts, text.Label(s, nameShown))
		}
		return with("vote", parts...)

	case "hongbao":
		return "[red packet]"
	case "folder":
		return with("folder", o.label("file_name"))
	case "video_chat":
		return with("video meeting", o.label("topic"))
	}

	return "[" + text.Label(kind, nameShown) + "]"
}

// file notes a file of a message.
func (c *content) file(kind string, o object) {
	f := fileRef{kind: kind, key: o.text("file_key"), name: o.text("file_name")}
	if kind == "image" {
		f.key = o.text("image_key")
	}
	if f.key == "" {
		c.addQuote("files", "[%s: missing file_key]", kind)
		return
	}
	c.files = append(c.files, f)
}

// post reads rich text: as it is, or below the name of a language.
func (c *content) post(o object) {
	if inner := o.object("post"); inner != nil {
		o = inner
	}

	if o.list("content") == nil {
		names := slices.Sorted(maps.Keys(o))
		for _, first := range []string{"en_us", "zh_cn"} {
			if i := slices.Index(names, first); i > 0 {
				names[0], names[i] = names[i], names[0]
			}
		}

		for _, name := range names {
			if inner := o.object(name); inner.list("content") != nil {
				o = inner
				break
			}
		}
	}

	lines := []string{}
	if title := o.text("title"); title != "" {
		lines = append(lines, title)
	}

	for _, row := range o.list("content") {
		var line strings.Builder
		list, _ := row.([]any)
		for _, el := range list {
			m, _ := el.(map[string]any)
			line.WriteString(c.element(m))
		}
		lines = append(lines, line.String())
	}

	c.text = strings.TrimSpace(strings.Join(lines, "\n"))
}

// element returns one of a post.
func (c *content) element(e object) string {
	words := e.text("text")
	switch e.text("tag") {
	case "a":
		if href := e.text("href"); href != "" && href != words {
			return "[" + words + "](" + href + ")"
		}
	case "at":
		if key := e.text("user_id"); strings.HasPrefix(key, "@_") {
			return key // becomes a name
		}
		return "@" + text.Label(e.text("user_name"), nameShown)

	case "code_block":
		return "\n```" + text.Label(e.text("language"), nameShown) + "\n" + strings.TrimRight(words, "\n") + "\n```"
	case "img":
		if key := e.text("image_key"); key != "" {
			c.files = append(c.files, fileRef{kind: "image", key: key})
		}
	case "media":
		if key := e.text("file_key"); key != "" {
			c.files = append(c.files, fileRef{"media", key, e.text("file_name")})
		}
	case "emotion":
		return ":" + text.Label(e.text("emoji_type"), nameShown) + ":"
	case "hr":
		return "---"
	}

	return words
}

// withNames replaces the keys that stand for people by names. The
// bot's own at the beginning goes away, so that a command is one.
func (b *bot) withNames(s string, list []mention) string {
	me := b.me.Load()
	for _, m := range list {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(s), m.Key); ok && m.Key != "" && me != nil && m.ID.Open == me.OpenID && !wordRune(rest) {
			s = rest
			break
		}
	}

	var out strings.Builder
	for s != "" {
		i := strings.Index(s, "@_")
		if i < 0 {
			out.WriteString(s)
			break
		}

		out.WriteString(s[:i])
		s = s[i:]
		n := 2
		for n < len(s) && wordRune(s[n:]) {
			n++
		}

		word := s[:n]
		for _, m := range list {
			if m.Key == word {
				word = m.shown()
				break
			}
		}

		out.WriteString(word)
		s = s[n:]
	}

	return strings.TrimSpace(out.String())
}

// wordRune reports whether a text begins with a letter, a digit or _.
func wordRune(s string) bool {
	return s != "" && (s[0] == '_' || s[0] >= '0' && s[0] <= '9' || s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
}

// shown returns a person in a text.
func (m *mention) shown() string {
	name, id, user := text.Label(m.Name, nameShown), text.Label(m.ID.Open, nameShown), text.Label(m.ID.User, nameShown)
	switch {
	case id == "":
		return "@" + name
	case user != "":
		return "@" + name + " (" + id + ", user id: " + user + ")"
	}
	return "@" + name + " (" + id + ")"
}
