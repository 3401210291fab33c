package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const (
	defaultYield    = time.Second
	defaultAwait    = 10 * time.Second
	maxStdin        = 64 << 10        // bytes of one call
	stdinWait       = 2 * time.Second // for a command that does not read its input
	maxListedLength = 120             // characters of a command in the list
)

// begin runs a command as a session for a first while.
func (s *Shell) begin(ctx context.Context, r *runner, c tool.Call, l launch, yield time.Duration) tool.Result {
	one, err := s.sessions.start(ctx, r, c, l)
	switch {
	case errors.Is(err, errFull) || errors.Is(err, errClosed):
		return tool.Fail(tool.Conflict, "the command was not run: %v", err)
	case err != nil:
		return notStarted(err)
	}
	one.await(ctx, yield, nil)
	if ctx.Err() != nil {
		one.stop(errStopped)
		<-one.ended
	}
	c.Turn.AfterEnd(func() { one.turnOver(r.log) })
	return s.report(one, l.chars, "")
}

// stdinInput holds what the model sends to write_stdin.
type stdinInput struct {
	ID         string  `json:"session_id"`
	Chars      *string `json:"chars,omitempty"`
	CloseStdin bool    `json:"close_stdin,omitempty"`
	Terminate  bool    `json:"terminate,omitempty"`
	Yield      *int    `json:"yield_time_ms,omitempty" min:"0" max:"30000" desc:"wait for output, default 1000"`
	WaitFor    string  `json:"wait_for,omitempty" max:"250" desc:"return when this text appears"`
	WaitMS     *int    `json:"wait_timeout_ms,omitempty" min:"0" max:"120000"`
	MaxChars   int     `json:"max_output_chars,omitempty" alias:"max_output_tokens" min:"1000" max:"50000" hidden:"1"`
}

func (s *Shell) writeStdin(ctx context.Context, c tool.Call, in stdinInput) (tool.Result, error) {
	one := s.sessions.find(c, strings.TrimSpace(in.ID))
	if one == nil {
		return tool.Fail(tool.NotFound, "there is no session %q. It has ended or never was; list_exec_sessions shows those there are.", in.ID), nil
	}
	chars := maxOutputChars
	if in.MaxChars > 0 {
		chars = in.MaxChars
	}
	if in.Terminate {
		one.stop(errTerminated)
		<-one.ended
		return s.report(one, chars, ""), nil
	}
	typing := in.Chars != nil && *in.Chars != ""
	var w *watch
	if in.WaitFor != "" {
		w = one.watch(in.WaitFor, typing)
		defer one.unwatch(w)
	}
	if typing {
		if c.Tainted {
			one.taint()
		}
		if bad := s.typeInto(one, *in.Chars); bad != nil {
			return *bad, nil
		}
	}
	if in.CloseStdin {
		one.closeStdin()
	}
	wait := defaultYield
	switch {
	case w != nil && in.WaitMS != nil:
		wait = time.Duration(*in.WaitMS) * time.Millisecond
	case w != nil:
		wait = defaultAwait
	case in.Yield != nil:
		wait = time.Duration(*in.Yield) * time.Millisecond
	}
	note := ""
	if found := one.await(ctx, wait, w); w != nil && !found {
		note = fmt.Sprintf("[%q did not appear within %v]", in.WaitFor, wait)
	}
	return s.report(one, chars, note), nil
}

// typeInto writes to standard input. What a shell is going to run is judged
// like the command of a call.
func (s *Shell) typeInto(one *session, chars string) *tool.Result {
	fail := func(code tool.Code, format string, args ...any) *tool.Result {
		res := tool.Fail(code, format, args...)
		return &res
	}
	if len(chars) > maxStdin {
		return fail(tool.InvalidArgs, "chars has %d bytes; at most %d are accepted in one call", len(chars), maxStdin)
	}
	words := chars
	if one.launch.pty {
		words = typedText(chars)
	}
	if one.launch.typed && strings.TrimSpace(words) != "" {
		if problem := unreadable(words); problem != "" {
			return fail(tool.InvalidArgs, "chars %s", problem)
		}
		if r := one.runner.guard.check(words, one.launch.dir); r != nil {
			return fail(r.code, "%s", r.text())
		}
	}
	one.mu.Lock()
	closed := one.stdinClosed
	one.mu.Unlock()
	if one.isOver() {
		return nil // the report says so
	}
	if closed {
		return fail(tool.Conflict, "standard input of session %s is closed; read on without chars, or start a new one", one.id)
	}
	// The pipe holds 64 KiB, so this waits only for a command that does not read.
	_ = one.stdin.SetWriteDeadline(time.Now().Add(stdinWait)) // where it is not supported, there is no bound
	n, err := one.stdin.WriteString(chars)
	switch {
	case err == nil || errors.Is(err, os.ErrClosed) || one.isOver():
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(tool.Conflict, "the command does not read its input: %d of %d bytes were taken. Wait until it does, then send the rest.", n, len(chars))
	default:
		return nil // it closed its input or is ending; its output tells
	}
}

// await waits until the command ends, the watched text appears, the time is
// over or the turn ends. It reports whether the text appeared.
func (one *session) await(ctx context.Context, limit time.Duration, w *watch) bool {
	var found chan struct{}
	if w != nil {
		found = w.found
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-found:
		return true
	case <-one.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case <-found: // together with the other
		return true
	default:
		return false
	}
}

// report shows the new output and the state of a session. One that is over is
// forgotten with it.
func (s *Shell) report(one *session, chars int, note string) tool.Result {
	over := one.isOver()
	stdout, stderr := one.take()
	text := both(stdout, stderr, chars)
	if note != "" {
		text = strings.TrimPrefix(text+"\n"+note, "\n")
	}
	var res tool.Result
	switch {
	case !over:
		res = tool.Text(strings.TrimPrefix(fmt.Sprintf("%s\n\n[running, session_id %s, %s so far, %s]%s", text, one.id, seconds(one.elapsed()), one.left(), one.remark()), "\n\n"))
	case one.out.over != nil:
		res = tool.Fail(tool.TooLarge, "the command was ended after %s: %v.%s", seconds(one.elapsed()), one.out.over, partial(text))
		res.MayHaveRun = true
	case one.cause == nil && one.launch.sandboxed && unconfined(stdout, stderr, one.out.code) != "":
		res = notStarted(errors.New(unconfined(stdout, stderr, one.out.code)))
	case one.cause == nil:
		printed := stderr
		if one.launch.pty {
			printed = stdout
		}
		res = tool.Text(strings.TrimRight(fmt.Sprintf("%s\n[ended after %s]\n%s",
			withCode(text, one.out.code), seconds(one.elapsed()), one.runner.whereIs(one.out.code, printed)), "\n"))
		res.Exit = &one.out.code
	case errors.Is(one.cause, errTerminated):
		res = tool.Text(strings.TrimPrefix(fmt.Sprintf("%s\n\n[terminated after %s]", text, seconds(one.elapsed())), "\n\n"))
	default:
		code := tool.TimedOut
		switch {
		case errors.Is(one.cause, errStopped):
			code = tool.Cancelled
		case errors.Is(one.cause, errTurnOver), errors.Is(one.cause, errStillWrote):
			code = tool.DeniedPolicy
		}
		res = tool.Fail(code, "the command was stopped after %s: %v.%s", seconds(one.elapsed()), one.cause, partial(text))
		res.MayHaveRun = true
	}
	if over {
		s.sessions.remove(one)
	}
	res.Untrusted = one.outside()
	return res
}

func (s *Shell) list(_ context.Context, c tool.Call, _ struct{}) (tool.Result, error) {
	var b strings.Builder
	for _, one := range s.sessions.of(c.SessionKey) {
		if !one.visible(c) {
			continue
		}
		b.WriteString(one.describe() + "\n")
	}
	if b.Len() == 0 {
		return tool.Text("No commands are running."), nil
	}
	return tool.Text(strings.TrimRight(b.String(), "\n")), nil
}

// describe is a session in one line.
func (one *session) describe() string {
	one.mu.Lock()
	idle := time.Since(one.used)
	one.mu.Unlock()
	state, left := "running", one.left()
	if one.isOver() {
		state, left = fmt.Sprintf("exited with code %d", one.out.code), "output not read"
	}
	return fmt.Sprintf("%s %s, %s so far, idle %s, %s, in %s: %s",
		one.id, state, seconds(one.elapsed()), seconds(idle), left, one.launch.dir, text.Label(one.launch.command, maxListedLength))
}
