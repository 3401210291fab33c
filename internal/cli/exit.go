package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"syscall"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
)

// Exit codes, after sysexits where one fits.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnavailable = 69 // the model server cannot answer now, or another process has what we need
	exitRefused     = 76 // the turn ended, but a call needed an approval that could not be asked for
	exitAuth        = 77
	exitConfig      = 78
	exitInterrupted = 130
)

// failure is an error that was told to the user already.
type failure struct{ code int }

func (f failure) Error() string { return fmt.Sprintf("exit code %d", f.code) }

// exited ends us silently with the code that an error names.
func exited(err error) error {
	if e, ok := errors.AsType[*daemon.ExitError](err); ok {
		return failure{e.Code}
	}
	return err
}

// usageError marks a wrong call, so that the exit code says so.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// unavailable marks what another process has at the moment.
type unavailable struct{ error }

func (u unavailable) Unwrap() error { return u.error }

// turnError is a turn that ended without an answer. The text is meant for the
// user and says what to do.
type turnError struct {
	text string
	kind llm.Kind
}

func (t turnError) Error() string { return t.text }

// asker is the way to send a message to the agent.
type asker = func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error]

// gently makes a turn that the user stopped end with a notice: in a chat that
// is not an error.
func (c *agentCommand) gently(ask asker) asker {
	return func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
		return func(yield func(bus.Outbound, error) bool) {
			for out, err := range ask(ctx, in) {
				if errors.Is(err, nanobot.ErrStopped) {
					out, err = bus.Outbound{Kind: bus.Notice, Route: in.Route, Text: c.in("Stopped.")}, nil
				}
				if !yield(out, err) {
					return
				}
			}
		}
	}
}

// failing makes a turn that failed end with a turnError, so that its text goes
// where errors go and is never taken for an answer.
func failing(ask asker) asker {
	return func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
		return func(yield func(bus.Outbound, error) bool) {
			for out, err := range ask(ctx, in) {
				if err == nil && out.Kind == bus.Final && out.Turn != nil && out.Turn.Error != "" {
					yield(bus.Outbound{}, turnError{out.Turn.Error, llm.Kind(out.Turn.ErrorKind)})
					return
				}
				if !yield(out, err) {
					return
				}
			}
		}
	}
}

// exitCode returns the code that tells a script what kind of error ended us.
func exitCode(err error) int {
	if f, ok := errors.AsType[failure](err); ok {
		return f.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*daemon.RequestError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*memory.NameError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*schedule.NameError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return exitConfig
	}
	if _, ok := errors.AsType[*session.BusyError](err); ok {
		return exitUnavailable
	}
	if _, ok := errors.AsType[unavailable](err); ok {
		return exitUnavailable
	}
	if _, ok := errors.AsType[*diskio.LockedError](err); ok {
		return exitUnavailable
	}
	if t, ok := errors.AsType[turnError](err); ok {
		return kindCode(t.kind)
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return kindCode(e.Kind)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, nanobot.ErrStopped) {
		return exitInterrupted
	}
	return exitFailure
}

// kindCode returns the exit code of a failed model call.
func kindCode(k llm.Kind) int {
	switch k {
	case llm.Auth, llm.Permission, llm.Billing:
		return exitAuth
	case llm.Configuration:
		return exitConfig
	case llm.Connection, llm.Timeout, llm.RateLimited, llm.Overloaded, llm.ServerError, llm.StreamTruncated:
		return exitUnavailable
	}
	return exitFailure
}

// describe returns the text of an error for a person.
func describe(err error) string {
	if errors.Is(err, nanobot.ErrStopped) || errors.Is(err, context.Canceled) {
		return "stopped before the answer was complete"
	}

	switch path := pathOf(err); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		if path == "" {
			return fmt.Sprintf("the disk is full: %v\nMake room and try again. Nothing that was stored before is lost.", err)
		}
		return fmt.Sprintf("the disk is full: %v\nMake room where %s is and try again. Nothing that was stored before is lost.", err, path)

	case errors.Is(err, syscall.EROFS):
		if path == "" {
			return fmt.Sprintf("the disk is read-only: %v\nnanobot must be able to write.", err)
		}
		return fmt.Sprintf("the disk is read-only: %v\nnanobot must be able to write where %s is.", err, path)

	case errors.Is(err, fs.ErrPermission) && path != "":
		return fmt.Sprintf("not allowed: %v\nGive your user access to it (ls -ld %s shows who has it), or choose another place with -c or -w.", err, path)
	}

	return err.Error()
}

// pathOf returns the file that an error is about; "" is none.
func pathOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Path
	}
	return ""
}
