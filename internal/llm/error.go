package llm

import (
	"errors"
	"fmt"
	"time"
)

// Kind classifies an Error.
type Kind string

// The kinds of Error.
const (
	Timeout          Kind = "timeout"
	Connection       Kind = "connection"
	RateLimited      Kind = "rate_limit"
	Overloaded       Kind = "overloaded"
	ServerError      Kind = "server_error"
	Auth             Kind = "auth"
	Permission       Kind = "permission"
	Billing          Kind = "billing"
	NotFound         Kind = "not_found"
	InvalidRequest   Kind = "invalid_request"
	UnsupportedParam Kind = "unsupported_param"
	UnsupportedImage Kind = "unsupported_image"
	ContextLength    Kind = "context_length"
	ContentFilter    Kind = "content_filter"
	Refused          Kind = "refusal"
	Empty            Kind = "empty"
	StreamTruncated  Kind = "stream_truncated"
	Configuration    Kind = "configuration"
	// BudgetExceeded is our own refusal to make a call: a spending limit of the
	// user forbids it. The Message says which one and how to go on.
	BudgetExceeded Kind = "budget_exceeded"
)

// Error is a failed model call. Message is the vendor's text, cut and with
// credentials removed; it may be shown to the user but never enters a history.
type Error struct {
	Kind       Kind
	Provider   string
	Status     int           // HTTP status, 0 if none
	Code       string        // vendor's error.code, lower case
	Type       string        // vendor's error.type, lower case
	Message    string        // at most 500 characters
	RetryAfter time.Duration // as asked by the server, 0 if it did not say
	// ShouldRetry is the server's own verdict (x-should-retry), nil if none.
	ShouldRetry *bool
	// Param is the parameter an UnsupportedParam error names, "" if unknown.
	Param string
	// ContextLimit is the real window in tokens, when a ContextLength error names it.
	ContextLimit int
	Err          error
}

func (e *Error) Error() string {
	s := e.Message
	if s == "" && e.Err != nil {
		s = e.Err.Error()
	}
	if s == "" {
		s = string(e.Kind)
	}
	if e.Status != 0 {
		s = fmt.Sprintf("HTTP %d: %s", e.Status, s)
	}
	if e.Provider != "" {
		s = e.Provider + ": " + s
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	if e.ShouldRetry != nil {
		return *e.ShouldRetry
	}
	switch e.Kind {
	case Timeout, Connection, RateLimited, Overloaded, ServerError, StreamTruncated:
		return true
	default:
		return false
	}
}

// AsError finds the *Error in a chain, or wraps any other error as a Connection error.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: Connection, Message: err.Error(), Err: err}
}

// Kinds lists every kind, for tables that must be complete.
func Kinds() []Kind {
	return []Kind{
		Timeout, Connection, RateLimited, Overloaded, ServerError, Auth, Permission, Billing, NotFound,
		InvalidRequest, UnsupportedParam, UnsupportedImage, ContextLength, ContentFilter, Refused, Empty,
		StreamTruncated, Configuration, BudgetExceeded,
	}
}
