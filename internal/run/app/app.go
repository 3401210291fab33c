// Package app is the composition root: it turns a configuration into a running
// agent. It is the only package that knows which tools exist; everything below
// it gets what it needs through Options.
package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/keyring"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/record"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/core/turn"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/core/turn/sessiontool"
	"github.com/nanobot-go/nanobot/internal/core/turn/subagent"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/mcp"
	"github.com/nanobot-go/nanobot/internal/web/api"
)

// Options of an App.
type Options struct {
	Config    config.Options
	Workspace string // overrides the configured one
	Folder    string // that the owner started the program in; "" is the workspace
	Model     string // overrides the configured one
	Env       []string
	Version   string
	Log       *slog.Logger
	Restart   func(route bus.Route)                                          // see agent.Options
	Deliver   func(bus.Outbound)                                             // see turn.Options
	Elsewhere func(ctx context.Context, out bus.Outbound) (bus.Route, error) // see agent.Options
	// Notify tells the owner, where they wrote last, something that needs no
	// answer, such as findings that wait for their word. May be nil.
	Notify func(ctx context.Context, s phrase.Sentence)

	Now func() time.Time // nil is time.Now; for simulations

	Record string // file to record model traffic and tool results in

	// For programs that embed us.
	UseModel   llm.Model // used instead of any configured one
	Tools      []tool.Tool
	NoBuiltins bool
	Observers  Observers
	Channels   map[string]chat.Driver //  chat platforms beside ours; only a Gateway connects to them

	// Link is the gateway the App runs in.
	Link Link
	// Reminders are the chats whose jobs KeepTime runs. Without a gateway only;
	// nil means none.
	Reminders func(r bus.Route) bool

	// Doctor answers /doctor. May be nil.
	Doctor func(ctx context.Context) string

	Figures *api.Figures   // nil: of its own
	Loaded  *config.Loaded // instead of what the file says now

	Secrets *httpsafe.Registry // the credentials in use, which Log leaves out; New makes its own
}

// Observers are those of a program that embeds us.
type Observers struct {
	Hooks  []runner.Hooks
	Events []func(turn.RuntimeEvent) // see turn.Options
}

// App is an agent with everything it needs.
type App struct {
	Config    *config.Loaded
	Workspace string
	Sessions  *session.Store
	Skills    *skill.Library
	History   *memory.History
	Dream     *memory.Dream // nil while recording
	Index     *search.Index // nil without the built-in tools
	Schedule  *schedule.Scheduler
	Agent     *agent.Agent
	Notes     []string // what the user should know about this start
	Exec      string   // how commands are contained, for status

	gateway  bool // whose schedule runs Dream
	remind   reminders
	figures  *api.Figures
	models   *provider.Models
	guard    *guard.Guard // nil while nothing but the configuration is looked at
	secrets  *httpsafe.Registry
	servers  *mcp.Pool      // nil: there are none
	recorder *record.Writer // nil: nothing is recorded
	log      *slog.Logger
}

// New reads the configuration and builds the agent. It makes the workspace if
// it is missing, starts no goroutine and calls no model.
func New(ctx context.Context, o Options) (*App, error) {
	a, err := load(&o)
	if err != nil {
		return nil, err
	}
	if err := a.prepareWorkspace(); err != nil {
		return nil, err
	}
	if err := a.build(ctx, o); err != nil {
		return nil, err
	}

	a.Notes = append(a.Notes, a.guard.Notes()...)
	return a, nil
}

// Inspect finds out what New would use, without making or changing anything:
// the model and how commands are contained. The result has no agent.
func Inspect(ctx context.Context, o Options) (*App, error) {
	a, err := load(&o)
	if err != nil {
		return nil, err
	}
	a.Exec = policyOf(a.Config).ProbeExec(ctx, o.Log)
	return a, a.settle(ctx, o)
}

// Load reads the configuration that New would use, and names the workspace.
func Load(o *Options) (*config.Loaded, string, error) {
	a, err := load(o)
	if err != nil {
		return nil, "", err
	}
	return a.Config, a.Workspace, nil
}

// load reads the configuration and fills in what o leaves open.
func load(o *Options) (*App, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Link.Changed == nil {
		o.Link.Changed = func(string) {}
	}

	if o.Secrets == nil {
		// Whatever is logged from here on is free of credentials.
		o.Secrets = &httpsafe.Registry{}
		o.Log = slog.New(o.Secrets.Handler(o.Log.Handler()))
	}

	if o.Config.Env == nil {
		o.Config.Env = o.Env
	}

	loaded, err := o.Loaded, error(nil)
	if loaded == nil {
		loaded, err = config.Load(o.Config)
	}

	if err != nil {
		return nil, err
	}

	for name, s := range loaded.Secrets() {
		_ = o.Secrets.Add(name, s) // doctor names those that are not looked for
	}

	o.Secrets.AddEnv(o.Env)
	if o.Figures == nil {
		o.Figures = api.NewFigures(nil, o.UseModel != nil)
	}

	a := &App{Config: loaded, log: o.Log, gateway: o.Link.inGateway(), figures: o.Figures, secrets: o.Secrets}
	a.Workspace, err = workspaceOf(o.Workspace, loaded)
	return a, err
}

// settle decides which model answers.
func (a *App) settle(ctx context.Context, o Options) error {
	po := ProviderOptions(a.Config, o)
	po.Watch = a.figures.Call
	a.models = provider.New(po)
	notes, err := a.models.SelectDefault(ctx)
	a.Notes = append(a.Notes, notes...)
	a.Notes = append(a.Notes, LinkNotes(a.Workspace)...)
	return err
}

func (a *App) build(ctx context.Context, o Options) error {
	def := a.Config.Config.Agents.Defaults
	store, err := openSessions(ctx, a.Config, a.Workspace, o)
	if err != nil {
		return err
	}

	a.Sessions = store
	a.Notes = append(append(a.Notes, store.Workspace().Notes...), grownNotes(ctx, a.Config, store, o.Log)...)
	if err := a.openGuard(o); err != nil {
		return err
	}
	if err := a.openSchedule(o); err != nil {
		return err
	}

	var set *tool.Set
	skills := skill.Options{
		Workspace: a.Workspace, Disabled: def.DisabledSkills, Log: o.Log, Getenv: Getenv(o.Env), Ledger: State(a.Config, a.log), Foreign: a.guard.Foreign,
		LookPath: a.guard.LookPath,
		HasTool: func(name string) bool {
			_, ok := set.Get(name)
			return ok || name == "my" && a.Config.Config.Tools.My.Enable
		},
	}

	a.Skills = skill.Open(skills)
	skills.Workspace, skills.Ledger, skills.Foreign = "", nil, nil // guests have those that everybody has
	skills.LookPath = guard.GuestLookPath
	guestSkills := skill.Open(skills)
	set, err = a.tools(o)
	if err != nil {
		return err
	}
	if err := a.settle(ctx, o); err != nil {
		return err
	}

	if o.Record != "" {
		window, err := a.models.Window(ctx)
		if err != nil {
			return err
		}
		if a.recorder, err = startRecording(o.Record, a.Config, a.Workspace, window, o); err != nil {
			return fmt.Errorf("record: %w", err)
		}

		a.models.Wrap(func(m llm.Model) llm.Model { return record.Record(m, a.recorder) })
		o.Observers.Hooks = append(slices.Clone(o.Observers.Hooks), runner.Hooks{AfterTool: a.recorder.Tool})
	}

	taken, err := a.remember(o)
	if err != nil {
		return err
	}

	dreamer, err := a.dreams(o)
	if err != nil {
		return err
	}

	home, _ := os.UserHomeDir() // only shortens paths in hints
	vault := guard.NewVault(keyring.Options{DataDir: a.Config.DataDir, Getenv: Getenv(o.Env)}, a.secrets, o.Log)
	a.Agent, err = agent.New(agent.Options{
		Options: turn.Options{
			Workspace: a.Workspace, Sessions: store, Skills: a.Skills, GuestSkills: guestSkills,
			Models: turn.Models{Runtime: a.models.Runtime, Presets: a.models.Presets(), Usage: a.Ledger().Report, TurnCost: turnCost(a)},
			Tools: a.fromServers(turn.Tools{
				Set: set, Hooks: o.Observers.Hooks, Results: a.guard.Results(),
				Subagents: a.subagents(o), Sessions: sessionTools(a, o),
				My: owntool.Settings{
					Offer: !o.NoBuiltins && a.Config.Config.Tools.My.Enable, AllowSet: a.Config.Config.Tools.My.AllowSet,
					Shown:  map[string]string{"exec": a.Exec},
					Config: func() []string { return config.Paths(o.Config.Sections) },
				},
			}),
			Guard:  a.guard,
			Memory: turn.Memory{Consolidator: taken, IdleCompact: idleCompact(def), IdleCheck: idleCheck(def)},
			Turns: turn.Turns{
				Limits: runner.Limits{
					Iterations: def.MaxToolIterations, ToolResultChars: def.MaxToolResultChars,
					Time: time.Duration(def.Limits.TurnTimeoutS) * time.Second, Tokens: def.Limits.TurnTokens, ToolCalls: def.Limits.TurnToolCalls, AnswerBytes: def.Limits.MaxAnswerBytes,
				},
				Concurrency: concurrency(def.Limits.MaxConcurrentRequests),
				Unified:     def.UnifiedSession,
				Resume:      turn.ResumePolicy(def.ResumeInterrupted),
			},
			Events:  turn.Events{Deliver: o.Deliver, Runtime: o.Observers.Events},
			Hints:   turn.Hints{Chars: def.ToolHintMaxLength, Home: home},
			Secrets: a.secrets, Version: o.Version, Location: def.Location(), Now: o.Now, Log: o.Log,
		},
		Commands:     programCommands(a, o),
		Schedule:     agent.Schedule{Outcome: a.Schedule.Outcome, Trigger: a.trigger},
		Dream:        dreamer,
		SharedMemory: def.SharedMemory,
		Grace:        time.Duration(a.Config.Config.Gateway.ShutdownTimeoutS) * time.Second,
		Clean:        vault.Clean, Elsewhere: o.Elsewhere, Problems: o.Link.Problems, Restart: o.Restart,
	})
	return err
}

// concurrency maps the configured "0 or less is no limit" to the agent's form.
func concurrency(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}

// Run serves until ctx ends and everything has come to rest.
func (a *App) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	if a.servers != nil {
		serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // turns that end need their servers
		defer stop()
		work.Go(func() { _ = a.servers.Run(serving) }) // ends with its context only
	}

	if a.Dream != nil {
		work.Go(func() { a.dream(ctx) })
	}
	if a.Index != nil {
		work.Go(func() { a.Index.Run(ctx, a.Agent.Busy) })
	}
	return a.Agent.Run(ctx)
}

// subagents are offered with the other built-in tools.
func (a *App) subagents(o Options) subagent.Options {
	if o.NoBuiltins {
		return subagent.Options{}
	}
	return subagent.Options{
		Store: store.Under(State(a.Config, a.log), string(datadir.Subagents), filepath.Base(a.Sessions.Dir())),
		Most:  a.Config.Config.Agents.Defaults.MaxConcurrentSubagents,

		Iterations:      a.Config.Config.Agents.Defaults.MaxSubagentIterations,
		FailOnToolError: a.Config.Config.Agents.Defaults.FailOnToolError,
	}
}

// sessionTools are offered if the owner switched them on.
func sessionTools(a *App, o Options) sessiontool.Options {
	cfg := a.Config.Config.Tools
	return sessiontool.Options{
		Offer:     !o.NoBuiltins && cfg.Sessions.Enable,
		PerMinute: cfg.MaxSessionMessagesPerMinute,
		Reachable: o.Link.Deliverable,
		Search: func(ctx context.Context, query string) ([]sessiontool.Hit, error) {
			return searchSessions(ctx, a.Index, query)
		},
	}
}

// fromServers adds the tools of MCP servers, which come and go: what the first turn
// waits for, and what could not be reached.
func (a *App) fromServers(t turn.Tools) turn.Tools {
	if a.servers != nil {
		t.More, t.Slow, t.Missing = a.servers.Tools, a.servers.Slow, a.servers.Missing
	}
	return t
}

// Close gives back what outlives Run. Run must have returned.
func (a *App) Close() error {
	err := errors.Join(a.Sessions.Close(), a.History.Close(), a.models.Close(), a.guard.Close())
	if a.Dream != nil {
		err = errors.Join(err, a.Dream.Close())
	}
	if a.Index != nil {
		err = errors.Join(err, a.Index.Close())
	}
	if a.recorder != nil {
		err = errors.Join(err, a.recorder.Close())
	}
	return err
}

// ModelInfo describes the model in use.
func (a *App) ModelInfo() provider.Info { return a.models.Info() }

// ProviderOptions are what an App with these options makes its models from.
func ProviderOptions(l *config.Loaded, o Options) provider.Options {
	return provider.Options{
		Config:  l,
		Model:   o.Model,
		Fixed:   o.UseModel,
		Getenv:  Getenv(o.Env),
		Version: o.Version,
		Now:     o.Now,
		Log:     o.Log,
	}
}

// OpenSessions opens the session store that belongs to a workspace. The notes of
// its Workspace are for the user.
func OpenSessions(ctx context.Context, loaded *config.Loaded, workspace string, log *slog.Logger) (*session.Store, error) {
	return openSessions(ctx, loaded, workspace, Options{Log: log})
}

// workspaceOf is the absolute path of the workspace in use.
func workspaceOf(override string, loaded *config.Loaded) (string, error) {
	path := override
	if path == "" {
		path = loaded.Workspace()
	}

	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the home folder: %w", err)
		}
		path = filepath.Join(home, rest)
	}

	path, err := filepath.Abs(path)
	if err != nil || override == "" {
		return path, err
	}
	// A folder that the caller names is made, but not the way to it: that is a typing error.
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s does not exist, so %s cannot be the workspace; create it first, or correct the path", filepath.Dir(path), path)
	}
	return path, nil
}

// Workspace returns the workspace a configuration means, without touching it.
func Workspace(override string, loaded *config.Loaded) (string, error) {
	return workspaceOf(override, loaded)
}

// Getenv looks a variable up in an environment of "NAME=value" lines.
func Getenv(env []string) func(string) string {
	return func(name string) string {
		for _, kv := range slices.Backward(env) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
}
