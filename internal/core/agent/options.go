package agent

import (
	"context"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/turn"
)

// Options of an Agent: those of its turns, and what only the agent needs. Each of the
// latter may be nil or zero.
type Options struct {
	turn.Options

	// Commands are the rows of commands whose code lives elsewhere.
	Commands []Command
	Schedule Schedule
	// Dream makes long-term memory of the history; nil means there is none.
	Dream Dreamer
	// SharedMemory names chats, as <channel>:<chat>, in which all people have one
	// memory instead of one each.
	SharedMemory []string
	Grace        time.Duration // for running turns when Run ends; 0 means 10 s

	// Clean takes keys out of what a person typed, before anything of it is kept
	// or shown to a model; the note is for that person.
	Clean func(in bus.Inbound) (clean bus.Inbound, note string)
	// Elsewhere sends a message to another chat than that of the turn, for the
	// owner. nil when there is no way.
	Elsewhere func(ctx context.Context, out bus.Outbound) (bus.Route, error)
	// Problems are what an owner reads in /status about the program around the
	// agent.
	Problems func() []string
	// Restart is called after /restart was acknowledged; nil means it is not possible here.
	Restart func(route bus.Route)
}

// Schedule is what the agent needs of jobs, triggers and the heartbeat.
type Schedule struct {
	// Outcome is asked about the final reply to a message with the Event cron,
	// heartbeat or trigger before it goes out: whether it does, and in which
	// form. It may be asked again after a crash. May be nil.
	Outcome func(ctx context.Context, in bus.Inbound, out bus.Outbound) (bus.Outbound, bool)
	// Trigger binds a new trigger to a conversation and says how to use it.
	// May be nil.
	Trigger func(ctx context.Context, name string, r bus.Route, key string) (string, error)
}
