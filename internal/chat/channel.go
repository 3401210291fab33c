// Package chat defines what a chat platform is: the contract that one fulfils
// (Channel, and what it can do as data in Caps), what it is given (Deps), its
// settings (Common), and which of its errors are tried again.
//
// A platform only translates: what arrives becomes a bus.Inbound, what leaves
// is sent as the platform wants it. It holds no queue, no retry loop and no
// list of people: package deliver runs the channels, package access says who may
// talk to us, and package kit has what platforms share.
package chat

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/markdown"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/bus/media"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// Submit hands a message to the agent. Nil means that it is durable: only then
// may the platform be told that it arrived. A message with an ID that was
// submitted before is accepted and dropped, so a platform that repeats itself
// does no harm.
type Submit func(ctx context.Context, in bus.Inbound) error

// Channel is one chat platform. Implementations are safe for concurrent use.
type Channel interface {
	// Name is the word before the colon of session keys.
	Name() string
	// Caps says what the platform can do. It does not change after the factory
	// returned, except by Deps.Refine.
	Caps() Caps
	// Run connects and receives until ctx ends, which is not an error. It calls
	// Deps.Ready once the platform has let us in, and again with the reason
	// when the connection is lost and taken up inside Run. Any error it returns
	// makes the manager start it again later, except a Fatal one, which waits
	// for another configuration.
	Run(ctx context.Context, submit Submit) error
	// Send delivers one part that keeps to Caps and returns the platform's id
	// of it, "" if it has none. It tries once and says in its error what
	// happened (RateLimited, Permanent, NotReady); everything else counts as
	// passing trouble and is tried again by the manager. A part of kind Delta
	// is the beginning of a text that will be edited. Whole platforms get
	// everything through here, one after the other: they must not block.
	Send(ctx context.Context, out bus.Outbound) (id string, err error)
}

// Streamer is a Channel that can change what it sent, and perhaps remove it.
type Streamer interface {
	Channel
	// Edit makes a message say what out says. Until final is set that is a
	// preview: a failure is not tried again. An edit that changes nothing is
	// no error.
	Edit(ctx context.Context, out bus.Outbound, id string, final bool) error
	// Erase removes a message of ours. One that is gone already is not an error. A
	// platform that cannot do it returns errors.ErrUnsupported: the message
	// stays.
	Erase(ctx context.Context, route bus.Route, id string) error
}

// Signaller is a Channel that can show what happens to a message.
type Signaller interface {
	Channel
	// Signal shows a phase of the message of a route: Seen once, Working now
	// and then every Caps.Typing, and one of the others at the end. Failures
	// are cosmetic.
	Signal(ctx context.Context, route bus.Route, phase Phase) error
}

// Planner is a Channel that divides messages by itself, since its units are not
// those of a text: tables, cards, bytes of JSON.
type Planner interface {
	Channel
	// Plan divides a message into parts that keep to the platform's limits:
	// the same ones each time, so that their number is enough to continue
	// after a restart. It sends nothing.
	Plan(out bus.Outbound) []bus.Outbound
}

// Addresser is a Channel whose chats have names that people know, besides ids.
type Addresser interface {
	Channel
	// Address finds the chat that a target names: an id, or a name such as
	// #general, @ann or a phone number. One that does not exist, or is not
	// unique, is an error that says so.
	Address(ctx context.Context, target string) (bus.Route, error)
}

// Phase is how far a message has come.
type Phase string

// The phases.
const (
	Seen        Phase = "seen"     // accepted: a read receipt, a reaction
	Working     Phase = "working"  // the agent works on it: typing
	Answered    Phase = "answered" // the end: take marks away, or set another
	TurnFailed  Phase = "failed"   // the end, by an error
	TurnStopped Phase = "stopped"  // the end, by a person
)

// Handler is a Channel that receives by HTTP on the gateway's own listener.
type Handler interface {
	Channel
	// Routes are patterns of http.ServeMux, such as "POST /telegram". The
	// handlers check who calls by themselves and answer 503 while Run is not
	// going on.
	Routes() map[string]http.Handler
}

// Caps is what a platform can do, as data.
type Caps struct {
	// MaxChars is the longest text of one message in Unit, counted in the
	// Markdown that Send gets; 0 is no limit. A platform whose rendering
	// makes texts longer leaves a margin.
	MaxChars int
	Unit     markdown.Unit
	// Whole platforms get every Outbound as the agent said it: no splitting,
	// no filters, no edits; the manager still keeps order, retries and
	// delivery. For platforms that are programs of ours.
	Whole bool
	// EditEvery is the shortest time between two previews of one message,
	// GroupEditEvery the same where more people listen. 0 switches streaming
	// by edits off.
	EditEvery, GroupEditEvery time.Duration
	// Previewed reports whether a preview of a text, in the chat of a route,
	// looks as its final form does: then no final edit follows one that showed
	// all of it. Nil: a final edit is always made, since it also closes the
	// message.
	Previewed func(to bus.Route, text string) bool
	// Typing is how often Working must be repeated to stay visible; 0 is once.
	Typing time.Duration
	// MaxMedia is the largest file that can be sent, in bytes; 0 is none at all.
	MaxMedia int64
	// Together is how many files one message takes beside the text: that many
	// go with the last part of it, others follow. 0: each file is a part
	// without text.
	Together int
	// Reasoning platforms have a place for the model's thinking; they get it
	// as one text of that kind per segment, if the settings want it.
	Reasoning bool
	// Buttons platforms show Question.Options; for others the manager writes
	// them into the text.
	Buttons bool
	// Settles platforms get Gone for every question that is over, also without
	// a text: to take its buttons away.
	Settles bool
	// OneMessage platforms show a turn as one message: its segments, hints and
	// progress grow in it by Edit, and it is closed once by a final one, also
	// when the turn fails or is stopped. What is too long goes on in the next.
	OneMessage bool
	// Hint is how a tool hint looks in such a message; nil: as it is.
	Hint func(text string) string
	// Keys platforms do nothing when they get the Key of a part again but
	// return the id of what they sent then: nothing is sent twice, whatever
	// happens to us in between.
	Keys bool
	// Replies bounds what is sent in answer to one message, and for how long
	// after it; ReplyTo of every part is then the message that it answers,
	// the last one of the chat. What is too much is deferred. Progress and
	// previews leave half of it to the answer.
	Replies Limit
	// Quotes platforms tell only the id of a message that is answered. The
	// manager remembers the last ones of each chat for Deps.Quoted.
	Quotes bool
	// Refines says that Run calls Deps.Refine before the first Ready, since
	// the server knows the limits. No message is divided before that.
	Refines bool
	// Rate bounds what is sent.
	Rate Rate
	// Group reports whether several people read a chat, on platforms that see
	// it from the route alone. Nil: the manager remembers it from what came in.
	Group func(route bus.Route) bool
	// Clients is how many are connected, on platforms that others connect to.
	Clients func() int
}

// Rate is how much a platform takes, with bursts of the count. A zero Limit is
// no bound.
type Rate struct {
	Total Limit // all chats together
	Chat  Limit // one chat
	Group Limit // one chat with several people; Chat holds as well
	Edit  Limit // all edits together; previews beyond it are left out
}

// Limit is a number of messages in a time.
type Limit struct {
	Count int
	Per   time.Duration
}

// Deps is what a channel gets from the house.
type Deps struct {
	Name  string // runtime name of this channel: the key of its section
	Gate  *access.Gate
	Media *media.Store // where files that came in are kept
	State *State       // small facts that survive a restart, such as offsets
	// Dir is a private folder of this account, made when it is asked for, for
	// what is more than small facts: keys of encrypted chats, a session.
	Dir func() (string, error)
	// Claim says which account this is, as soon as that is known and before
	// anything is received or sent. An error means that another section uses
	// the same one: Run returns it.
	Claim func(identity string) error
	// Forget drops who was let in while this section was another account, on
	// platforms where people have other ids with every account. It is called
	// with the present one before anything is received; before is an earlier
	// one that the channel knows of, or "".
	Forget func(ctx context.Context, account, before string) error
	// Ready reports the state of the connection: nil after the platform let
	// us in, with identity the name we have there; else why not.
	Ready func(identity string, err error)
	// Refine changes limits that are known only after the connection, or
	// change with it: MaxChars, MaxMedia and Together. What change does to
	// other fields is ignored. Only Run calls it.
	Refine func(change func(*Caps))
	// Quoted finds what a message of a chat said, by the platform's id of it:
	// one that the agent was given, or one that we sent. Only the last ones
	// since the start are known, on platforms with Caps.Quotes.
	Quoted func(route bus.Route, id string) (Quoted, bool)
	// Client makes an HTTP client for the platform's configured addresses, as the
	// function Client does.
	Client func(proxy string) (*http.Client, error)
	// Fetch makes a client for addresses that strangers or the model wrote:
	// it refuses private ones.
	Fetch func() (*http.Client, error)
	// Transcribe turns a voice message into text, "" when it cannot.
	Transcribe func(ctx context.Context, path string) string
	// Commands are the slash commands for a menu.
	Commands []Command
	// Shown is what besides answers is wanted, by the section or else by all
	// channels. The manager keeps to it, except for Whole platforms, which
	// know more about who reads.
	Shown Filters
	// Known reports whether the agent was given a message with this ID before
	// and would drop it. Nil: it is not known.
	Known func(id string) bool
	// Settled reports whether it was answered as well, and the answer is
	// delivered: nothing more comes of it. Nil: it is not known.
	Settled func(id string) bool
	// Back reports that a client listens to a chat: what Send refused with
	// ErrAway is sent now. It does not block. Nil: there is no manager.
	Back func(route bus.Route)
	// Ending is closed when the program ends: what a client does not take at once
	// is left to the next start, so Send returns ErrAway soon. Nil: there is no
	// manager.
	Ending <-chan struct{}
	Log    *slog.Logger
	Now    func() time.Time
}

// Quoted is a message that another one answers. Its words are not those of the
// person who answers it: they belong into Inbound.Quoted.
type Quoted struct {
	Text     string
	Media    []bus.Media
	SenderID string // "": we said it
}

// Filters says what besides answers is sent, where a section says nothing.
type Filters struct{ SendProgress, SendToolHints, ShowReasoning bool }

// Command is one line of a menu of slash commands.
type Command struct {
	Name  string
	Args  string // a hint about what follows the name, such as "[on|off]"; "": nothing does
	About string
}
