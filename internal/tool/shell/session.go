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
	reported    bool // and the model knows
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
	sess := &session{
		id: randomHex(6), owner: c.SessionKey, project: c.Project, runner: r, launch: l, began: now, used: now, stop: stop,
		ended: make(chan struct{}), watches: map[*watch]bool{},
	}
	sess.stdout, sess.stderr = &stream{of: sess, buf: newCapture(sessionChars)}, &stream{of: sess, buf: newCapture(sessionChars)}
	fail := func(err error) (*session, error) {
		stop(err)
		release()
		return nil, err
	}
	if err := s.admit(sess); err != nil {
		return fail(err)
	}

	j, err := sess.run(ctx, r)
	if err != nil {
		s.remove(sess)
		close(sess.ended)
		return fail(err)
	}

	sess.job = j
	sess.idle = time.AfterFunc(s.idle, func() { s.expire(sess) })
	go func() {
		defer close(sess.ended)
		defer stop(nil)
		defer release()
		if err := j.wait(ctx, &sess.out); err != nil && ctx.Err() != nil {
			sess.cause = context.Cause(ctx)
		}
		sess.over = time.Now()
		sess.closeStdin()
	}()
	return sess, nil
}

// run starts the command of a session.
func (sess *session) run(ctx context.Context, r *runner) (*job, error) {
	if sess.launch.pty {
		j, err := r.start(ctx, sess.launch, nil, sess.stdout, sess.stderr)
		if err == nil {
			sess.stdin = j.streams.terminal
		}
		return j, err
	}

	in, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	defer in.Close() //nolint:errcheck // the command has its own
	j, err := r.start(ctx, sess.launch, in, sess.stdout, sess.stderr)
	if err != nil {
		_ = writer.Close()
	}

	sess.stdin = writer
	return j, err
}

var (
	errClosed = errors.New("the agent is shutting down")
	errFull   = errors.New("too many commands are running already; end one of them with write_stdin terminate first")
)

// admit takes a place for a session. Places of commands that ended and were
// not asked for are given away, the oldest first.
func (s *sessions) admit(sess *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed {
		return errClosed
	}

	mine := func(o *session) bool { return o.owner == sess.owner }
	anyone := func(*session) bool { return true }
	if !s.room(maxPerOwner, mine) || !s.room(maxSessions, anyone) {
		return errFull
	}

	s.all = append(s.all, sess)
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

func (s *sessions) remove(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.all, sess); i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
	if sess.idle != nil {
		sess.idle.Stop()
	}
}

// find looks for a session of one owner; those of others do not exist for it.
func (s *sessions) find(c tool.Call, id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sess := range s.all {
		if sess.visible(c) && sess.id == id {
			sess.touch(s.idle)
			return sess
		}
	}
	return nil
}

func (s *sessions) of(owner string) []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*session
	for _, sess := range s.all {
		if sess.owner == owner {
			out = append(out, sess)
		}
	}
	return out
}

// turnOver freezes a command that outlives its turn, or ends it.
func (sess *session) turnOver(log *slog.Logger) {
	held := sess.job.held
	if sess.isOver() || held.Freeze == nil {
		return
	}

	cause := errTurnOver
	if !held.Brief {
		err := held.Freeze()
		if err == nil {
			sess.mu.Lock()
			sess.frozen = true
			sess.mu.Unlock()
			return
		}

		if errors.Is(err, sandbox.ErrWriting) {
			cause = errStillWrote
		} else if !sess.isOver() {
			log.Warn("cannot end a command whose turn is over", "command", text.Label(sess.launch.command, maxListedLength), "err", err)
		}
	}

	sess.stop(cause)
	<-sess.ended
}

// remark returns what became of the command's write access. It is reported once.
func (sess *session) remark() string {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	switch {
	case sess.reported:
		return ""
	case sess.frozen:
		sess.reported = true
		return "\n[The turn that started it is over, so the workspace is read-only for it. Start it again if it must write.]"
	case sess.job.held.Brief:
		sess.reported = true
		return "\n[It will be ended when this turn ends.]"
	}

	return ""
}

// expire ends a session that was not asked for in time.
func (s *sessions) expire(sess *session) {
	sess.stop(errIdle)
	<-sess.ended
	s.remove(sess)
}

// stop ends the chosen sessions and waits until they are gone.
func (s *sessions) stop(chosen func(*session) bool) {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	all = slices.DeleteFunc(all, func(sess *session) bool { return !chosen(sess) })
	for _, sess := range all {
		sess.stop(errStopped)
	}

	for _, sess := range all {
		<-sess.ended
		s.remove(sess)
	}
}

func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop(func(*session) bool { return true })
}

// visible reports whether a call may know of a session. A conversation that is
// kept inside a folder does not reach what began before it was.
func (sess *session) visible(c tool.Call) bool {
	return sess.owner == c.SessionKey && (!c.Project.Only || sess.project == c.Project)
}

// outside reports whether what the command printed may come from outside.
func (sess *session) outside() bool {
	if sess.isOver() {
		return sess.out.outside
	}
	return sess.job.held.outside()
}

func (sess *session) taint() {
	if !sess.isOver() {
		sess.job.held.taint()
	}
}

func (sess *session) isOver() bool {
	select {
	case <-sess.ended:
		return true
	default:
		return false
	}
}

func (sess *session) touch(idle time.Duration) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.used = time.Now()
	if sess.idle != nil {
		sess.idle.Reset(idle)
	}
}

func (sess *session) closeStdin() {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.launch.pty { // it is closed with the output
		_ = sess.stdin.SetWriteDeadline(time.Now().Add(stdinWait))
		_, _ = sess.stdin.WriteString(endOfInput) // it may have ended
		return
	}

	if !sess.stdinClosed {
		sess.stdinClosed = true
		_ = sess.stdin.Close()
	}
}

// drain hands over the output since the last call.
func (sess *session) drain() (stdout, stderr *capture) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.stdout.drain(), sess.stderr.drain()
}

// elapsed returns how long the command has been, or was, running.
func (sess *session) elapsed() time.Duration {
	if sess.isOver() {
		return sess.over.Sub(sess.began)
	}
	return time.Since(sess.began)
}

// left returns how long it may still run.
func (sess *session) left() string {
	if sess.launch.limit <= 0 {
		return "no time limit"
	}
	return seconds(max(0, sess.launch.limit-time.Since(sess.began))) + " left"
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

func (s *stream) drain() *capture {
	c := s.buf.drain()
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
func (sess *session) watch(text string, fresh bool) *watch {
	w := &watch{text: text, carry: map[*stream]string{}, found: make(chan struct{})}
	sess.mu.Lock()
	defer sess.mu.Unlock()

	if !fresh {
		for _, s := range []*stream{sess.stdout, sess.stderr} {
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

	sess.watches[w] = true
	return w
}

func (sess *session) unwatch(w *watch) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	delete(sess.watches, w)
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
