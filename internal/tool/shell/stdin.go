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
	sess, err := s.sessions.start(ctx, r, c, l)
	switch {
	case errors.Is(err, errFull) || errors.Is(err, errClosed):
		return tool.Fail(tool.Conflict, "the command was not run: %v", err)
	case err != nil:
		return notStarted(err)
	}

	sess.await(ctx, yield, nil)
	if ctx.Err() != nil {
		sess.stop(errStopped)
		<-sess.ended
	}

	c.Turn.AfterEnd(func() { sess.turnOver(r.log) })
	return s.report(sess, l.chars, "")
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
	sess := s.sessions.find(c, strings.TrimSpace(in.ID))
	if sess == nil {
		return tool.Fail(tool.NotFound, "there is no session %q. It has ended or never was; list_exec_sessions shows those there are.", in.ID), nil
	}

	chars := maxOutputChars
	if in.MaxChars > 0 {
		chars = in.MaxChars
	}

	if in.Terminate {
		sess.stop(errTerminated)
		<-sess.ended
		return s.report(sess, chars, ""), nil
	}

	typing := in.Chars != nil && *in.Chars != ""
	var w *watch
	if in.WaitFor != "" {
		w = sess.watch(in.WaitFor, typing)
		defer sess.unwatch(w)
	}

	if typing {
		if c.Tainted {
			sess.taint()
		}
		if bad := s.typeInto(sess, *in.Chars); bad != nil {
			return *bad, nil
		}
	}

	if in.CloseStdin {
		sess.closeStdin()
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
	if found := sess.await(ctx, wait, w); w != nil && !found {
		note = fmt.Sprintf("[%q did not appear within %v]", in.WaitFor, wait)
	}
	return s.report(sess, chars, note), nil
}

// typeInto writes to standard input. What a shell is going to run is judged
// like the command of a call.
func (s *Shell) typeInto(sess *session, chars string) *tool.Result {
	fail := func(code tool.Code, format string, args ...any) *tool.Result {
		res := tool.Fail(code, format, args...)
		return &res
	}
	if len(chars) > maxStdin {
		return fail(tool.InvalidArgs, "chars has %d bytes; at most %d are accepted in one call", len(chars), maxStdin)
	}

	words := chars
	if sess.launch.pty {
		words = typedText(chars)
	}

	if sess.launch.typed && strings.TrimSpace(words) != "" {
		if problem := unreadable(words); problem != "" {
			return fail(tool.InvalidArgs, "chars %s", problem)
		}
		if r := sess.runner.guard.check(words, sess.launch.dir); r != nil {
			return fail(r.code, "%s", r.text())
		}
	}

	sess.mu.Lock()
	closed := sess.stdinClosed
	sess.mu.Unlock()
	if sess.isOver() {
		return nil // the report says so
	}
	if closed {
		return fail(tool.Conflict, "standard input of session %s is closed; read on without chars, or start a new one", sess.id)
	}

	// The pipe holds 64 KiB, so this waits only for a command that does not read.
	_ = sess.stdin.SetWriteDeadline(time.Now().Add(stdinWait)) // where it is not supported, there is no bound
	n, err := sess.stdin.WriteString(chars)
	switch {
	case err == nil || errors.Is(err, os.ErrClosed) || sess.isOver():
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(tool.Conflict, "the command does not read its input: %d of %d bytes were taken. Wait until it does, then send the rest.", n, len(chars))
	default:
		return nil // it closed its input or is ending; its output tells
	}
}

// await waits until the command ends, the watched text appears, the time is
// over or the turn ends. It reports whether the text appeared.
func (sess *session) await(ctx context.Context, limit time.Duration, w *watch) bool {
	var found chan struct{}
	if w != nil {
		found = w.found
	}

	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-found:
		return true
	case <-sess.ended:
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
func (s *Shell) report(sess *session, chars int, note string) tool.Result {
	over := sess.isOver()
	stdout, stderr := sess.drain()
	text := both(stdout, stderr, chars)
	if note != "" {
		text = strings.TrimPrefix(text+"\n"+note, "\n")
	}

	var res tool.Result
	switch {
	case !over:
		res = tool.Text(strings.TrimPrefix(fmt.Sprintf("%s\n\n[running, session_id %s, %s so far, %s]%s", text, sess.id, seconds(sess.elapsed()), sess.left(), sess.remark()), "\n\n"))
	case sess.out.over != nil:
		res = tool.Fail(tool.TooLarge, "the command was ended after %s: %v.%s", seconds(sess.elapsed()), sess.out.over, partial(text))
		res.MayHaveRun = true
	case sess.cause == nil && sess.launch.sandboxed && unconfined(stdout, stderr, sess.out.code) != "":
		res = notStarted(errors.New(unconfined(stdout, stderr, sess.out.code)))
	case sess.cause == nil:
		printed := stderr
		if sess.launch.pty {
			printed = stdout
		}
		res = tool.Text(strings.TrimRight(fmt.Sprintf("%s\n[ended after %s]\n%s",
			withCode(text, sess.out.code), seconds(sess.elapsed()), sess.runner.whereIs(sess.out.code, printed)), "\n"))
		res.Exit = &sess.out.code

	case errors.Is(sess.cause, errTerminated):
		res = tool.Text(strings.TrimPrefix(fmt.Sprintf("%s\n\n[terminated after %s]", text, seconds(sess.elapsed())), "\n\n"))
	default:
		code := tool.TimedOut
		switch {
		case errors.Is(sess.cause, errStopped):
			code = tool.Cancelled
		case errors.Is(sess.cause, errTurnOver), errors.Is(sess.cause, errStillWrote):
			code = tool.DeniedPolicy
		}

		res = tool.Fail(code, "the command was stopped after %s: %v.%s", seconds(sess.elapsed()), sess.cause, partial(text))
		res.MayHaveRun = true
	}

	if over {
		s.sessions.remove(sess)
	}

	res.Untrusted = sess.outside()
	return res
}

func (s *Shell) list(_ context.Context, c tool.Call, _ struct{}) (tool.Result, error) {
	var b strings.Builder
	for _, sess := range s.sessions.of(c.SessionKey) {
		if !sess.visible(c) {
			continue
		}
		b.WriteString(sess.describe() + "\n")
	}

	if b.Len() == 0 {
		return tool.Text("No commands are running."), nil
	}
	return tool.Text(strings.TrimRight(b.String(), "\n")), nil
}

// describe returns a session in one line.
func (sess *session) describe() string {
	sess.mu.Lock()
	idle := time.Since(sess.used)
	sess.mu.Unlock()
	state, left := "running", sess.left()
	if sess.isOver() {
		state, left = fmt.Sprintf("exited with code %d", sess.out.code), "output not read"
	}
	return fmt.Sprintf("%s %s, %s so far, idle %s, %s, in %s: %s",
		sess.id, state, seconds(sess.elapsed()), seconds(idle), left, sess.launch.dir, text.Label(sess.launch.command, maxListedLength))
}
