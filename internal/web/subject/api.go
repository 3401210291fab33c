// Package subject is what web clients read and change: conversations, file changes,
// memory, jobs, skills, costs, questions, devices. It hides in which shapes these cross
// the wire, which the pages get from here (make web-types), and says what can be done in
// which state. What it is about lies in the packages below.
package subject

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/guard/change/undo"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/web"
)

// Backend is the program as it is now; a new configuration replaces parts of it.
type Backend struct {
	Workspace string
	Sessions  *session.Store
	Schedule  *schedule.Scheduler
	Skills    *skill.Library
	Place     skill.Place  // where skills are installed
	Disabled  []string     // skills that are left out
	Jail      *diskio.Jail // what may be looked at

	// Running reports whether a conversation has a turn, or messages that wait
	// for one, and which subagents run for it. nil: none has.
	Running func(key string) (busy bool, subagents []string)
	// Delete moves a conversation to the archive, with all that goes on in it,
	// and reports whether there was one. nil: Sessions does it.
	Delete func(ctx context.Context, key string) (bool, error)
	// Erase removes a conversation for good, EraseArchived what the archive has under
	// an id, both also from the search. nil: only from Sessions.
	Erase         func(ctx context.Context, key string) error
	EraseArchived func(ctx context.Context, id string) error
	// Context is what the model would be shown of a conversation. nil: nobody knows.
	Context func(ctx context.Context, key string) (any, error)
	// Seq is the number of the last event of a conversation on the socket, if it
	// has one there. nil: none has.
	Seq func(key string) (int64, bool)
	// Attachment describes a file of a message. nil: only its name is known.
	Attachment func(path string) Attachment
	// Search finds the conversations of a list that have words. nil: there is no index.
	Search func(ctx context.Context, q search.Query) (search.Result, error)
	// Calls are the model calls that were recorded. nil: there are none.
	Calls func(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Entry, error]
	// TriggerSecret is the key with which programs elsewhere sign what they send
	// to a trigger; renew makes another one. nil: there is none.
	TriggerSecret func(id string, renew bool) (string, error)
	// Changed are the turns of a conversation that changed files. nil: it is not kept.
	Changed func(ctx context.Context, key string) ([]undo.Turn, error)
	// Redact takes credentials out of what is shown. nil: there are none.
	Redact func(string) string
}

// Options of an API. Backend is required.
type Options struct {
	Backend  func(ctx context.Context) (Backend, error)
	Commands []Command // slash commands
	Unread   *Unread   // nil: nothing is counted

	Log *slog.Logger
	Now func() time.Time
}

// Command is a slash command.
type Command struct {
	Name  string `json:"name"`
	Args  string `json:"args,omitempty"`
	About string `json:"description"`
}

// API is the subjects that have no type of their own. It is safe for concurrent use.
type API struct{ Options }

// New makes an API. It reads nothing yet.
func New(o Options) *API {
	return &API{o}
}

// Routes implements Subject.
func (d *API) Routes() web.Routes {
	out := web.Routes{Reads: map[string]web.Read{}, Actions: map[string]web.Action{}}
	for _, reads := range []map[string]web.Read{
		d.backendReads(), d.sessionReads(), d.automationReads(), d.skillReads(),
	} {
		maps.Copy(out.Reads, reads)
	}
	for _, actions := range []map[string]web.Action{
		d.sessionActions(), d.automationActions(), d.skillActions(),
	} {
		maps.Copy(out.Actions, actions)
	}
	return out
}

// lastingTime bounds what goes on without its client.
const lastingTime = 2 * time.Minute

// lasting is for a change of several steps, which must not end half-way because the
// connection is lost: the client asks again and gets the answer then.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastingTime)
}
