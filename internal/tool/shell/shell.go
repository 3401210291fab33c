// Package shell is the exec tool and its sessions: it runs shell commands of
// the model and says what came out. It hides two things: how a command is run
// so that it cannot hang the turn, fill memory, inherit secrets or leave
// processes behind, and how its text is judged before it runs.
//
// The guard reads the parsed syntax tree, not the raw text. It prevents
// accidents (a recursive delete, a download piped into an interpreter, a path
// outside the workspace); it is not a boundary against a program that wants
// out. The boundary is the kernel sandbox, which enters through Options.Wrap.
//
// A command may go on running after its call as a session, which belongs to
// the conversation that started it; Shell holds these and ends them.
package shell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

const (
	// DefaultTimeout stops a command when neither the call nor the options say otherwise.
	DefaultTimeout = 60 * time.Second
	// NoTimeout lets a command run until the turn ends.
	NoTimeout = -1 * time.Nanosecond

	maxCommandBytes = 64 << 10
	maxOutputChars  = 10_000 // of both streams together, unless the call says otherwise
)

// Options says how commands run.
type Options struct {
	// Workspace is the directory in which commands start; absolute.
	Workspace string
	// Restrict refuses commands that name paths outside Workspace and Roots.
	Restrict bool
	// Roots are further directories that restricted commands may name (received media).
	Roots []string
	// Timeout bounds a call that names none; 0 means DefaultTimeout, NoTimeout
	// (or any negative value) no bound. A call's own timeout is at most 600 s.
	Timeout time.Duration
	// PathPrepend and PathAppend extend the search path of commands; they are
	// lists in the form of PATH.
	PathPrepend, PathAppend string
	// Programs says where commands find programs; nil is SystemPath. The agent's
	// own PATH is used if AllowedEnv names it.
	Programs Programs
	// AllowedEnv names variables of Environ that commands may see besides the
	// few harmless ones.
	AllowedEnv []string
	// Allow holds regular expressions. If there are any, a command runs only
	// if each of its simple commands is matched completely by one of them, and
	// then neither Deny nor the built-in rules are asked.
	Allow []string
	// Deny holds regular expressions that are searched in the command, in
	// addition to the built-in rules.
	Deny []string
	// Protected are files and directories that no command may name, restricted
	// or not; a leading ~ is the home directory.
	Protected []string
	// Wrap changes a command just before it starts, to put it into a sandbox.
	// The call is the one that runs it: what the command may do depends on its
	// turn. An error means that the command does not run: there is no way around
	// the sandbox. nil: no change, and everything that is printed may come from
	// outside.
	Wrap func(c tool.Call, cmd *exec.Cmd) (Confined, error)
	// Confine is used instead of Wrap for a conversation that is kept inside a
	// folder (tool.Project.Only); it confines in every mode, or gives an error.
	// nil: such conversations run no commands.
	Confine func(c tool.Call, cmd *exec.Cmd) (Confined, error)
	// Remark is asked after a command has ended what the model should know about
	// it besides its output, such as hosts that it was kept from; "" is nothing.
	// nil: there never is anything.
	Remark func(c tool.Call) string
	// Sandboxed says that Wrap makes the kernel keep commands inside the
	// workspace. Then paths are not guessed from the text any more, and HOME is
	// an empty folder that the sandbox makes.
	Sandboxed bool
	// AskRisky says that the caller asks a person about commands that Risk
	// reports, so that they are not refused here.
	AskRisky bool
	// MaxMemory bounds the memory, in bytes, that all processes of a command use
	// together, MaxDisk what a command adds to the disk; a turn may add twice as
	// much. 0 is no bound.
	MaxMemory, MaxDisk int64
	// Environ is the environment of the agent in the form of os.Environ. It is
	// the only source of variables; the process environment is never read.
	Environ []string
	Log     *slog.Logger // nil discards
}

// Programs are those that the user has.
type Programs interface {
	// Path is the search path of commands, asked when one starts.
	Path() string
	// Elsewhere says in a sentence where a program is that a command did not
	// find; "" if it is nowhere.
	Elsewhere(name string) string
}

// Confined is a command inside its sandbox.
type Confined struct {
	// Outside reports whether what the command printed so far may hold words
	// from outside. nil means that it may.
	Outside func() bool
	// Taint says that content from outside reaches the running command, such as
	// what a turn types that has seen some. May be nil.
	Taint func()
	// Freeze takes away the command's write access to everything but its private
	// temporary directory, because its turn is over. After an error the command
	// is ended. nil leaves it as it is.
	Freeze func() error
	// Brief says that Freeze never works: the command ends with its turn.
	Brief bool
	// Writes are folders that the command can write to, besides the workspace
	// and the folder it starts in: what it adds there counts.
	Writes []string
	// Release is called when the command has ended or could not be started. May
	// be nil.
	Release func()
}

func (c Confined) outside() bool { return c.Outside == nil || c.Outside() }

func (c Confined) taint() {
	if c.Taint != nil {
		c.Taint()
	}
}

// Shell is the exec tool, the tools for its sessions and the sessions
// themselves. It is safe for concurrent use.
type Shell struct {
	r        *runner
	confine  func(c tool.Call, cmd *exec.Cmd) (Confined, error)
	sessions *sessions
}

// New makes the tools. An option that cannot be used, such as a pattern Go's
// regular expressions do not support, is an error: leaving out a rule would
// run what the user meant to forbid.
func New(o Options) (*Shell, error) {
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	return &Shell{r: r, confine: o.Confine, sessions: newSessions()}, nil
}

// Tools are exec, write_stdin and list_exec_sessions.
func (s *Shell) Tools() []tool.Tool {
	return []tool.Tool{
		tool.Func(tool.Tool{Name: "exec", Trusted: true, Description: description(), Exclusive: true, Sink: tool.SinkCommand}, s.exec),
		tool.Func(tool.Tool{
			Name: "write_stdin", Description: "Type into, read from or end a command that exec left running.", Trusted: true,
			Exclusive: true, Polling: true, Sink: tool.SinkCommand,
		}, s.writeStdin),
		tool.Func(tool.Tool{
			Name: "list_exec_sessions", Description: "List commands that exec left running.", ReadOnly: true, Polling: true, Trusted: true,
		}, s.list),
	}
}

// Stop ends the sessions of one conversation, because it was told to stop or
// is over. It returns when their processes are gone, after about three seconds
// at most.
func (s *Shell) Stop(sessionKey string) {
	s.sessions.stop(func(sess *session) bool { return sess.owner == sessionKey })
}

// Busy reports whether a command of a conversation is still running as a session.
func (s *Shell) Busy(sessionKey string) bool {
	return slices.ContainsFunc(s.sessions.of(sessionKey), func(sess *session) bool {
		select {
		case <-sess.ended:
			return false
		default:
			return true
		}
	})
}

// Running has a line for each command of a conversation that runs as a session,
// for people. Without a conversation it is those of all, with their names.
func (s *Shell) Running(sessionKey string) []string {
	s.sessions.mu.Lock()
	all := slices.Clone(s.sessions.all)
	s.sessions.mu.Unlock()
	var out []string
	for _, sess := range all {
		if sess.isOver() || sessionKey != "" && sess.owner != sessionKey {
			continue
		}
		line := sess.describe()
		if sessionKey == "" {
			line = sess.owner + ": " + line
		}
		out = append(out, line)
	}

	return out
}

// StopOne ends a session by its id, of one conversation or, without one, of any.
// It reports whether there was one.
func (s *Shell) StopOne(sessionKey, id string) bool {
	found := false
	s.sessions.stop(func(sess *session) bool {
		mine := sess.id == id && (sessionKey == "" || sess.owner == sessionKey) && !sess.isOver()
		found = found || mine
		return mine
	})
	return found
}

// Close ends all sessions like Stop and accepts no new ones.
func (s *Shell) Close() error {
	s.sessions.close()
	return nil
}

// input holds what the model sends to exec.
type input struct {
	Command    string `json:"command" alias:"cmd"`
	WorkingDir string `json:"working_dir,omitempty" alias:"workdir" desc:"default: workspace"`
	Timeout    int    `json:"timeout,omitempty" min:"1" max:"600" desc:"seconds"`
	Yield      *int   `json:"yield_time_ms,omitempty" min:"0" max:"30000" desc:"return after this, leave it running"`
	PTY        bool   `json:"pty,omitempty" alias:"tty"`
	MaxChars   int    `json:"max_output_chars,omitempty" alias:"max_output_tokens" min:"1000" max:"50000" hidden:"1"`
	Shell      string `json:"shell,omitempty" hidden:"1"`
	Login      bool   `json:"login,omitempty" hidden:"1"`
}

func description() string {
	language := "bash"
	if runtime.GOOS == "windows" {
		language = "PowerShell"
	}
	return "Run a " + language + " command; returns stdout, STDERR and exit code. No stdin or state between calls; " +
		"background processes end with it: use yield_time_ms for servers, pty for REPLs. " +
		"Prefer the file tools over cat, sed, find, grep. " +
		"Destructive commands (rm -rf, find -delete, curl | sh) are refused."
}

// runner runs commands under one set of options.
type runner struct {
	workspace string
	origin    string // where commands begin, in the workspace or elsewhere
	restrict  bool
	timeout   time.Duration // <= 0: none
	guard     *guard
	env       []string
	path      func() string            // nil: it is in env
	programs  Programs                 // may be nil
	lookup    func(name string) string // in Options.Environ
	wrap      func(tool.Call, *exec.Cmd) (Confined, error)
	remark    func(tool.Call) string
	memory    int64 // bytes; 0: no bound
	disk      int64
	added     *addedByTurn
	log       *slog.Logger
}

func newRunner(o Options) (*runner, error) {
	if !filepath.IsAbs(o.Workspace) {
		return nil, fmt.Errorf("exec workspace %q: must be an absolute path", o.Workspace)
	}

	vars := environment(o.Environ)
	env, err := childEnv(o, vars)
	if err != nil {
		return nil, err
	}

	g, err := newGuard(o, home(vars))
	if err != nil {
		return nil, err
	}

	r := &runner{
		workspace: filepath.Clean(o.Workspace), restrict: o.Restrict, timeout: o.Timeout, guard: g, env: env,
		origin: filepath.Clean(o.Workspace), lookup: func(name string) string { return vars[envKey(name)] }, wrap: o.Wrap, remark: o.Remark, log: o.Log,
		memory: o.MaxMemory, disk: o.MaxDisk, added: &addedByTurn{sums: recent.New[string, int64](keptTurns)},
	}
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }) {
		r.path = func() string { return joinPath(o.PathPrepend, o.Programs.Path(), o.PathAppend) }
	}

	r.programs = o.Programs
	if r.timeout == 0 {
		r.timeout = DefaultTimeout
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

func (s *Shell) exec(ctx context.Context, c tool.Call, in input) (tool.Result, error) {
	r, err := s.of(c)
	if err != nil {
		return tool.Fail(tool.Unsupported, "%v", err), nil
	}

	l, refused := r.accept(in)
	if refused != nil {
		return tool.Fail(refused.code, "%s", refused.text()), nil
	}

	a := newAsking(ctx, &c)
	defer a.close()
	l.call, l.clock = c, &a.clock

	if in.Yield != nil || in.PTY {
		yield := defaultYield
		if in.Yield != nil {
			yield = time.Duration(*in.Yield) * time.Millisecond
		}
		return s.begin(ctx, r, c, l, yield), nil
	}

	out, err := r.run(ctx, l)
	if err != nil {
		return notStarted(err), nil
	}

	res := l.result(out)
	res.Untrusted = out.outside
	remarks := []string{r.whereIs(out.code, out.stderr)}
	if r.remark != nil {
		remarks = append(remarks, r.remark(c))
	}

	for _, text := range remarks {
		if text != "" {
			res.Content = llm.Text(res.Content.String() + "\n\n" + text)
		}
	}
	return res, nil
}

// whereIs says where a program is that a command did not find.
func (r *runner) whereIs(code int, printed *capture) string {
	const notFound = 127
	if code != notFound || r.programs == nil {
		return ""
	}
	name := missingProgram(printed.text(maxOutputChars))
	if name == "" {
		return ""
	}
	return r.programs.Elsewhere(name)
}

// result says what came out of a command that is over.
func (l launch) result(out *outcome) tool.Result {
	text := out.render(l.chars)
	var res tool.Result
	switch out.end {
	case timedOut:
		res = tool.Fail(tool.TimedOut, "the command was stopped after %v. Give a longer timeout (at most 600 s) or split the work.%s",
			l.limit, partial(text))
		res.MayHaveRun = true
	case cancelled:
		res = tool.Fail(tool.Cancelled, "the command was stopped because the turn was cancelled.%s", partial(text))
		res.MayHaveRun = true
	case exceeded:
		res = tool.Fail(tool.TooLarge, "the command was ended: %v.%s", out.over, partial(text))
		res.MayHaveRun = true
	default:
		if why := unconfined(out.stdout, out.stderr, out.code); l.sandboxed && why != "" {
			return notStarted(errors.New(why))
		}
		res = tool.Text(withCode(text, out.code))
		res.Exit = &out.code
	}

	return res
}

// unconfined returns what the helper of the sandbox says when it could not
// confine a command and so did not run it.
func unconfined(stdout, stderr *capture, code int) string {
	const failed, prefix = 126, "sandbox: "
	if code != failed || stdout.total > 0 || !strings.HasPrefix(string(stderr.head), prefix) {
		return ""
	}
	return "the " + strings.TrimSpace(string(stderr.head))
}

func notStarted(err error) tool.Result {
	switch {
	case errors.Is(err, context.Canceled):
		return tool.Fail(tool.Cancelled, "the command was not run: the turn was stopped before it began")
	case errors.Is(err, context.DeadlineExceeded):
		return tool.Fail(tool.TimedOut, "the command was not run: its time was over before it began")
	}
	return tool.Fail(tool.Internal, "the command was not run: it could not be started: %v", err)
}

func withCode(text string, code int) string {
	return strings.TrimPrefix(fmt.Sprintf("%s\n\nExit code: %d", text, code), "\n\n")
}

// accept checks what the model sent and says how to run it.
func (r *runner) accept(in input) (launch, *refusal) {
	if problem := unreadable(in.Command); problem != "" {
		return launch{}, &refusal{code: tool.InvalidArgs, why: "command " + problem}
	}

	dir, refused := r.directory(in.WorkingDir)
	if refused != nil {
		return launch{}, refused
	}

	l := launch{command: in.Command, dir: dir, env: r.env, limit: r.timeout, chars: maxOutputChars, sandboxed: r.guard.sandboxed}
	if r.path != nil {
		l.env = withVariable(l.env, "PATH", r.path())
	}

	var err error
	if l.program, l.args, err = shellFor(r.lookup, in); err != nil {
		return launch{}, &refusal{code: tool.InvalidArgs, why: err.Error()}
	}
	if refused := r.guard.check(in.Command, dir); refused != nil {
		return launch{}, refused
	}

	l.typed = r.guard.typed(in.Command)
	if in.Login && !l.sandboxed {
		// The profile that is read then may bring back the secrets that the
		// environment leaves out; that of the workspace has none of them.
		l.env = withVariable(l.env, "HOME", r.workspace)
	}

	l.pty = in.PTY
	switch {
	case in.Timeout > 0:
		l.limit = time.Duration(min(in.Timeout, 600)) * time.Second
	case in.Yield != nil || in.PTY:
		l.limit = 0 // a session ends when it is idle
	}

	if in.MaxChars > 0 {
		l.chars = in.MaxChars
	}
	return l, nil
}

func partial(text string) string {
	if text == "" {
		return " It had printed nothing."
	}
	return " Output so far:\n" + text
}

// directory resolves the working directory of a call. Links are resolved
// first, and the command starts in the resolved directory, so that what was
// checked is what is used.
func (r *runner) directory(name string) (string, *refusal) {
	dir := r.origin
	switch {
	case strings.ContainsRune(name, 0):
		return "", &refusal{code: tool.InvalidArgs, why: "working_dir contains a NUL byte"}
	case name == "":
	case name == "~" || strings.HasPrefix(name, "~/"):
		dir = filepath.Join(r.guard.home, name[1:])
	case filepath.IsAbs(name):
		dir = filepath.Clean(name)
	default:
		dir = filepath.Join(r.origin, name)
	}

	g := r.guard.withLinks()
	resolve := filepath.EvalSymlinks
	if r.restrict { // nothing outside is looked at, so no answer tells what is there
		resolve = func(dir string) (string, error) { return resolveInside(dir, g.inside) }
	}

	resolved, err := resolve(dir)
	if errors.Is(err, errOutside) {
		return "", &refusal{
			code: tool.DeniedPolicy, why: fmt.Sprintf("working_dir %q is outside the workspace", name),
			instead: "Use a directory inside " + r.workspace + ".",
		}
	}

	if err == nil && g.isProtected(resolved) {
		return "", &refusal{code: tool.DeniedPolicy, why: fmt.Sprintf("working_dir %q is protected", name)}
	}

	if err == nil {
		var st os.FileInfo
		if st, err = os.Stat(resolved); err == nil && !st.IsDir() {
			err = errors.New("it is not a directory")
		}
	}

	if err != nil {
		return "", &refusal{
			code: tool.NotFound, why: fmt.Sprintf("working_dir %q cannot be used: %v", name, err),
			instead: "Name an existing directory, or leave it out to start in the workspace.",
		}
	}
	return resolved, nil
}

// unreadable says why a command text is refused before its meaning is looked
// at: what a person approves or reads in a log must be what runs.
func unreadable(command string) string {
	switch {
	case strings.TrimSpace(command) == "":
		return "is empty"
	case len(command) > maxCommandBytes:
		return fmt.Sprintf("is %d bytes long; at most %d are accepted. Write a script with write_file and run that", len(command), maxCommandBytes)
	}

	for _, c := range command {
		switch {
		case c == 0:
			return "contains a NUL byte"
		case c == '\r':
			return "contains a carriage return; use plain newlines"
		case c == '\uFFFD':
			return "contains text that is not valid Unicode"
		case slices.Contains([]rune{0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069}, c):
			return "contains a character that changes the text direction"
		}
	}

	return ""
}
