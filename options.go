package nanobot

import (
	"log/slog"
	"runtime/debug"

	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/config"
)

// Option configures a Bot.
type Option func(*app.Options)

// WithConfigFile reads another file than ~/.nanobot/config.json. It must exist.
func WithConfigFile(path string) Option {
	return func(o *app.Options) { o.Config.Path = path }
}

// WithSetting overrides one setting, stronger than file and environment, e.g.
// WithSetting("agents.defaults.temperature", "0.5").
func WithSetting(path, value string) Option {
	return func(o *app.Options) {
		o.Config.Overrides = append(o.Config.Overrides, config.Override{Path: path, Value: value})
	}
}

// WithWorkspace sets the folder the agent works in.
func WithWorkspace(dir string) Option { return func(o *app.Options) { o.Workspace = dir } }

// WithModelName chooses a model by name, with an optional provider/ prefix.
func WithModelName(name string) Option { return func(o *app.Options) { o.Model = name } }

// WithModel uses a model implementation of your own.
func WithModel(m Model) Option { return func(o *app.Options) { o.UseModel = m } }

// WithTools adds tools.
func WithTools(tools ...Tool) Option {
	return func(o *app.Options) { o.Tools = append(o.Tools, tools...) }
}

// WithoutBuiltinTools leaves out file access and commands.
func WithoutBuiltinTools() Option { return func(o *app.Options) { o.NoBuiltins = true } }

// WithHooks observes every turn. Hooks are called in order and isolated from each other.
func WithHooks(h ...Hooks) Option {
	return func(o *app.Options) { o.Hooks = append(o.Hooks, h...) }
}

// WithEnv replaces the process environment, in the form of os.Environ.
func WithEnv(env []string) Option { return func(o *app.Options) { o.Env = env } }

// WithLogger sends logs somewhere; by default they are dropped.
func WithLogger(log *slog.Logger) Option { return func(o *app.Options) { o.Log = log } }

// WithRecording writes the model's traffic and the results of tools to a file,
// credentials removed, for nanobot replay.
func WithRecording(file string) Option { return func(o *app.Options) { o.Record = file } }

// WithDeliver gets what is said in turns that no message asked for, such as the
// result of a subagent. It must not block.
func WithDeliver(f func(Event)) Option { return func(o *app.Options) { o.Deliver = f } }

// WithRestart is called after a user asked for /restart.
func WithRestart(f func(Route)) Option {
	return func(o *app.Options) { o.Restart = func(r bus.Route) { f(r) } }
}

// Version is the version of this build.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
