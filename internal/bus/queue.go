package bus

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Durable reports whether a message of this kind is kept until its channel has
// delivered it. The others only show what goes on and may be joined or dropped.
func (k Kind) Durable() bool { return k == Final || k == Message || k == Ask }

// Errors every Queue uses.
var (
	// ErrClosed refuses work after Close.
	ErrClosed = errors.New("the message queue is closed")
	// ErrTooLarge refuses a message that no queue could hold. Trying again does not help.
	ErrTooLarge = errors.New("the message is too large")
	// ErrNoID refuses an inbound message without an ID, which could be handled twice.
	ErrNoID = errors.New("the message has no id")
)

// Inbox carries messages from the edges to the agent. Implementations must be
// safe for concurrent use and guarantee:
//
//   - Submit returns nil only when the message survives the death of the
//     process and a power loss. The edge then tells its platform so. After an
//     error the message is not accepted, except that a failing disk may have
//     kept it after all; submitting the same ID again is always right.
//   - A message whose ID was accepted before, also one completed long ago as
//     far as the implementation remembers, is accepted and dropped. Two
//     submits of one ID at the same time have one result.
//   - Submit blocks until ctx ends while its channel has too much outstanding,
//     in or out, so a platform that floods us or takes nothing slows only itself.
//   - Receive hands out each accepted message once per opening of the queue,
//     in the order of acceptance. One that was not completed is handed out
//     again after a restart, before newer ones. There may be one receiver.
//   - Complete ends the life of a received message and gives its answers to
//     the outbox in one atomic step: after a crash there is either the message
//     or its answers. It does not block on a full outbox. When the answers
//     cannot be made durable it returns an error and they go out all the same.
//     A final reply that can be given again may survive a power failure only a
//     moment later: until then the message is received again.
//     Completing twice, or what is not there, does nothing and drops the answers.
type Inbox interface {
	Submit(ctx context.Context, in Inbound) error
	Receive(ctx context.Context) (Inbound, error)
	Complete(ctx context.Context, id string, outs ...Outbound) error
}

// Knower is an Inbox that tells which messages it would accept and drop.
type Knower interface {
	// Known reports whether a message with this ID was accepted before, as far
	// as is remembered.
	Known(id string) bool
	// Completed reports whether it was also completed and its final reply is
	// delivered: nothing more comes of it by itself.
	Completed(id string) bool
}

// FinalID returns the ID of the final reply to a message, the same however often the
// message is worked on.
func FinalID(id string) string { return "final:" + id }

// Outbox carries messages from the agent to the edges. Implementations must be
// safe for concurrent use and guarantee:
//
//   - Publish returns nil for a durable kind only when the message survives a
//     crash; an ID that was accepted before is accepted and dropped. It blocks
//     until ctx ends while the channel has too many undelivered. Other kinds
//     are kept in memory, never block, and may be joined with the one before
//     (text of one stream) or dropped under pressure. When text of a stream is
//     dropped, the Final of that chat says it was not Streamed.
//   - Outgoing yields what goes to a channel in the order of publication:
//     first all that is durable and not delivered, then new messages as they
//     come, until ctx ends (then it just stops) or the queue is closed (then
//     ErrClosed comes last). One reader per channel at a time; a new one starts
//     over with what is still undelivered. A durable message stays the
//     reader's until Delivered; parts of it that were sent are counted by Sent.
//   - Sent and Delivered survive the death of the process. A power loss may
//     take the last ones back, which makes for a message sent twice, never for
//     one lost. Unknown IDs are ignored.
//   - Shown keeps which messages of the platform show the growing answer to the
//     message of a route, in their order, instead of what was kept for it
//     before; none means that nothing does any more. It holds as Sent does.
//     Showing gives them back, also after a restart, so that they are changed
//     instead of being sent again beside themselves. They are forgotten when
//     the Final of the route is Delivered, when the message of the route is
//     completed without one, after ShownFor, and the oldest when they become
//     too many. A route without a MessageID cannot be told from others, so
//     nothing is kept for it.
//
// A durable message that is yielded after a restart has Streamed unset: how
// much of its stream was shown is not known.
type Outbox interface {
	Publish(ctx context.Context, out Outbound) error
	Outgoing(ctx context.Context, channel string) iter.Seq2[Delivery, error]
	Sent(ctx context.Context, id string, part int) error
	Delivered(ctx context.Context, id string) error
	Shown(ctx context.Context, to Route, ids []string) error
	Showing(ctx context.Context, to Route) (ids []string, err error)
}

// ShownFor is how long a Queue remembers what shows a growing answer: a day for
// the work on it, and another for its delivery.
const ShownFor = 48 * time.Hour

// Delivery is an Outbound on its way to a channel.
type Delivery struct {
	Outbound
	// Parts is how many parts of it were sent before, by an earlier reader:
	// the delivery goes on behind them.
	Parts int
}

// Queue is both ways.
type Queue interface {
	Inbox
	Outbox
}
