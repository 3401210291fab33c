// Package subject has the reads and actions of web clients: conversations, file changes,
// memory, jobs, skills, costs, questions, devices. It hides in which shapes these cross
// the wire, which the pages get from here (make web-types), and says what can be done in
// which state. What it is about lies in the packages below.
package subject

import (
	"context"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
)

// Program is what subjects are about. A new configuration replaces it as a whole, so no
// subject keeps it, and none changes it.
type Program struct {
	Workspace string
	DataDir   string // has the keys of triggers
	Sessions  *session.Store
	Archive   archiver
	Agent     worker
	Model     string // that answers unless a conversation has chosen another
	Provider  string // of this model
	Prices    pricer
	Schedule  *schedule.Scheduler
	Skills    *skill.Library
	Place     skill.Place    // where skills are installed
	Disabled  []string       // skills that are left out
	Location  *time.Location // of the person, nil: that of this machine
	Jail      *diskio.Jail   // what may be looked at
	Changes   *change.Record // nil: changes to files are not kept
	// Memory opens what is remembered; done gives it back. nil: there is none.
	Memory  func(context.Context) (m *memory.Memory, done func() error, err error)
	Dream   dreamer            // nil while calls are recorded
	Index   *search.Index      // nil without the built-in tools
	Ledger  *ledger.Ledger     // of the calls of models; nil: they are not recorded
	Secrets *httpsafe.Registry // they are taken out of what is shown
}

// archiver puts conversations away, with all that goes on in them.
type archiver interface {
	// DeleteSession moves a conversation to the archive, and reports whether there
	// was one.
	DeleteSession(ctx context.Context, key string) (bool, error)
	// EraseSession removes a conversation for good, EraseArchived what the archive
	// has under an id, both also from the search.
	EraseSession(ctx context.Context, key string) error
	EraseArchived(ctx context.Context, id string) error
}

// worker is the agent.
type worker interface {
	asker
	// BusyWith reports whether a conversation has a turn, or messages that wait for one.
	BusyWith(key string) bool
	// Subagents are the ids of those that run for a conversation.
	Subagents(key string) []string
	// Context is what the model would be shown of a conversation. The error is
	// errors.ErrUnsupported if that cannot be told.
	Context(ctx context.Context, key string) (any, error)
	// Prompt is what the next message of a conversation is sent with. The error is
	// session.ErrNotFound if there is nothing of it yet.
	Prompt(ctx context.Context, key string) (Prompt, error)
	// Undone tells the model of a conversation which files are as they were before.
	Undone(ctx context.Context, key string, paths []string) error
}

// asker asks the owner while it works.
type asker interface {
	// OpenQuestions are the questions that turns of all conversations wait on, the
	// oldest first.
	OpenQuestions() any
	// AnswerQuestion answers one of them in the name of the owner, wherever it was
	// asked. It reports whether the question is open and has the option.
	AnswerQuestion(answer bus.Answer) bool
}

// pricer knows what models cost.
type pricer interface {
	Price(provider, model string) ledger.Price
}

// dreamer lets memory take in what was said.
type dreamer interface {
	Run(ctx context.Context, manual bool) (memory.Report, error)
}

// Source returns the program in use. It waits while one takes over from another.
type Source func(ctx context.Context) (*Program, error)
