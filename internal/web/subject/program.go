package subject

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// Program is what subjects are about. A new configuration replaces it as a whole, so no
// subject keeps it.
type Program struct {
	Sessions *session.Store
	Changes  *change.Record
	// Memory opens what is remembered; done gives it back. nil: there is none.
	Memory  func(context.Context) (m *memory.Memory, done func() error, err error)
	Dream   dreamer            // nil while calls are recorded
	Index   *search.Index      // nil without the built-in tools
	Secrets *httpsafe.Registry // they are taken out of what is shown
}

// dreamer lets memory take in what was said.
type dreamer interface {
	Run(ctx context.Context, manual bool) (memory.Report, error)
}

// Source returns the program in use. It waits while one takes over from another.
type Source func(ctx context.Context) (*Program, error)
