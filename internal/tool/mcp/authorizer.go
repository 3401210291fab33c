package mcp

import (
	"context"
	"errors"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// errLoginNeeded says that a person must log in before a server can be used.
var errLoginNeeded = errors.New("login needed")

// Authorizer supplies bearer tokens for servers whose auth is set.
// Implementations are safe for concurrent use, never open a browser and never
// register a client: what only a person can start is ErrLoginNeeded.
type Authorizer interface {
	// Token returns a token that is good for requests to url, refreshed when
	// it was about to expire. It is asked before every request, so it must be
	// fast while the token is valid. An error that wraps ErrLoginNeeded puts
	// the server aside until the next Token succeeds.
	Token(ctx context.Context, server, url string) (httpsafe.Secret, error)
	// Invalidate says that a server refused the given token with 401. The next
	// Token must be another one or an error. A token that is no longer the
	// current one is to be ignored: another call has refreshed it already.
	Invalidate(server string, refused httpsafe.Secret)
	// StepUp says that a server refused the given token because a request needs
	// a scope that the token lacks. Without an error the next Token may have it,
	// and the request is worth one more try. An error that wraps ErrLoginNeeded
	// means that the next login asks for the scope.
	StepUp(ctx context.Context, server, url string, refused httpsafe.Secret, scope string) error
}
