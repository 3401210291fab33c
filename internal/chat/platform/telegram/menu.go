package telegram

import (
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	menuMost  = 100 // commands Telegram takes
	nameMost  = 32  // characters of a command's name
	aboutMost = 256 // characters of its description
)

type menuLine struct {
	Command     string `json:"command"`
	Description string `json:"description"`
}

// setMenu puts up the commands. Names that Telegram does not allow are left
// out; they still work when typed.
func (b *bot) setMenu(ctx context.Context) error {
	lines := []menuLine{{"start", "what I can do"}}
	for _, c := range b.deps.Commands {
		name, about := menuName(c.Name), strings.TrimSpace(c.About)
		if name == "" || about == "" || len(lines) == menuMost {
			continue
		}
		lines = append(lines, menuLine{name, text.Ellipsis(about, aboutMost)})
	}
	return b.calls.call(ctx, "setMyCommands", map[string]any{"commands": lines}, nil)
}

// menuName returns a command's name as Telegram allows it, "" if it cannot be.
func menuName(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return ""
		}
	}

	if len(name) > nameMost {
		return ""
	}
	return name
}

// command takes a slash command apart. Ours is false if another bot is meant;
// sure is true if it is certainly for us: it names us, or is in our menu.
func (rc *receiver) command(s string) (line string, ours, sure bool) {
	if !strings.HasPrefix(s, "/") {
		return s, true, false
	}

	word, rest := s[1:], ""
	if i := strings.IndexAny(word, " \n\t"); i >= 0 {
		word, rest = word[:i], word[i:]
	}

	name, to, named := strings.Cut(word, "@")
	if named {
		if !strings.EqualFold(to, rc.bot.me.Load().Username) {
			return s, false, false
		}
		sure = true
	}

	if strings.EqualFold(name, "start") { // what Telegram's start button says; what follows is for deep links
		return "/help", true, true
	}

	for _, c := range rc.bot.deps.Commands {
		if strings.EqualFold(c.Name, name) || menuName(c.Name) == strings.ToLower(name) {
			return "/" + c.Name + rest, true, true
		}
	}
	return "/" + name + rest, true, sure
}
