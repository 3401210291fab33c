package nanobot

import (
	"encoding/json"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// What a chat platform of your own is made of; see WithChannel. A platform only
// translates. Order, retries, rate limits, splitting, pairing and restarts are
// done for it.
type (
	// Channel is one chat platform. It may have more methods: Edit and Erase to
	// stream by changing messages, Signal to show that a message was seen,
	// Routes to receive by HTTP on the gateway's port.
	Channel = chat.Channel
	// ChannelDriver says what the section of a platform may hold and how a
	// Channel is made of it; only New must be there.
	ChannelDriver = chat.Driver
	// ChannelDeps is what a Channel gets from the gateway.
	ChannelDeps = chat.Deps
	// ChannelCaps says what the platform can do.
	ChannelCaps = chat.Caps
	// ChannelSection are the settings every platform has; embed it in yours.
	ChannelSection = chat.Common
	// ChannelPhase is what Signal shows.
	ChannelPhase = chat.Phase
	// ChannelRate bounds what is sent; see ChannelCaps.
	ChannelRate = chat.Rate
	// ChannelPlanner is a Channel that divides messages by itself.
	ChannelPlanner = chat.Planner
	// Visitor is a person who wrote, for ChannelDeps.Gate to decide about.
	Visitor = access.Visitor
	// ChannelGate decides who may talk to us.
	ChannelGate = access.Gate
	// ChannelRules are a platform's own rules for its gate.
	ChannelRules = access.Rules
	// ChannelDecision is what such a rule says.
	ChannelDecision = access.Decision
	// ChannelPass is what the gate decided.
	ChannelPass = access.Pass
	// ChannelVerdict is the decision in a word.
	ChannelVerdict = access.Verdict
	// Submit hands a message to the agent. Nil means that it is on disk.
	Submit = chat.Submit
	// Inbound is a message for the agent; Pass.Inbound begins one.
	Inbound = bus.Inbound
)

// ErrNotReady is wrapped by errors of Channel.Send while the platform is not
// connected.
var ErrNotReady = chat.ErrNotReady

// DecodeSection fills a struct, which holds the defaults already, from the
// section of a channel. An unknown key is an error that names the nearest one.
func DecodeSection(section json.RawMessage, into any) error { return chat.Decode(section, into) }

// Deferred marks an error of Channel.Send after which the platform takes nothing
// more until the person writes again.
func Deferred(err error) error { return chat.Deferred(err) }

// Permanent marks an error of Channel.Send that stays the same however often
// the message is sent.
func Permanent(err error) error { return chat.Permanent(err) }

// Fatal marks an error of a channel that only another configuration can mend.
func Fatal(err error) error { return chat.Fatal(err) }

// RateLimited marks an error after which the platform wants to be left alone.
func RateLimited(after time.Duration, err error) error { return chat.RateLimited(after, err) }
