package nanobot

import (
	"errors"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// What a program may want to tell apart; see errors.Is.
var (
	// ErrBudget says that a spending limit ended a turn or kept it from beginning.
	ErrBudget = errors.New("a spending limit is reached")
	// ErrNoProvider says that no usable model is configured.
	ErrNoProvider = errors.New("no usable model is configured")
)

// TurnError is a turn that ended without an answer, because its model could
// not give one or a tool returned a ToolFatalError. Message is for people. Kind
// says what happened: auth, billing, rate_limit, timeout, connection,
// budget_exceeded, tool_error and others.
type TurnError struct {
	Kind    string
	Message string

	cause error
}

// Error implements error.
func (e *TurnError) Error() string { return e.Message }

// Unwrap is what the model or the tool returned.
func (e *TurnError) Unwrap() error { return e.cause }

// Is makes kinds that have an error of their own be that error.
func (e *TurnError) Is(target error) bool { return target == kindError(llm.Kind(e.Kind)) }

func kindError(k llm.Kind) error {
	switch k {
	case llm.BudgetExceeded:
		return ErrBudget
	case llm.Configuration:
		return ErrNoProvider
	}
	return nil
}

// explained lets errors.Is find what an error of a model means.
func explained(err error) error {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		if means := kindError(e.Kind); means != nil {
			return &meaning{err, means}
		}
	}
	return err
}

// meaning is an error that is also another one, in its own words.
type meaning struct {
	error

	means error
}

func (m *meaning) Unwrap() []error { return []error{m.error, m.means} }
