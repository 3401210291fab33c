package turn

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/runner"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/core/turn/sessiontool"
	"github.com/nanobot-go/nanobot/internal/core/turn/subagent"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Runtime is a model ready to use, resolved once per turn.
type Runtime struct {
	Model       llm.Model
	Name        string // wire name
	Display     string // what the user called it
	Preset      string
	MaxTokens   int
	Temperature *float64
	Effort      string
	Window      int // context window in tokens, 0 if unknown
	Block       int // replaces the computed input budget when set
	// Check looks whether a prompt and answer of so many tokens are too much
	// for the server as it runs now and returns a warning; nil means no check.
	Check func(ctx context.Context, needed int) string
}

// ModelChoice precedes the name of a model where the name of a preset stands.
const ModelChoice = "model "

// Options are those of an engine. Workspace, Sessions and Models.Runtime are required.
type Options struct {
	Workspace string
	Sessions  *session.Store
	Models    Models
	Tools     Tools
	// Guard decides what turns may do and where they work. nil: every call is
	// allowed, everybody works in the workspace, and there are no commands.
	Guard       Guard
	Skills      *skill.Library
	GuestSkills *skill.Library // of others than the owner, who never see the workspace; may be nil
	Memory      Memory
	Turns       Turns
	Events      Events
	Hints       Hints
	// Secrets are taken out of what tools return and of what is said. May be nil.
	Secrets  *httpsafe.Registry
	Version  string
	Location *time.Location
	Now      func() time.Time
	Log      *slog.Logger
}

// Models says which models answer, and what that costs.
type Models struct {
	// Runtime resolves a model preset; "" is the configured default.
	Runtime func(ctx context.Context, preset string) (Runtime, error)
	Presets []string // names /model offers besides "default"; Runtime also takes ModelChoice and the name of a model
	// Usage tells what model calls cost so far; nil means it is not counted.
	Usage func(ctx context.Context) (string, error)
	// TurnCost is what the calls of a turn cost, 0 if that is not known, and how
	// they are paid for; see ledger.Billing.
	TurnCost func(turnID string) (usd float64, billing string)
}

// Tools says what the model can do.
type Tools struct {
	Set *tool.Set
	// More are tools that come and go, such as those of MCP servers. The number
	// changes whenever the list does. May be nil.
	More func(ctx context.Context) ([]tool.Tool, uint64)
	// Slow names what More will have to wait for; nil when it never does.
	Slow func(ctx context.Context) []string
	// Missing names tools of More that should be there and are not: by how their
	// names begin, with a sentence for the user. May be nil.
	Missing func() map[string]string
	Hooks   []runner.Hooks
	// Results is the folder where long results of tools are kept, outside of the
	// workspace. "" cuts them instead.
	Results   string
	Subagents subagent.Options
	Sessions  sessiontool.Options
	My        owntool.Settings
}

// Guard is what an agent needs of a guard.Guard. Its methods may be called from
// several goroutines.
type Guard interface { //nolint:interfacebloat // the whole seam between a turn and the policy
	runner.Guard

	// Place returns where a message of a guest works.
	Place(r bus.Route, scope string) guard.Place
	// Folder reports whether a conversation may work in a folder, and returns what it
	// is called without links.
	Folder(path string) (dir string, err error)
	// Start returns the scope of a conversation that its owner starts in a folder
	// (bus.Inbound.Folder).
	Start(path string) (guard.Scope, error)
	// Foreign reports whether a file of the workspace holds words from outside. Such
	// a file is not part of the prompt.
	Foreign(path string) bool
	// Media opens a file that the model wants to send, if policy allows it.
	Media(ctx context.Context, c tool.Call, path string) (bus.Media, error)
	// UserShell returns what runs a command line that the owner typed, without asking
	// about it; nil if there are no commands.
	UserShell() func(ctx context.Context, c tool.Call, command string) (tool.Result, error)

	// Running returns a line for each command that goes on after its call, and
	// StopCommand ends one of them. Without a session they are those of all.
	Running(session string) []string
	StopCommand(session, id string) bool

	// Undo takes back what a turn of a session did to files, those of whoever wrote
	// the message; Diff shows it. Without a turn it is the last one that changed
	// files. force also replaces files that changed since. Turns lists the turns that
	// changed files, newest first. Replies are Markdown for the user.
	Undo(ctx context.Context, in bus.Inbound, session, turn string, force bool) (reply string, paths []string, err error)
	Diff(ctx context.Context, in bus.Inbound, session, turn string) (string, error)
	Turns(ctx context.Context, in bus.Inbound, session string) (string, error)

	// Ended lets go of what is kept for a conversation that was stopped or, with
	// stopped false, that a new one replaces.
	Ended(session string, stopped bool)
}

// Memory says what outlives a conversation.
type Memory struct {
	// Consolidator takes in what leaves conversations; nil means that it is dropped.
	Consolidator *memory.Consolidator
	// IdleCompact is the silence after which all of a conversation is taken in; 0 is never.
	IdleCompact time.Duration
	// IdleCheck is the time between two conversations that fell silent before
	// this run and are taken in late.
	IdleCheck time.Duration
}

// Turns says how turns run.
type Turns struct {
	Limits      runner.Limits
	Concurrency int  // turns doing model work at once; 0 means 4, negative no limit
	Unified     bool // one session across all channels
	// Resume says what becomes of messages from a queue whose turn was
	// interrupted by a restart.
	Resume ResumePolicy
}

// Events are how turns and the program around them meet. Each may be nil.
type Events struct {
	// Deliver gets what is said in turns that no message asked for, such as the
	// result of a subagent.
	Deliver func(bus.Outbound)
	// Runtime are told what happens to turns, in order; see RuntimeEvent.
	Runtime []func(RuntimeEvent)
}

// Hints says how calls of tools are shown.
type Hints struct {
	Chars int    // length of paths and commands; 0 means 40
	Home  string // shown as ~
}

// Complete checks options and fills in what was left out.
func (o *Options) Complete() error {
	if o.Workspace == "" || o.Sessions == nil || o.Models.Runtime == nil {
		return errors.New("agent: workspace, sessions and runtime are required")
	}

	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Secrets == nil {
		o.Secrets = &httpsafe.Registry{}
	}
	if o.Turns.Concurrency == 0 {
		o.Turns.Concurrency = 4
	}
	if o.Hints.Chars == 0 {
		o.Hints.Chars = 40
	}
	return nil
}
