package discord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

const (
	commandsMost = 100 // that Discord takes
	nameMost     = 32  // characters of a command's name
	aboutMost    = 100 // characters of its description
)

// slash is a command as Discord shows it. All that may follow it is one option
// of text, as the agent reads it.
type slash struct {
	Name     string        `json:"name"`
	Type     int           `json:"type"`
	About    string        `json:"description"`
	Options  []slashOption `json:"options,omitempty"`
	Contexts []int         `json:"contexts"`          // in servers and in direct chats with the bot
	Installs []int         `json:"integration_types"` // not as an app of one person
}

type slashOption struct {
	Type     int    `json:"type"`
	Name     string `json:"name"`
	About    string `json:"description"`
	Required bool   `json:"required,omitempty"`
}

const (
	chatInput  = 1
	textOption = 3
)

// commandList returns the menu. Names that Discord does not allow are left out; they
// still work when typed.
func (b *bot) commandList() []slash {
	list := []slash{}
	for _, c := range b.deps.Commands {
		name, about := menuName(c.Name), strings.TrimSpace(c.About)
		if name == "" || about == "" || len(list) == commandsMost {
			continue
		}

		s := slash{
			Name:     name,
			Type:     chatInput,
			About:    text.Ellipsis(about, aboutMost),
			Contexts: []int{0, 1},
			Installs: []int{0},
		}
		if c.Args != "" {
			s.Options = []slashOption{{
				Type: textOption, Name: optionName(c.Args), About: text.Ellipsis(c.Args, aboutMost), Required: strings.HasPrefix(c.Args, "<"),
			}}
		}

		list = append(list, s)
	}

	return list
}

// optionName returns the first word of a hint such as "[preset|model]". A hint of
// several words, such as "[keep|drop ID]", does not begin with a name.
func optionName(args string) string {
	if strings.Contains(args, " ") {
		return "arguments"
	}

	word := strings.ToLower(strings.TrimLeft(args, "[<("))
	if i := strings.IndexFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }); i >= 0 {
		word = word[:i]
	}

	if word == "" {
		return "arguments"
	}
	return word[:min(len(word), nameMost)]
}

// menuName returns a command's name as Discord allows it, "" if it cannot be.
func menuName(name string) string {
	name = strings.ToLower(name)
	for _, r := range name {
		if r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return ""
		}
	}

	if len(name) > nameMost {
		return ""
	}
	return name
}

// commandName returns a command of ours by the name that Discord sends.
func (b *bot) commandName(name string) string {
	for _, c := range b.deps.Commands {
		if menuName(c.Name) == name {
			return c.Name
		}
	}
	return text.Label(name, nameMost)
}

// register puts up the commands, if they are not those of the last time. They
// are the same for all servers; Discord shows new ones after a minute.
func (rc *receiver) register(ctx context.Context, app string) {
	b := rc.bot
	list := b.commandList()
	data, err := json.Marshal(list)
	if err != nil || number(app) == 0 {
		return
	}

	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:8])
	var facts struct {
		Bot      string `json:"bot"`
		Commands string `json:"commands"` // what was registered, as a hash
	}
	if err := b.deps.State.Load(&facts); err != nil {
		b.deps.Log.WarnContext(ctx, "cannot read the state of the channel", "err", err)
	}

	if facts.Bot == app && facts.Commands == hash {
		return
	}

	err = b.calls.do(ctx, call{method: http.MethodPut, path: "/applications/" + app + "/commands", body: list, patience: time.Minute}, nil)
	if err != nil {
		if ctx.Err() == nil {
			b.deps.Log.WarnContext(ctx, "the slash commands cannot be registered; they work when typed", "err", err)
		}
		return
	}

	facts.Bot, facts.Commands = app, hash
	if err := b.deps.State.Save(facts); err != nil {
		b.deps.Log.WarnContext(ctx, "cannot save the state of the channel", "err", err)
	}
}
