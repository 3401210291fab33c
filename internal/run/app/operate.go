package app

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/core/agent"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
)

// Commands is the command table of a program with these options, for menus and
// completion.
func Commands(o Options) []agent.Command {
	rows := append(agent.Commands(), programCommands(nil, o)...)
	slices.SortStableFunc(rows, func(a, b agent.Command) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// programCommands are the rows of commands about the program around the agent.
// The App is what they work on; menus need none.
func programCommands(a *App, o Options) []agent.Command {
	rows := []agent.Command{
		{
			Name: "config", Args: "reload", Help: "read the configuration again", Owner: true, DuringTurn: true,
			Run: func(ctx context.Context, c *agent.Call) (agent.Reply, error) { return reloadCommand(ctx, o, c), nil },
		},
		{
			Name: "cron", Args: "[run|enable|disable|remove ID]", Help: "list the scheduled jobs, or work on one", Owner: true, DuringTurn: true,
			Run: func(ctx context.Context, c *agent.Call) (agent.Reply, error) {
				return agent.Say(a.cronCommand(ctx, c.Args, c.Inbound.Route)), nil
			},
		},
		{
			Name: "doctor", Help: "look for problems of this installation", Owner: true, DuringTurn: true,
			Run: func(ctx context.Context, _ *agent.Call) (agent.Reply, error) {
				if o.Doctor == nil {
					return agent.Say(phrase.Of(ctx, "This program cannot examine itself; run nanobot doctor in a terminal.")), nil
				}
				return agent.Say(o.Doctor(ctx)), nil
			},
		},
	}

	rows = append(rows,
		promptRow(a, dreamCommand, "show the instructions that decide what Dream looks for, or copy them to a file of yours"),
		promptRow(a, evaluatorCommand, "show the instructions that decide what a heartbeat tells you, or copy them to a file of yours"),
	)
	pairing := agent.Command{Name: access.PairingCommand, Args: "[list|approve|deny|revoke ...]", Help: "manage who may talk to the bot", Owner: true}
	if !o.Link.inGateway() { // else its channels answer this one
		pairing.DuringTurn = true
		pairing.Run = func(ctx context.Context, c *agent.Call) (agent.Reply, error) {
			people := access.OpenBook(access.BookOptions{Store: State(a.Config, a.log), Log: a.log, Now: o.Now})
			return agent.Say(people.Command(ctx, c.Args)), nil
		}
	}

	return append(rows, pairing)
}

func promptRow(a *App, name, help string) agent.Command {
	return agent.Command{
		Name: name, Args: "[init]", Help: help, Owner: true, DuringTurn: true,
		Run: func(ctx context.Context, c *agent.Call) (agent.Reply, error) {
			return agent.Say(promptCommand(ctx, a, c)), nil
		},
	}
}

// reloadCommand is /config.
func reloadCommand(ctx context.Context, o Options, c *agent.Call) agent.Reply {
	switch {
	case c.Args != "reload":
		return agent.Say(phrase.Of(ctx, "Usage: /config reload. Settings are changed in a terminal: nanobot config set NAME VALUE"))
	case o.Link.Reload == nil:
		return agent.Say(phrase.Of(ctx, "This program reads its settings when it starts: end it and start it again."))
	}
	return agent.Reply{Text: phrase.Of(ctx, "Reading the configuration again."), Then: func() { o.Link.Reload(c.Inbound.Route) }}
}

// The commands about files that replace instructions.
const (
	dreamCommand     = "dream-prompt"
	evaluatorCommand = "evaluator-prompt"
)

// override is the file that a command is about.
func override(a *App, command string) prompt.Override {
	o := prompt.Override{Workspace: a.Workspace, Foreign: a.guard.Foreign, Name: string(datadir.PromptsDir) + "/dream.md", Usual: memory.DreamPrompt()}
	if command == evaluatorCommand {
		o.Name, o.Usual = string(datadir.PromptsDir)+"/evaluator.md", schedule.EvaluatorPrompt
	}
	return o
}

// promptCommand is /dream-prompt and /evaluator-prompt.
func promptCommand(ctx context.Context, a *App, c *agent.Call) string {
	o := override(a, c.Name)
	switch c.Args {
	case "":
		return o.Describe()
	case "init":
	default:
		return phrase.Of(ctx, "Usage: /%s, or /%s init", c.Name, c.Name)
	}

	switch created, err := o.Init(a.Files()); {
	case err != nil:
		return phrase.Of(ctx, "%s was not made: %v", o.Name, err)
	case !created:
		return phrase.Of(ctx, "%s is there already. Delete it to go back to the built-in instructions.", o.Name)
	}
	return phrase.Of(ctx, "The built-in instructions are in %s now. Change them there; nanobot follows the file from now on.", o.Name)
}

// cronCommand is /cron.
func (a *App) cronCommand(ctx context.Context, args string, r bus.Route) string {
	words := strings.Fields(args)
	if len(words) == 0 || len(words) == 1 && words[0] == "list" {
		text, err := a.Schedule.Overview(ctx, r)
		if err != nil {
			return err.Error()
		}
		return text
	}

	if len(words) != 2 {
		return phrase.Of(ctx, "Usage: /cron, or /cron run, enable, disable or remove with the id of a job.")
	}

	id := words[1]
	var err error
	var job schedule.Job
	var text string
	switch words[0] {
	case "run":
		job, err = a.Schedule.RunNow(ctx, id, true)
		text = phrase.Of(ctx, "%q runs now.", job.Name)
	case "enable", "disable":
		job, err = a.Schedule.Enable(ctx, id, words[0] == "enable")
		text = phrase.Of(ctx, "%q is switched off.", job.Name)
		if job.Enabled {
			text = phrase.Of(ctx, "%q is switched on.", job.Name)
		}

	case "remove", "rm":
		job, err = a.Schedule.Remove(ctx, id)
		text = phrase.Of(ctx, "%q is removed.", job.Name)
	default:
		return phrase.Of(ctx, "Unknown subcommand /cron %s. Use run, enable, disable or remove with the id of a job.", words[0])
	}

	if errors.Is(err, schedule.ErrNotFound) {
		return phrase.Of(ctx, "There is no job %s; /cron lists them.", id)
	}
	if err != nil {
		return phrase.Of(ctx, "That did not work: %v.", err)
	}

	if _, running := schedule.Owner(ctx, a.Schedule.State); words[0] == "run" && !running {
		text = phrase.Of(ctx, "%q runs as soon as a gateway does.", job.Name)
	}
	return text
}
