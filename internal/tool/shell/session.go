package shell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const (
	maxSessions  = 8 // of the process
	maxPerOwner  = 4
	sessionIdle  = 30 * time.Minute // without a call that asks for it, a session ends
	sessionChars = 50_000           // kept of each stream between two calls
)

// Why a session ended although its command did not end by itself.
var (
	errTimeLimit  = errors.New("its timeout was reached")
	errIdle       = errors.New("it was idle for too long")
	errTerminated = errors.New("it was terminated")
	errStopped    = errors.New("the conversation was stopped")
	errTurnOver   = errors.New("its turn is over, and the workspace cannot be made read-only for it")
	errStillWrote = errors.New("it still wrote to the workspace after its turn")
)

// sessions holds the commands that outlive their call. Limits of time are kept
// by timers, so they hold for a session that is not looked at.
type sessions struct {
	idle time.Duration

	mu     sync.Mutex
	all    []*session // oldest first
	closed bool
}

func newSessions() *sessions { return &sessions{idle: sessionIdle} }

// session is a command that goes on running after its call. Its goroutine
// waits for the command and then closes ended.
type session struct {
	id, owner string
	project   tool.Project
	runner    *runner // whose guard judges what is typed
	launch    launch
	began     time.Time
	stop      context.CancelCauseFunc
	stdin     *os.File
	idle      *time.Timer
	ended     chan struct{}

	job *job // set before the session is handed out

	// Set before ended is closed.
	out   outcome
	cause error // nil: it ended by itself
	over  time.Time

	mu             sync.Mutex // below that of sessions
	stdout, stderr *stream
	watches        map[*watch]bool
	used           time.Time
	state
}

// state holds what has happened to a session, under its lock.
type state struct {
	stdinClosed bool
	frozen      bool // it may not write any more
	told        bool // and the model knows
}

// start begins a session. The context only lends its values: a session is not
// tied to the turn that started it.
func (s *sessions) start(turn context.Context, r *runner, c tool.Call, l launch) (*session, error) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(turn))
	release := context.CancelFunc(func() {})
	if l.limit > 0 {
		ctx, release = context.WithTimeoutCause(ctx, l.limit, errTimeLimit)
	}
	now := time.Now()
	one := &session{
		id: randomHex(6), owner: c.SessionKey, project: c.Project, runner: r, launch: l, began: now, used: now, stop: stop,
		ended: make(chan struct{}), watches: map[*watch]bool{},
	}
	one.stdout, one.stderr = &stream{of: one, buf: newCapture(sessionChars)}, &stream{of: one, buf: newCapture(sessionChars)}
	fail := func(err error) (*session, error) {
		stop(err)
		release()
		return nil, err
	}
	if err := s.admit(one); err != nil {
		return fail(err)
	}
	j, err := one.run(ctx, r)
	if err != nil {
		s.remove(one)
		close(one.ended)
		return fail(err)
	}
	one.job = j
	one.idle = time.AfterFunc(s.idle, func() { s.expire(one) })
	go func() {
		defer close(one.ended)
		defer stop(nil)
		defer release()
		if err := j.wait(ctx, &one.out); err != nil && ctx.Err() != nil {
			one.cause = context.Cause(ctx)
		}
		one.over = time.Now()
		one.closeStdin()
	}()
	return one, nil
}

// run starts the command of a session.
func (one *session) run(ctx context.Context, r *runner) (*job, error) {
	if one.launch.pty {
		j, err := r.start(ctx, one.launch, nil, one.stdout, one.stderr)
		if err == nil {
			one.stdin = j.streams.terminal
		}
		return j, err
	}
	in, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // the command has its own
	j, err := r.start(ctx, one.launch, in, one.stdout, one.stderr)
	if err != nil {
		_ = writer.Close()
	}
	one.stdin = writer
	return j, err
}

var (
	errClosed = errors.New("the agent is shutting down")
	errFull   = errors.New("too many commands are running already; end one of them with write_stdin terminate first")
)

// admit takes a place for a session. Places of commands that ended and were
// not asked for are given away, the oldest first.
func (s *sessions) admit(one *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	mine := func(o *session) bool { return o.owner == one.owner }
	anyone := func(*session) bool { return true }
	if !s.room(maxPerOwner, mine) || !s.room(maxSessions, anyone) {
		return errFull
	}
	s.all = append(s.all, one)
	return nil
}

// room makes sure that fewer than limit of the chosen sessions are held.
func (s *sessions) room(limit int, chosen func(*session) bool) bool {
	n := 0
	for _, o := range s.all {
		if chosen(o) {
			n++
		}
	}
	if n < limit {
		return true
	}
	i := slices.IndexFunc(s.all, func(o *session) bool { return chosen(o) && o.isOver() })
	if i < 0 {
		return false
	}
	s.all[i].idle.Stop()
	s.all = slices.Delete(s.all, i, i+1)
	return true
}

func (s *sessions) remove(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.all, one); i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
	if one.idle != nil {
		one.idle.Stop()
	}
}

// find looks for a session of one owner; those of others do not exist for it.
func (s *sessions) find(c tool.Call, id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.visible(c) && one.id == id {
			one.touch(s.idle)
			return one
		}
	}
	return nil
}

func (s *sessions) of(owner string) []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*session
	for _, one := range s.all {
		if one.owner == owner {
			out = append(out, one)
		}
	}
	return out
}

// turnOver freezes a command that outlives its turn, or ends it.
func (one *session) turnOver(log *slog.Logger) {
	held := one.job.held
	if one.isOver() || held.Freeze == nil {
		return
	}
	cause := errTurnOver
	if !held.Brief {
		err := held.Freeze()
		if err == nil {
			one.mu.Lock()
			one.frozen = true
			one.mu.Unlock()
			return
		}
		if errors.Is(err, sandbox.ErrWriting) {
			cause = errStillWrote
		} else if !one.isOver() {
			log.Warn("end a command whose turn is over", "command", text.Label(one.launch.command, maxListedLength), "err", err)
		}
	}
	one.stop(cause)
	<-one.ended
}

// remark says what became of the command's write access. It is said once.
func (one *session) remark() string {
	one.mu.Lock()
	defer one.mu.Unlock()
	switch {
	case one.told:
		return ""
	case one.frozen:
		one.told = true
		return "\n[The turn that started it is over, so the workspace is read-only for it. Start it again if it must write.]"
	case one.job.held.Brief:
		one.told = true
		return "\n[It will be ended when this turn ends.]"
	}
	return ""
}

// expire ends a session that was not asked for in time.
func (s *sessions) expire(one *session) {
	one.stop(errIdle)
	<-one.ended
	s.remove(one)
}

// end ends the chosen sessions and waits until they are gone.
func (s *sessions) end(chosen func(*session) bool) {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	all = slices.DeleteFunc(all, func(one *session) bool { return !chosen(one) })
	for _, one := range all {
		one.stop(errStopped)
	}
	for _, one := range all {
		<-one.ended
		s.remove(one)
	}
}

func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end(func(*session) bool { return true })
}

// visible reports whether a call may know of a session. A conversation that is
// kept inside a folder does not reach what began before it was.
func (one *session) visible(c tool.Call) bool {
	return one.owner == c.SessionKey && (!c.Project.Only || one.project == c.Project)
}

// outside reports whether what the command printed may come from outside.
func (one *session) outside() bool {
	if one.isOver() {
		return one.out.outside
	}
	return one.job.held.outside()
}

func (one *session) taint() {
	if !one.isOver() {
		one.job.held.taint()
	}
}

func (one *session) isOver() bool {
	select {
	case <-one.ended:
		return true
	default:
		return false
	}
}

func (one *session) touch(idle time.Duration) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.used = time.Now()
	if one.idle != nil {
		one.idle.Reset(idle)
	}
}

func (one *session) closeStdin() {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.launch.pty { // it is closed with the output
		_ = one.stdin.SetWriteDeadline(time.Now().Add(stdinWait))
		_, _ = one.stdin.WriteString(endOfInput) // it may have ended
		return
	}
	if !one.stdinClosed {
		one.stdinClosed = true
		_ = one.stdin.Close()
	}
}

// take hands over the output since the last call.
func (one *session) take() (stdout, stderr *capture) {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.stdout.take(), one.stderr.take()
}

// elapsed returns how long the command has been, or was, running.
func (one *session) elapsed() time.Duration {
	if one.isOver() {
		return one.over.Sub(one.began)
	}
	return time.Since(one.began)
}

// left returns how long it may still run.
func (one *session) left() string {
	if one.launch.limit <= 0 {
		return "no time limit"
	}
	return seconds(max(0, one.launch.limit-time.Since(one.began))) + " left"
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%d s", int(d.Round(time.Second)/time.Second))
}

// stream is one output stream of a session.
type stream struct {
	of   *session
	buf  *capture
	last []byte // the end of what was handed over, where an awaited text may begin
}

// maxAwaited is the longest text that can be waited for, in bytes.
const maxAwaited = 1000

// Write takes output; it never fails.
func (s *stream) Write(p []byte) (int, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	for w := range s.of.watches {
		w.see(s, p)
	}
	return s.buf.Write(p)
}

func (s *stream) close() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.buf.close()
}

func (s *stream) take() *capture {
	c := s.buf.take()
	for _, part := range [][]byte{c.head, c.tail} {
		s.last = append(s.last, part...)
	}
	s.last = slices.Clone(s.last[max(0, len(s.last)-maxAwaited):])
	return c
}

// watch waits for a text in the output, however it is cut into pieces. All
// fields but found are guarded by the session's lock.
type watch struct {
	text  string
	carry map[*stream]string // the end of what was seen, shorter than text
	hit   bool
	found chan struct{}
}

// watch begins to wait. fresh leaves out what was printed before.
func (one *session) watch(text string, fresh bool) *watch {
	w := &watch{text: text, carry: map[*stream]string{}, found: make(chan struct{})}
	one.mu.Lock()
	defer one.mu.Unlock()
	if !fresh {
		for _, s := range []*stream{one.stdout, one.stderr} {
			// What was handed over is known; only its end may begin the text.
			w.carry[s] = string(s.last[max(0, len(s.last)-(len(text)-1)):])
			w.see(s, s.buf.head)
			if s.buf.total > 2*s.buf.half {
				w.carry[s] = "" // something between the two is missing
			}
			w.see(s, s.buf.tail)
			w.see(s, s.buf.pending)
		}
	}
	one.watches[w] = true
	return w
}

func (one *session) unwatch(w *watch) {
	one.mu.Lock()
	defer one.mu.Unlock()
	delete(one.watches, w)
}

func (w *watch) see(s *stream, p []byte) {
	if w.hit || len(p) == 0 {
		return
	}
	seen := w.carry[s] + string(p)
	if strings.Contains(seen, w.text) {
		w.hit = true
		close(w.found)
		return
	}
	w.carry[s] = seen[max(0, len(seen)-(len(w.text)-1)):]
}
