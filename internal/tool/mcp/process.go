package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/nanobot-go/nanobot/internal/base/child"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// How long a server may take to end: after its input is closed, and after it
// was asked to.
const (
	inputGrace = 2 * time.Second
	endGrace   = 2 * time.Second
)

// process is a stdio server and the connection to it. Its goroutines end when
// the process and all that holds its pipes have ended, which Close brings about.
type process struct {
	cmd     *exec.Cmd
	kin     child.Kin
	stdin   io.WriteCloser
	cleanup func()
	odd     func(string)

	in     chan jsonrpc.Message // unbuffered, closed at the end of the stream: the server waits for us
	out    chan outgoing        // unbuffered: a message is being written or still with its sender
	closed chan struct{}
	once   sync.Once
	exited chan struct{} // after the process was waited for
	state  string        // how it ended; set before exited is closed
	wg     sync.WaitGroup

	unwatch func() // waits for the one who looks at its memory
	over    error  // why it was ended, set before unwatch returns
}

type outgoing struct {
	ctx  context.Context //nolint:containedctx // lives as long as the hand-over
	data []byte
	done chan error // buffered: the writer never waits
}

// wrap returns what changes the command of a server before it starts; nil:
// nothing.
func (o *Options) wrap(s Server) func(Server, *exec.Cmd) (func(), error) {
	if s.Sandbox {
		return o.Spawn
	}
	return o.Cover
}

// startProcess starts a stdio server in a process group of its own with
// exactly the environment given.
func startProcess(s Server, o *Options, stderr io.Writer, odd func(string)) (*process, error) {
	spawn := o.wrap(s)
	env := childEnv(o.Environ, s.Env)
	path, args, err := program(s.Command, s.Args, env)
	if err != nil {
		return nil, err
	}

	cmd := exec.Command(path, args...) //nolint:noctx // ended by end
	cmd.Env = env
	cmd.Dir = s.Cwd
	cmd.Stderr = stderr
	cmd.WaitDelay = endGrace // a grandchild may hold stderr
	p := &process{
		cmd: cmd, cleanup: func() {}, odd: odd,
		in: make(chan jsonrpc.Message), out: make(chan outgoing), closed: make(chan struct{}), exited: make(chan struct{}),
	}
	if s.Sandbox && spawn == nil {
		return nil, errors.New("sandbox is set for this server, but there is no sandbox on this system")
	}

	if spawn != nil {
		done, err := spawn(s, cmd)
		if err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
		if done != nil {
			p.cleanup = done
		}
	}

	p.kin.Prepare(cmd)
	if err := p.start(); err != nil {
		p.cleanup()
		return nil, err
	}

	p.watchOver(o.Memory)
	return p, nil
}

// tooMuch returns why a server was ended that used too much, else nil.
func (p *process) tooMuch() error {
	p.unwatch()
	return p.over
}

// watchOver ends a server whose processes use too much memory together.
func (p *process) watchOver(memory int64) {
	p.unwatch = func() {}
	if memory <= 0 || !child.CanSee {
		return
	}

	ctx, stop := context.WithCancel(context.Background()) // ends with the server
	var watching sync.WaitGroup
	p.unwatch = func() { stop(); watching.Wait() }
	watch := sandbox.Watch{Members: p.kin.Members, Memory: memory, Began: time.Now()}
	watching.Go(func() {
		if over := watch.Run(ctx); over != nil {
			p.over = fmt.Errorf("it was ended: %w (tools.exec.maxMemoryMB)", over)
			p.kin.KillAll()
		}
	})
}

func (p *process) start() error {
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.cmd.Args[0], err)
	}

	p.kin.Started(p.cmd)
	p.wg.Go(p.writeLoop)
	p.wg.Go(func() { p.readLoop(newLineReader(stdout, p.odd)) })
	return nil
}

// Connect implements sdk.Transport.
func (p *process) Connect(context.Context) (sdk.Connection, error) { return p, nil }

// SessionID implements sdk.Connection.
func (p *process) SessionID() string { return "" }

// Read implements sdk.Connection. Why a stream ended is told by how the process did.
func (p *process) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, ok := <-p.in:
		if !ok {
			return nil, io.EOF
		}
		return m, nil

	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.closed:
		return nil, io.EOF
	}
}

func (p *process) readLoop(lines *lineReader) {
	defer close(p.in)
	for {
		m, err := lines.next()
		if err != nil {
			return
		}

		select {
		case p.in <- m:
		case <-p.closed:
			return
		}
	}
}

// Write implements sdk.Connection. A server that does not read its input does
// not hold up a caller beyond its context.
func (p *process) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}

	o := outgoing{ctx, append(data, '\n'), make(chan error, 1)}
	select {
	case p.out <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closed:
		return io.ErrClosedPipe
	}

	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closed:
		return io.ErrClosedPipe
	}
}

func (p *process) writeLoop() {
	for {
		select {
		case o := <-p.out:
			if o.ctx.Err() != nil {
				o.done <- o.ctx.Err()
				continue
			}
			markSent(o.ctx)
			_, err := p.stdin.Write(o.data)
			o.done <- err
		case <-p.closed:
			return
		}
	}
}

// Close implements sdk.Connection. It only announces the end, because the SDK
// calls it under a lock; end does the rest.
func (p *process) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// stop ends the server: politely by closing its input, then with growing
// force, and in any case whatever else is left in its group.
func (p *process) stop() {
	_ = p.Close()
	_ = p.stdin.Close() // also frees the writer
	waited := make(chan error, 1)
	p.wg.Go(func() { waited <- p.cmd.Wait() })
	ok, err := waitFor(waited, inputGrace)
	if !ok {
		p.kin.Ask()
		if ok, err = waitFor(waited, endGrace); !ok {
			p.kin.Kill()
			err = <-waited
		}
	}

	p.kin.Kill() // children that outlived it
	p.unwatch()
	p.state = "ended"
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		p.state = err.Error()
	}
	if p.over != nil {
		p.state = p.over.Error()
	}

	close(p.exited)
	p.wg.Wait()
	p.cleanup()
}

func waitFor(ch <-chan error, d time.Duration) (ok bool, err error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case err := <-ch:
		return true, err
	case <-t.C:
		return false, nil
	}
}

// childEnv returns the whole environment of a server: a few harmless variables and
// what its configuration adds. The agent's own environment holds keys, so
// nothing else of it gets in; neither do exported shell functions.
func childEnv(environ []string, extra map[string]httpsafe.Secret) []string {
	allowed := []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
	if runtime.GOOS == "windows" {
		allowed = []string{
			"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
			"PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
		}
	}

	vars := map[string]string{}
	for _, kv := range environ {
		k, v, ok := strings.Cut(kv, "=")
		if ok && slices.Contains(allowed, envKey(k)) && !strings.HasPrefix(v, "()") {
			vars[envKey(k)] = v
		}
	}

	for k, v := range extra {
		vars[envKey(k)] = v.Reveal()
	}

	env := make([]string, 0, len(vars))
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, k+"="+vars[k])
	}
	return env
}

// envKey returns the spelling of a variable: Windows does not tell case apart.
func envKey(k string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(k)
	}
	return k
}
