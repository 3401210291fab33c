package nanobot

import (
	"log/slog"
	"maps"
	"runtime/debug"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// Option configures a Bot or a Gateway.
type Option func(*gateway.Options)

// WithConfigFile reads another file than ~/.nanobot/config.json. It must exist.
func WithConfigFile(path string) Option {
	return func(o *gateway.Options) { o.Config.Path = path }
}

// WithSetting overrides one setting, stronger than file and environment, e.g.
// WithSetting("agents.defaults.temperature", "0.5").
func WithSetting(path, value string) Option {
	return func(o *gateway.Options) {
		o.Config.Overrides = append(o.Config.Overrides, config.Override{Path: path, Value: value})
	}
}

// WithWorkspace sets the folder the agent works in.
func WithWorkspace(dir string) Option { return func(o *gateway.Options) { o.Workspace = dir } }

// WithFolder lets conversations work in a folder outside of the workspace:
// those whose messages name it in Inbound.Folder. Memory and skills stay in the
// workspace.
func WithFolder(dir string) Option { return func(o *gateway.Options) { o.Folder = dir } }

// WithModelName chooses a model by name, with an optional provider/ prefix.
func WithModelName(name string) Option { return func(o *gateway.Options) { o.Model = name } }

// WithModel uses a model implementation of your own.
func WithModel(m Model) Option { return func(o *gateway.Options) { o.UseModel = m } }

// WithTools adds tools.
func WithTools(tools ...Tool) Option {
	return func(o *gateway.Options) { o.Tools = append(o.Tools, tools...) }
}

// WithoutBuiltinTools leaves out file access and commands.
func WithoutBuiltinTools() Option { return func(o *gateway.Options) { o.NoBuiltins = true } }

// WithHooks observes every turn. Hooks are called in order and isolated from each other.
func WithHooks(h ...Hooks) Option {
	return func(o *gateway.Options) { o.Observers.Hooks = append(o.Observers.Hooks, h...) }
}

// WithSubscriber calls f for what happens to turns, beside what is said in them:
// a message is accepted, a turn starts, is kept, is completed, a goal or a
// model changes. Subscribers are called in order and isolated from each other,
// before anything that is said afterwards. They must not block.
func WithSubscriber(f func(RuntimeEvent)) Option {
	return func(o *gateway.Options) { o.Observers.Events = append(o.Observers.Events, f) }
}

// WithEnv replaces the process environment, in the form of os.Environ.
func WithEnv(env []string) Option { return func(o *gateway.Options) { o.Env = env } }

// WithLogger sends logs somewhere; by default they are dropped.
func WithLogger(log *slog.Logger) Option { return func(o *gateway.Options) { o.Log = log } }

// WithRecording writes the model's traffic and the results of tools to a file,
// credentials removed, for nanobot replay.
func WithRecording(file string) Option { return func(o *gateway.Options) { o.Record = file } }

// WithClock replaces time.Now, for simulations.
func WithClock(now func() time.Time) Option {
	return func(o *gateway.Options) { o.Now = now }
}

// WithDeliver gets what is said in turns that no message asked for, such as the
// result of a subagent, and the steps of subagents. It must not block. A Gateway has chats for that and does
// not call it.
func WithDeliver(f func(Event)) Option { return func(o *gateway.Options) { o.Deliver = f } }

// WithReminders makes KeepTime of a Bot run the jobs of these chats; their
// replies go to WithDeliver. A Gateway runs all jobs anyway.
func WithReminders(chats func(Route) bool) Option {
	return func(o *gateway.Options) { o.Reminders = chats }
}

// WithRestart is called after a user asked for /restart. A Gateway does not call
// it: there Serve returns ErrRestart.
func WithRestart(f func(Route)) Option {
	return func(o *gateway.Options) { o.Restart = func(r bus.Route) { f(r) } }
}

// WithListen makes a Gateway listen on another address than the configured one,
// such as 127.0.0.1:0.
func WithListen(addr string) Option {
	return func(o *gateway.Options) { o.Listen = addr }
}

// WithoutListener opens no port: your program serves Gateway.Handler.
func WithoutListener() Option { return WithListen("-") }

// WithoutChannels leaves all chat platforms of a Gateway off.
func WithoutChannels() Option {
	return func(o *gateway.Options) { o.NoChannels = true }
}

// WithChannel teaches a Gateway another chat platform. It is switched on like
// all others, by a section channels.NAME in the configuration or by
// WithSetting("channels.NAME.enabled", "true").
func WithChannel(name string, d ChannelDriver) Option {
	return func(o *gateway.Options) {
		o.Channels = maps.Clone(o.Channels)
		if o.Channels == nil {
			o.Channels = map[string]ChannelDriver{}
		}
		o.Channels[name] = d
	}
}

// Version returns the version of this build.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
