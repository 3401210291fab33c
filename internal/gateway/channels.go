package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/channel/email"
	"github.com/nanobot-go/nanobot/internal/channel/telegram"
	"github.com/nanobot-go/nanobot/internal/channel/websocket"
	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// Channels are the chat platforms this program knows.
func Channels() map[string]channel.Factory {
	return map[string]channel.Factory{
		"email":     email.New,
		"telegram":  telegram.New,
		"websocket": websocket.New(websocket.Options{}),
	}
}

// sections are those of channels that are to run.
func (g *Gateway) sections(l *config.Loaded) map[string]json.RawMessage {
	if g.o.NoChannels {
		return nil
	}
	return sections(l)
}

// sections are the settings of every platform, for its own decoder.
func sections(l *config.Loaded) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(l.Config.Channels.Each))
	for name, c := range l.Config.Channels.Each {
		out[name] = c.Raw.JSON()
	}
	return out
}

func (g *Gateway) channelOptions(a *app.App) channel.Options {
	cfg := a.Config.Config.Channels
	return channel.Options{
		Queue: g.messenger.door(), Factories: g.web.factories(), Sections: g.sections(a.Config),
		Defaults:   channel.Filters{SendProgress: cfg.SendProgress, SendToolHints: cfg.SendToolHints, ShowReasoning: cfg.ShowReasoning},
		MaxRetries: cfg.SendMaxRetries, Store: app.State(a.Config, g.log), DataDir: a.Config.DataDir, Kept: []string{guard.SentFiles, "api"},
		Client: channelClient, Fetch: channelFetch,
		Transcribe: g.web.transcript, Commands: menu(app.Commands(g.o.Options)), Redact: a.Secrets().Redact, Log: g.log, Now: g.o.Now,
	}
}

// channelClient reaches the configured addresses of a platform.
func channelClient(proxy string) (*http.Client, error) {
	return httpsafe.Client(httpsafe.Options{Proxy: proxy})
}

// channelFetch reaches addresses that strangers wrote.
func channelFetch() (*http.Client, error) { return httpsafe.Guarded(httpsafe.GuardOptions{}) }

// LoginChannel connects a channel to an account by hand.
func LoginChannel(ctx context.Context, l *config.Loaded, name string, t channel.Terminal, force bool) error {
	return channel.Login(ctx, channel.Options{
		Queue: nowhere{}, Factories: Channels(), Sections: sections(l), Store: app.State(l, nil), DataDir: l.DataDir,
		Client: channelClient, Fetch: channelFetch,
	}, name, t, force)
}

// menu is the command table as chat platforms show it.
func menu(table []agent.Command) []channel.Command {
	var out []channel.Command
	for _, c := range table {
		out = append(out, channel.Command{Name: c.Name, About: c.Help})
	}
	return out
}

// nowhere is a queue for channels that are made and never run.
type nowhere struct{ bus.Queue }

// CheckChannels makes the channels that are switched on, without connecting
// them: those with an Error would not start.
func CheckChannels(l *config.Loaded) ([]channel.Status, error) {
	m, err := channel.NewManager(channel.Options{Queue: nowhere{}, Factories: Channels(), Sections: sections(l), Store: app.State(l, nil), DataDir: l.DataDir})
	if err != nil {
		return nil, err
	}
	return m.Status(), nil
}

// CheckSections adds what is wrong in the sections of channels, which their own
// decoders know, to the warnings. With strict it is an error.
func CheckSections(l *config.Loaded, strict bool) error {
	states, err := CheckChannels(l)
	if err != nil {
		return err
	}
	var wrong []config.Problem
	for _, s := range states {
		if s.Enabled && s.Error != "" {
			wrong = append(wrong, config.Problem{Path: "channels." + s.Name, Message: s.Error, Hint: "this channel stays off; see docs/channels.md"})
		}
	}
	if strict && len(wrong) > 0 {
		return &config.Error{Kind: config.InvalidSchema, File: l.File, Issues: wrong}
	}
	l.Warnings = append(l.Warnings, wrong...)
	return nil
}

// KnownChannel refuses a name that is no channel of ours. A second account has
// a name such as telegram.work.
func KnownChannel(name string) error {
	kind, _, _ := strings.Cut(name, ".")
	all := Channels()
	if all[kind] == nil {
		return fmt.Errorf("unknown channel %q; known channels: %s", kind, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return nil
}
