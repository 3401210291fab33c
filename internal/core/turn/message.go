package turn

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/explain"
)

// Message is what a turn answers.
type Message struct {
	In     bus.Inbound
	Key    string // of the session
	Extra  Extra
	Sink   Sink
	Queued bool // a queue keeps it until it is answered
}

// Sink is the way back to the asker of a message.
type Sink interface {
	// Emit passes on what is said in answer to the message.
	Emit(out bus.Outbound)
	// Join is called instead of Done when the message was kept as a part of the
	// running turn.
	Join()
	// Done ends the work on the message. The error is what its asker sees instead of
	// a reply.
	Done(err error)
}

// Around is what a turn needs of the mailbox that its message comes from.
type Around struct {
	// More returns up to so many messages that may join the turn, in their order.
	More func(most int) []Message
	// Ask opens a question for the person who wrote the message. The returned func
	// waits for the message with the answer; tool.ErrNoAnswer means that none came
	// in time. The sink of the answer is ended by the caller.
	Ask func(q bus.Question) (wait func(ctx context.Context) (Message, error))
	// EndsGoal reports whether a message waits that ends the goal of the session.
	EndsGoal func() bool
}

// final returns the last reply to the message.
func (m Message) final(text string, plain bool, turn *bus.Turn) bus.Outbound {
	return bus.Outbound{
		Kind: bus.Final, Route: m.In.Route, ReplyTo: m.In.Route.MessageID,
		Text: text, Plain: plain, Meta: m.In.Meta, Turn: turn,
	}
}

// Reader is who reads what became of the message.
func (m Message) Reader() explain.Reader {
	return explain.Reader{Language: m.In.Language, Page: m.In.Route.Channel == "websocket"}
}
