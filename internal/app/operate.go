package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/agent"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/channel"
	"github.com/nanobot-go/nanobot/internal/schedule"
)

// operate carries out what an owner asks of the program in a chat.
func (a *App) operate(o Options) func(ctx context.Context, name, args string, r bus.Route) (string, func()) {
	return func(ctx context.Context, name, args string, r bus.Route) (reply string, then func()) {
		switch {
		case name == "cron":
			return a.cronCommand(ctx, args, r), nil
		case name == "doctor":
			if o.Doctor == nil {
				return "This program cannot examine itself; run nanobot doctor in a terminal.", nil
			}
			return o.Doctor(ctx), nil
		case args != "reload":
			return "Usage: /config reload. Settings are changed in a terminal: nanobot config set NAME VALUE", nil
		case o.Link.Reload == nil:
			return "This program reads its settings when it starts: end it and start it again.", nil
		}
		return "Reading the configuration again.", func() { o.Link.Reload(r) }
	}
}

// AsideCommands are answered by the channels of a gateway.
func AsideCommands(o Options) []agent.Command {
	if !o.Link.inGateway() {
		return nil
	}
	c := channel.PairingCommand()
	return []agent.Command{{Name: c.Name, Args: "[list|approve|deny|revoke ...]", Help: "let people in or shut them out"}}
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
		return "Usage: /cron, or /cron run, enable, disable or remove with the id of a job."
	}
	id := words[1]
	var err error
	var job schedule.Job
	var done string
	switch words[0] {
	case "run":
		job, err = a.Schedule.RunNow(ctx, id, true)
		done = "%q runs now."
	case "enable", "disable":
		job, err = a.Schedule.Enable(ctx, id, words[0] == "enable")
		done = map[bool]string{true: "%q is switched on.", false: "%q is switched off."}[words[0] == "enable"]
	case "remove", "rm":
		job, err = a.Schedule.Remove(ctx, id)
		done = "%q is removed."
	default:
		return fmt.Sprintf("Unknown subcommand /cron %s. Use run, enable, disable or remove with the id of a job.", words[0])
	}
	if errors.Is(err, schedule.ErrNotFound) {
		return fmt.Sprintf("There is no job %s; /cron lists them.", id)
	}
	if err != nil {
		return "That did not work: " + err.Error() + "."
	}
	text := fmt.Sprintf(done, job.Name)
	if _, running := schedule.Owner(ctx, a.Schedule.State); words[0] == "run" && !running {
		text = fmt.Sprintf("%q runs as soon as a gateway does.", job.Name)
	}
	return text
}
