package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord"
	"github.com/nanobot-go/nanobot/internal/chat/platform/email"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/napcat"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram"
	"github.com/nanobot-go/nanobot/internal/chat/platform/terminal"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web/socket"
)

// Channels are the chat platforms this program knows.
func Channels() map[string]chat.Driver {
	return map[string]chat.Driver{
		"dingtalk":   dingtalk.Driver(),
		"discord":    discord.Driver(),
		"email":      email.Driver(),
		"feishu":     feishu.Driver(),
		"matrix":     matrix.Driver(),
		"mattermost": mattermost.Driver(),
		"mochat":     mochat.Driver(),
		"msteams":    teams.Driver(),
		"napcat":     napcat.Driver(),
		"qq":         qq.Driver(),
		"signal":     signal.Driver(),
		"slack":      slack.Driver(),
		"telegram":   telegram.Driver(),
		"websocket":  socket.Driver(socket.Options{}),
		"weixin":     weixin.Driver(),
		"wecom":      wecom.Driver(),
		"whatsapp":   whatsapp.Driver(),
	}
}

// Sections say what the sections of the chat platforms hold, of ours and of
// more.
func Sections(more map[string]chat.Driver) config.Sections {
	all := Channels()
	maps.Copy(all, more)
	out := config.Sections{"": chat.Driver{}.Section}
	for name, d := range all {
		if d.Options != nil {
			out[name] = d.Section
		}
	}
	return out
}

// sections are those of channels that are to run: with the socket of the pages if
// they are served, and after many crashes with nothing else.
func (g *Gateway) sections(l *config.Loaded) map[string]json.RawMessage {
	all := sections(l)
	if servesPages(l, g.Addr()) && !enabledSocket(l) {
		all[socketName] = json.RawMessage(`{"enabled":true}`)
	}
	if g.state.quiet.Load() {
		maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return name != socketName })
	}
	if g.o.Channels[terminal.Name].New == nil { // else the host program has a terminal of its own
		all[terminal.Name] = terminal.Section()
	}
	return all
}

// terminal is the driver of the terminals of this machine.
func (g *Gateway) terminal() chat.Driver {
	show := terminal.Desktop(app.Getenv(g.o.Env))
	return terminal.Driver(terminal.Options{
		Mailbox: g.mail.mailbox,
		Notify: func(ctx context.Context, n terminal.Notice) error {
			if !g.state.config().Config.Gateway.DesktopNotices {
				return nil
			}
			return show(ctx, n)
		},
	})
}

// Mailbox holds what the terminals of this user have not shown yet.
func Mailbox(l *config.Loaded, now func() time.Time, log *slog.Logger) *terminal.Mailbox {
	return terminal.OpenMailbox(store.Under(app.State(l, log), string(datadir.Bus)), now, log)
}

// enabledSocket reports whether programs may use the socket.
func enabledSocket(l *config.Loaded) bool { return l.Config.Channels.Each[socketName].Enabled }

const socketName = "websocket"

// sections are the settings of every platform, for its own decoder.
func sections(l *config.Loaded) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(l.Config.Channels.Each))
	for name, c := range l.Config.Channels.Each {
		out[name] = c.Raw.JSON()
	}
	return out
}

// drivers are the platforms of this gateway, with the terminals of this machine.
func (g *Gateway) drivers() map[string]chat.Driver {
	drivers := g.web.drivers(g.desk, g.pages)
	if drivers[terminal.Name].New == nil {
		drivers[terminal.Name] = g.terminal()
	}
	return drivers
}

func (g *Gateway) channelOptions(l *config.Loaded) deliver.Options {
	cfg := l.Config.Channels
	return deliver.Options{
		Queue: g.mail, Directory: g.directory, Drivers: g.drivers(), Sections: g.sections(l),
		Defaults:   chat.Filters{SendProgress: cfg.SendProgress, SendToolHints: cfg.SendToolHints, ShowReasoning: cfg.ShowReasoning},
		MaxRetries: cfg.SendMaxRetries, Store: app.State(l, g.log), DataDir: l.DataDir, Kept: []string{guard.SentFiles, "api"},
		Fetch:      channelFetch(l),
		Transcribe: g.web.transcript, Commands: menu(app.Commands(g.o.Options)), Redact: g.secrets.Redact, Log: g.log, Now: g.o.Now,
		Changed: g.topics.soon,
	}
}

// channelFetch makes clients that reach addresses which strangers wrote.
func channelFetch(l *config.Loaded) func() (*http.Client, error) {
	return func() (*http.Client, error) {
		return httpsafe.Guarded(httpsafe.GuardOptions{Strict: l.Config.Tools.SSRF.Strict})
	}
}

// unconnected are the options of channels that are made and never run.
func unconnected(l *config.Loaded) deliver.Options {
	return deliver.Options{
		Queue: nowhere{}, Drivers: Channels(), Sections: sections(l), Store: app.State(l, nil), DataDir: l.DataDir,
		Fetch: channelFetch(l),
	}
}

// menu is the command table as chat platforms show it.
func menu(table []agent.Command) []chat.Command {
	var out []chat.Command
	for _, c := range table {
		out = append(out, chat.Command{Name: c.Name, Args: c.Args, About: c.Help})
	}
	return out
}

// nowhere is a queue for channels that are made and never run.
type nowhere struct{ bus.Queue }

// CheckChannels makes the channels that are switched on, without connecting
// them: those with an Error would not start.
func CheckChannels(l *config.Loaded) ([]deliver.Status, error) {
	m, err := deliver.NewManager(unconnected(l))
	if err != nil {
		return nil, err
	}
	return m.Status(), nil
}

// CheckPeople finds entries of allowFrom and owners that mean less than it may
// seem, in the sections of channels that are switched on.
func CheckPeople(l *config.Loaded) ([]config.Problem, error) {
	m, err := deliver.NewManager(unconnected(l))
	if err != nil {
		return nil, err
	}

	var wrong []config.Problem
	for name, list := range m.Doubts() {
		for _, doubt := range list {
			wrong = append(wrong, config.Problem{Path: "channels." + name, Message: doubt, Hint: "see docs/how-to/channels"})
		}
	}
	return wrong, nil
}

// CheckDisabled finds keys that a platform does not know in sections that are
// switched off. Whatever else such a section lacks is not a mistake yet.
func CheckDisabled(l *config.Loaded) ([]config.Problem, error) {
	o := unconnected(l)
	o.Sections = map[string]json.RawMessage{}
	var wrong []config.Problem
	for name, c := range l.Config.Channels.Each {
		kind, _, _ := strings.Cut(name, ".")
		section := map[string]json.RawMessage{}
		switch {
		case c.Enabled:
		case o.Drivers[kind].New == nil:
			wrong = append(wrong, config.Problem{Path: "channels." + name, Message: chat.UnknownPlatform(kind, o.Drivers).Error()})
		case o.Drivers[kind].New != nil && json.Unmarshal(c.Raw.JSON(), &section) == nil:
			section["enabled"] = json.RawMessage("true")
			o.Sections[name], _ = json.Marshal(section) // it was JSON before
		}
	}

	for kind, driver := range o.Drivers {
		factory := driver.New
		driver.New = func(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
			ch, err := factory(d, section)
			if errors.Is(err, chat.ErrUnknownKey) {
				wrong = append(wrong, config.Problem{Path: "channels." + d.Name, Message: err.Error()})
			}
			return ch, err
		}

		o.Drivers[kind] = driver
	}

	_, err := deliver.NewManager(o)
	return wrong, err
}

// KnownChannel refuses a name that is not a channel of ours. A second account has
// a name such as telegram.work.
func KnownChannel(name string) error {
	kind, _, _ := strings.Cut(name, ".")
	all := Channels()
	if all[kind].New == nil {
		return chat.UnknownPlatform(kind, all)
	}
	return nil
}

// ChannelName is the name of a section with that of its platform as the
// configuration has it, if people call it otherwise.
func ChannelName(name string) string {
	kind, account, several := strings.Cut(name, ".")
	for platform, driver := range Channels() {
		if !slices.Contains(driver.Aliases, text.LowerASCII(kind)) {
			continue
		}
		if several {
			return platform + "." + account
		}
		return platform
	}

	return name
}
