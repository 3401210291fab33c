package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/deliver"
	"github.com/nanobot-go/nanobot/internal/chat/platform/terminal"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/settings"
	"github.com/nanobot-go/nanobot/internal/web"
	"github.com/nanobot-go/nanobot/internal/web/socket"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// webClients is what the WebSocket channel is lent for its clients. It goes on
// when the agent is replaced.
type webClients struct {
	app       app.Options
	state     *state
	directory *deliver.Directory
	log       *slog.Logger
	topics    *publisher
	unread    *subject.Unread
	asking    *asking
	scoping   sync.Mutex // held by setScope
}

// hidden reports whether only pages use the socket.
func (w *webClients) hidden() bool { return !enabledSocket(w.state.config()) }

// drivers are the chat platforms of this program and of the one around it.
func (w *webClients) drivers(desk *web.Desk, pages *webPages) map[string]chat.Driver {
	out := Channels()
	out["websocket"] = socket.Driver(socket.Options{
		Fork: w.fork, Recall: w.recall, Transcribe: w.transcribe, Model: w.usualModel,
		ChatState: w.chatState, Scope: w.setScope, SetModel: w.setModel, API: desk, Hidden: w.hidden,
		Exposed: func() bool { return !httpsafe.LoopbackHost(w.state.config().Config.Gateway.Host) },
		Pages:   func(r *http.Request, exposed bool) (http.Handler, bool) { return pages.matchOwn(r, exposed) },
	})
	maps.Copy(out, w.app.Channels)
	return out
}

// platforms is the status of what the file enables; the socket of the pages and the
// terminals of this machine are not platforms.
func (w *webClients) platforms(all *deliver.Manager) []deliver.Status {
	own := w.app.Channels[terminal.Name].New == nil
	return slices.DeleteFunc(all.Status(), func(c deliver.Status) bool {
		return c.Name == socketName && w.hidden() || c.Name == terminal.Name && own
	})
}

// chatState returns what a conversation's metadata tells its clients.
func (w *webClients) chatState(ctx context.Context, route bus.Route) (s socket.ChatState) {
	a, err := w.state.current(ctx)
	if err != nil {
		return s
	}

	key := a.Agent.KeyOf(bus.Inbound{Route: route})
	if key != route.SessionKey() {
		s.Kept = key
	}

	meta, err := a.Sessions.Metadata(ctx, key)
	if err != nil {
		if !errors.Is(err, session.ErrNotFound) {
			w.log.WarnContext(ctx, "cannot read the state of a conversation", "session", key, "err", err)
		}
		return s
	}

	s.Goal, s.Preset, s.Scope = owntool.GoalOf(meta), owntool.PresetOf(meta), turn.ScopeOf(meta)
	_ = json.Unmarshal(meta[session.TitleKey], &s.Title) // one that is not a text is none
	s.Title = a.Secrets().Redact(s.Title)
	return s
}

// recall finds the answer to a message that a client says again.
func (w *webClients) recall(ctx context.Context, in bus.Inbound) (bus.Outbound, bool) {
	a, err := w.state.current(ctx)
	if err != nil {
		return bus.Outbound{}, false
	}
	return a.Agent.Recall(ctx, in), true
}

// usualModel is the name of the model that answers unless a conversation has
// chosen another.
func (w *webClients) usualModel() string {
	use := w.state.snapshot()
	if use.agent != nil && w.app.UseModel == nil {
		return use.agent.app.ModelInfo().Name // also one that was found by itself
	}
	d := use.config.Config.Agents.Defaults
	return cmp.Or(use.config.Config.ModelPresets[d.ModelPreset].Model, d.Model)
}

// publishModel notifies the clients of the socket if another model answers now.
func (w *webClients) publishModel(was string) {
	is := w.usualModel()
	if c := socketOf(w.directory); c != nil && is != was {
		c.UsualModel(is, w.state.config().Config.Agents.Defaults.ModelPreset)
	}
}

// subjects returns what web clients read and change of the agent.
func (w *webClients) subjects() []web.Subject {
	var commands subject.Commands
	for _, c := range app.Commands(w.app) {
		commands = append(commands, subject.Command{Name: c.Name, Args: c.Args, About: c.Help})
	}
	return []web.Subject{
		subject.Conversations{Now: w.program, Unread: w.unread, Log: w.log},
		subject.Thread{Now: w.program, Seq: w.seq, Attachment: w.attachment, Log: w.log},
		subject.Replay{Now: w.program},
		subject.Files{Now: w.program},
		subject.Sidebar{Store: store.Under(app.State(w.state.config(), w.log), string(datadir.WebUI))},
		subject.Questions{Now: w.program, Explain: w.asking.explain, Answers: w.asking.answers},
		subject.Changes{Now: w.program, Log: w.log},
		subject.Memory{Now: w.program},
		subject.Search{Now: w.program},
		subject.Schedule{Now: w.program, Clock: w.app.Now},
		subject.Skills{Now: w.program, Clock: w.app.Now},
		commands,
		subject.Workspaces{Now: w.program},
		subject.Costs{Now: w.program, Clock: w.app.Now},
	}
}

// program returns what the subjects of the pages are about, as it is now.
func (w *webClients) program(ctx context.Context) (*subject.Program, error) {
	a, err := w.state.current(ctx)
	if err != nil {
		return nil, err
	}

	p := &subject.Program{
		Workspace: a.Workspace,
		DataDir:   a.Config.DataDir,
		Sessions:  a.Sessions,
		Archive:   a,
		Agent:     pageAgent{a.Agent},
		Model:     a.ModelInfo().Name,
		Provider:  a.ModelInfo().Provider,
		Prices:    a.Models(),
		Schedule:  a.Schedule,
		Skills:    a.Skills,
		Place:     skill.Place{Workspace: a.Workspace, Ledger: app.State(a.Config, w.log), Files: a.Files()},
		Disabled:  a.Config.Config.Agents.Defaults.DisabledSkills,
		Location:  a.Config.Config.Agents.Defaults.Location(),
		Jail:      a.Jail(),
		Changes:   app.Changes(a),
		Memory: func(context.Context) (*memory.Memory, func() error, error) {
			return app.OpenMemory(a.Config, a.Workspace, a.Sessions, a.Files(), w.log)
		},
		Index:   a.Index,
		Ledger:  a.Ledger(),
		Secrets: a.Secrets(),
	}
	if a.Dream != nil { // else it would be an interface that holds a nil pointer
		p.Dream = a.Dream
	}
	return p, nil
}

// pageAgent is the agent in the types of the subjects.
type pageAgent struct{ *agent.Agent }

// Context returns what the model would be shown of a conversation.
func (a pageAgent) Context(ctx context.Context, key string) (any, error) {
	return a.Agent.Context(ctx, key)
}

// Prompt returns what the next message of a conversation is sent with.
func (a pageAgent) Prompt(ctx context.Context, key string) (subject.Prompt, error) {
	c, err := a.Agent.Context(ctx, key)
	return subject.Prompt{Model: c.Model, Window: c.Window, Tokens: c.Used, Cached: c.Last}, err
}

// OpenQuestions are the questions that turns of all conversations wait on.
func (a pageAgent) OpenQuestions() any { return a.Agent.OpenQuestions() }

// seq is the number of the last event of a conversation on the socket.
func (w *webClients) seq(key string) (int64, bool) {
	c := socketOf(w.directory)
	if c == nil {
		return 0, false
	}
	if chatID, ours := strings.CutPrefix(key, "websocket:"); ours {
		return c.Seq(chatID)
	}
	return c.Seq("@" + key) // if it is watched
}

// attachment describes a file that came with a message.
func (w *webClients) attachment(path string) subject.Attachment {
	a := subject.Attachment{Name: filepath.Base(path)}
	if c := socketOf(w.directory); c != nil {
		a.URL, a.Type, a.Size = c.File(path)
	}
	return a
}

// settings returns what web clients need of the gateway to read and change settings.
func (g *Gateway) settings() settings.Options {
	return settings.Options{
		App: g.o.Options, File: g.o.file(), Workspace: g.workspace, Secrets: g.secrets, Log: g.log,
		Current: g.state.current, Config: g.state.config, Try: g.try, Reload: g.Reload, Notify: g.mail.notifyOwner,
		Status: func() (problems, later []string) {
			s := g.Status()
			return s.Problems, s.Later
		},
		Life: g.life, Go: g.background.Go,
		Channels: g.channels, Drivers: g.web.drivers(g.desk, g.pages), TryChannels: g.tryChannels, LoginChannel: g.accounts.Login,
		API: func(cfg config.Config) (net.Addr, bool) { return g.Addr(), g.front.serves(cfg) },
	}
}

// life is how long background work may go on; nil while the gateway does not
// run.
func (g *Gateway) life() context.Context {
	select {
	case <-g.ending:
		return nil
	default:
		return g.carrying
	}
}

// try says why an agent could not be built with a configuration.
func (g *Gateway) try(ctx context.Context, next *config.Loaded) error {
	c := changeOf(next.Changed(g.state.config()))
	if !c.agent && !c.schedule {
		return nil
	}
	o := g.o.Options
	o.Loaded = next
	_, err := app.Inspect(ctx, o)
	return err
}

// tryChannels makes channels that are never run.
func (g *Gateway) tryChannels(l *config.Loaded, sections map[string]json.RawMessage) (*deliver.Manager, error) {
	return deliver.NewManager(deliver.Options{
		Queue: nowhere{}, Drivers: g.web.drivers(g.desk, g.pages), Sections: sections, Store: app.State(l, g.log), DataDir: l.DataDir,
		Fetch: channelFetch(l), Redact: g.secrets.Redact,
	})
}
