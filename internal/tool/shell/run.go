package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

const (
	// markVariable marks every process of a call, so that those which leave
	// its process group can still be found.
	markVariable = "NANOBOT_CALL"

	// grace is how long processes may take to end after they were asked to.
	grace = 2 * time.Second
	// killWait bounds the wait for processes that were killed, and for pipes
	// that a process out of reach still holds open.
	killWait = time.Second
	// pollEvery is how often the end of asked processes is looked for.
	pollEvery = 5 * time.Millisecond
)

// run executes an accepted command. The error says that it did not start.
func (r *runner) run(ctx context.Context, command, dir string, limit time.Duration) (*outcome, error) {
	turn := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	mark := r.newMark()
	program, args := shellFor(r.lookup, command)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(r.env), markVariable+"="+mark)
	// Stdin stays nil: the null device. The pipes are our own, because the end
	// of the shell, not the last holder of a pipe, ends the call.
	out := &outcome{stdout: newCapture(maxOutputChars), stderr: newCapture(maxOutputChars)}
	streams, err := newStreams(cmd, out)
	if err != nil {
		return nil, err
	}
	defer streams.close()
	kin := newKin(mark)
	kin.prepare(cmd)
	cmd.Cancel = func() error { return kin.ask(cmd) }
	cmd.WaitDelay = grace // then the shell itself is killed; kin.end sees to the rest
	if r.wrap != nil {
		if err := r.wrap(cmd); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, startError(err)
	}
	kin.started(cmd)
	streams.start()
	err = cmd.Wait()
	stopped, left := kin.end()
	out.stopped = stopped
	if left > 0 {
		r.log.WarnContext(ctx, "processes of a command survived being killed", "count", left)
	}
	streams.finish()

	out.code = cmd.ProcessState.ExitCode()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		out.code = exitCode(exit)
	}
	switch {
	case err == nil && ctx.Err() == nil:
	case turn.Err() != nil:
		out.end = cancelled
	case ctx.Err() != nil && err != nil:
		out.end = timedOut
	}
	return out, nil
}

// startError names the program, but not with Go's own words for a system call.
func startError(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

// newMark identifies a call. It extends the mark of an agent that runs inside
// another agent's command, so that the outer one finds these processes, too.
func (r *runner) newMark() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	mark := hex.EncodeToString(id[:])
	if outer := r.lookup(markVariable); outer != "" {
		mark = outer + "." + mark
	}
	return mark
}

// streams copies the output of a command into its captures.
type streams struct {
	copies []streamCopy
	done   sync.WaitGroup
}

type streamCopy struct {
	r, w *os.File
	to   *capture
}

func newStreams(cmd *exec.Cmd, out *outcome) (*streams, error) {
	s := &streams{}
	for _, c := range []*capture{out.stdout, out.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		s.copies = append(s.copies, streamCopy{r, w, c})
	}
	cmd.Stdout, cmd.Stderr = s.copies[0].w, s.copies[1].w
	return s, nil
}

// start begins to read; the writing ends now belong to the command alone.
func (s *streams) start() {
	for _, c := range s.copies {
		_ = c.w.Close()
		s.done.Go(func() {
			buf := make([]byte, 32<<10)
			// Errors other than the end only mean that reading was given up.
			_, _ = io.CopyBuffer(struct{ io.Writer }{c.to}, struct{ io.Reader }{c.r}, buf)
			c.to.close()
		})
	}
}

// finish waits until everything written has been read. A process that could
// not be found may hold a pipe open for ever, so the wait is bounded.
func (s *streams) finish() {
	giveUp := time.AfterFunc(killWait, s.close)
	s.done.Wait()
	giveUp.Stop()
}

// close closes every end that is still open; closing wakes a blocked read.
func (s *streams) close() {
	for _, c := range s.copies {
		_ = c.r.Close()
		_ = c.w.Close()
	}
}
