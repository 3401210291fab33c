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

	"github.com/nanobot-go/nanobot/internal/tool"
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

// launch is an accepted command.
type launch struct {
	command string // as the model wrote it
	program string
	args    []string
	dir     string
	env     []string
	limit   time.Duration // <= 0: none
	chars   int           // of output that the call returns
	typed   bool          // a shell in it reads commands from standard input
	pty     bool          // it has a terminal
	call    tool.Call     // that runs it
	clock   *clock        // of limit; nil: it does not stand still

	sandboxed bool
}

// run executes a command and waits for its end. The error says that it did not start.
func (r *runner) run(turn context.Context, l launch) (*outcome, error) {
	ctx, cancel := l.bounded(turn)
	defer cancel()
	out := &outcome{stdout: newCapture(l.chars), stderr: newCapture(l.chars)}
	shown := &live{ctx: turn, call: l.call}
	defer shown.close()
	j, err := r.start(ctx, l, nil, liveSink{out.stdout, shown}, liveSink{out.stderr, shown})
	if err != nil {
		return nil, err
	}

	err = j.wait(ctx, out)
	switch {
	case out.over != nil:
		out.end = exceeded
	case err == nil && ctx.Err() == nil:
	case turn.Err() != nil:
		out.end = cancelled
	case ctx.Err() != nil && err != nil:
		out.end = timedOut
	}

	return out, nil
}

func (l launch) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.limit <= 0 {
		return context.WithCancel(ctx)
	}
	if l.clock == nil {
		return context.WithTimeout(ctx, l.limit)
	}

	ctx, cancel := context.WithCancelCause(ctx)
	l.clock.start(l.limit, func() { cancel(errTimeLimit) })
	return ctx, func() {
		l.clock.stop()
		cancel(nil)
	}
}

// job is a running command.
type job struct {
	cmd     *exec.Cmd
	kin     *kin
	streams *streams
	held    Confined
	watch   *lookout // nil: nothing is bounded
	r       *runner
}

// start starts a command that ends with ctx. Without stdin it reads from the
// null device, or from its terminal. After a nil error wait must be called.
func (r *runner) start(ctx context.Context, l launch, stdin *os.File, stdout, stderr sink) (*job, error) {
	mark := r.newMark()
	cmd := exec.CommandContext(ctx, l.program, l.args...) //nolint:gosec // what the tool is for; the guard has seen it
	cmd.Dir = l.dir
	cmd.Env = append(slices.Clone(l.env), markVariable+"="+mark)
	if !r.guard.sandboxed { // the sandbox sets its own limits
		boundFiles(cmd, r.disk)
	}
	if stdin != nil {
		cmd.Stdin = stdin
	}

	var st *streams
	var err error
	if l.pty {
		st, err = newTerminalStreams(cmd, stdout)
	} else {
		st, err = newStreams(cmd, stdout, stderr)
	}

	if err != nil {
		return nil, err
	}

	j := &job{cmd: cmd, kin: newKin(mark), streams: st, r: r}
	j.kin.prepare(cmd, l.pty)
	cmd.Cancel = func() error { return j.kin.ask(cmd) }
	cmd.WaitDelay = grace // then the shell itself is killed; kin.end sees to the rest

	if r.wrap != nil {
		if j.held, err = r.wrap(l.call, cmd); err != nil {
			j.release()
			return nil, err
		}
	}

	if err := cmd.Start(); err != nil {
		j.release()
		return nil, startError(err)
	}

	j.kin.started(cmd)
	j.watch = r.watchOver(j.kin, l, j.held.Writes) // it ends with the command
	st.start()
	return j, nil
}

// wait waits for the end of a command and ends what it left behind. It fills
// in everything of the outcome but its end, and returns the error of the shell.
func (j *job) wait(ctx context.Context, out *outcome) error {
	defer j.release()
	err := j.cmd.Wait()
	out.code = j.cmd.ProcessState.ExitCode()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		out.code = exitCode(exit)
	}

	out.over = j.watch.close(out.code)
	stopped, left := j.kin.stop()
	if !j.r.guard.sandboxed { // there it may have been a process of the sandbox itself
		out.stopped = stopped
	}
	if left > 0 {
		j.r.log.WarnContext(ctx, "processes of a command survived being killed", "count", left)
	}

	j.streams.drain()
	out.outside = j.held.outside()
	return err
}

func (j *job) release() {
	j.streams.close()
	if j.held.Release != nil {
		j.held.Release()
	}
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
	mark := randomHex(8)
	if outer := r.lookup(markVariable); outer != "" {
		mark = outer + "." + mark
	}
	return mark
}

func randomHex(bytes int) string {
	id := make([]byte, bytes)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// sink takes one stream of a command; close says that nothing more comes.
type sink interface {
	io.Writer
	close()
}

// streams copies the output of a command into its sinks.
type streams struct {
	copies   []streamCopy
	terminal *os.File // our end, which takes what is typed; nil without
	done     sync.WaitGroup
}

type streamCopy struct {
	r, w *os.File
	to   sink
}

// newStreams makes pipes of our own, because the end of the shell, not the last
// holder of a pipe, ends the call.
func newStreams(cmd *exec.Cmd, stdout, stderr sink) (*streams, error) {
	s := &streams{}
	for _, c := range []sink{stdout, stderr} {
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

// drain waits until everything written has been read. A process that could
// not be found may hold a pipe open for ever, so the wait is bounded.
func (s *streams) drain() {
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
