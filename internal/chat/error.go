package chat

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotReady is wrapped by errors of Send while the platform is not
// connected. The manager waits for Ready before it tries again.
var ErrNotReady = errors.New("not connected")

// ErrAway is wrapped by errors of Send on platforms that others connect to,
// while no client listens to the chat. The message stays in the queue, and the
// manager tries again when the channel calls Deps.Back for the chat.
var ErrAway = errors.New("no client listens to the chat")

// ErrStopping refuses messages while the channel is being stopped. The platform
// keeps them for the next start.
var ErrStopping = errors.New("the channel is being stopped")

// errDeferred is wrapped by the errors of Deferred.
var errDeferred = errors.New("waits for the next message of the chat")

// Deferred marks an error of Send when the platform takes nothing more until the
// person writes again: the replies to a message are used up, or it is too old. The
// message stays in the queue, and the manager tries again after the next message
// of the chat or the next connection, not by a timer.
func Deferred(err error) error { return fmt.Errorf("%w: %w", errDeferred, err) }

// IsDeferred reports whether an error is one of Deferred.
func IsDeferred(err error) bool { return errors.Is(err, errDeferred) }

// RateLimitedError says that the platform asked us to wait.
type RateLimitedError struct {
	After time.Duration
	Err   error
}

func (e *RateLimitedError) Error() string {
	return fmt.Sprintf("rate limited for %s: %v", e.After.Round(time.Millisecond), e.Err)
}

// Unwrap implements errors.
func (e *RateLimitedError) Unwrap() error { return e.Err }

// RateLimited marks an error after which the platform wants to be left alone
// for a while.
func RateLimited(after time.Duration, err error) error {
	return &RateLimitedError{After: after, Err: err}
}

// permanentError is never tried again.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks an error of Send that stays the same however often the
// message is sent: a chat that is gone, a file that is too large.
func Permanent(err error) error { return &permanentError{err} }

// IsPermanent reports whether trying again is pointless.
func IsPermanent(err error) bool { _, ok := errors.AsType[*permanentError](err); return ok }

// fatalError needs another configuration.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Fatal marks an error of Run or a Factory that only a change of the
// configuration can mend: a wrong token, a missing permission.
func Fatal(err error) error { return &fatalError{err} }

// IsFatal reports whether the channel stays down until its configuration changes.
func IsFatal(err error) bool { _, ok := errors.AsType[*fatalError](err); return ok }
