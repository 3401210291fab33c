package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/child"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

const (
	childGreets = 30 * time.Second // until it says where it listens
	childGrace  = 3 * time.Second  // between the request to end and the kill
	childLine   = 4 << 10          // bytes of a line that is logged
)

// Program is a program of its own that a channel needs.
type Program struct {
	Name string // looked for beside this program, then on PATH
	Args []string
	Env  []string // in addition to what every program needs, such as PATH
	// Token is what the program must be shown by those who connect to it. It
	// is the first line of its input, so it is not in the list of processes.
	Token httpsafe.Secret
	// Address is where on this machine the program listens, if it was told so
	// and does not print it. It gets no token then, and its channel finds out
	// when it is ready.
	Address string
}

// Child is a program that runs as long as its channel does. It ends when its
// input ends, so it does not outlive this process, however that ends.
type Child struct {
	Address string // of this machine, where it listens

	cancel context.CancelFunc
	done   chan struct{}
	err    error // why it ended by itself; set before done is closed
}

// ErrNoProgram says that a program is not installed.
var ErrNoProgram = errors.New("the program is not installed")

// StartChild starts a program and waits until it has printed where it listens, as
// the line {"listen":"127.0.0.1:PORT"}, unless its address is known. What else
// it prints is logged, without secrets. It ends with ctx.
func StartChild(ctx context.Context, log *slog.Logger, p Program) (*Child, error) {
	path, err := findProgram(p.Name)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	c := &Child{cancel: cancel, done: make(chan struct{})}
	out := &childOutput{log: log.With("program", p.Name), token: p.Token, greeting: make(chan string, 1)}
	go c.run(ctx, path, p, out)
	if c.Address = p.Address; c.Address != "" {
		return c, nil
	}

	t := time.NewTimer(childGreets)
	defer t.Stop()
	select {
	case line := <-out.greeting:
		if c.Address, err = parseGreeting(line); err == nil {
			return c, nil
		}
		err = fmt.Errorf("%s: %w", p.Name, err)

	case <-c.done:
		if err = c.err; err == nil {
			err = ctx.Err()
		}
	case <-t.C:
		err = fmt.Errorf("%s does not say where it listens", p.Name)
	}

	c.Close()
	return nil, err
}

// Done is closed when the program has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Failed is why it ended by itself; nil: it did not.
func (c *Child) Failed() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Close ends the program and waits for its end.
func (c *Child) Close() {
	c.cancel()
	<-c.done
}

// run is the life of the program.
func (c *Child) run(ctx context.Context, path string, p Program, out *childOutput) {
	defer close(c.done)
	defer c.cancel()
	runtime.LockOSThread() // for child.DieWithUs
	defer runtime.UnlockOSThread()

	cmd := exec.Command(path, p.Args...) //nolint:gosec,noctx // a program that drivers name; it is ended below
	cmd.Env = append(childEnv(os.Environ()), p.Env...)
	cmd.Stdout = out.stream(p.Address == "")
	cmd.Stderr = out.stream(false)
	cmd.WaitDelay = childGrace // a grandchild may hold the output
	var kin child.Kin
	kin.Prepare(cmd)
	child.DieWithUs(cmd)
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}

	if err != nil {
		c.err = fmt.Errorf("start %s: %w", p.Name, err)
		return
	}

	kin.Started(cmd)
	stop := context.AfterFunc(ctx, func() {
		_ = stdin.Close()
		kin.Ask() // some do not look at their input
	})
	defer stop()
	over := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		}

		t := time.NewTimer(childGrace)
		defer t.Stop()
		select {
		case <-over:
		case <-t.C:
			kin.Kill()
		}
	})
	if p.Address == "" {
		_, _ = io.WriteString(stdin, p.Token.Reveal()+"\n") // if it does not read, it does not greet either
	}

	err = cmd.Wait()
	close(over)
	killer.Wait()
	kin.Kill() // what it left behind
	if ctx.Err() != nil {
		return
	}

	if err == nil {
		err = errors.New("exit status 0")
	}
	c.err = fmt.Errorf("%s ended: %w%s", p.Name, err, out.lastWords())
}

// HasProgram says whether a program that StartChild would start is installed.
func HasProgram(name string) error {
	_, err := findProgram(name)
	return err
}

// findProgram looks beside this program, then on PATH.
func findProgram(name string) (string, error) {
	if exe, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(exe), name)); err == nil {
			return path, nil
		}
	}

	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w: it is neither beside nanobot nor on PATH", name, ErrNoProgram)
	}
	return path, nil
}

// childEnv returns what every program needs of our environment. Keys of providers
// are not among it.
func childEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(kv), "=")
		switch name {
		case "PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "TEMP", "TMP", "SSL_CERT_FILE", "SSL_CERT_DIR",
			"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
			"SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "COMSPEC", "PATHEXT":
			return false
		}
		return !strings.HasPrefix(name, "LC_") && !strings.HasPrefix(name, "XDG_")
	})
}

func parseGreeting(line string) (string, error) {
	var g struct {
		Listen string `json:"listen"`
	}
	if json.Unmarshal([]byte(line), &g) == nil {
		if host, _, err := net.SplitHostPort(g.Listen); err == nil && httpsafe.LoopbackHost(host) {
			return g.Listen, nil
		}
	}
	return "", errors.New("its first line does not say where on this machine it listens")
}

// childOutput takes what a program prints.
type childOutput struct {
	log      *slog.Logger
	token    httpsafe.Secret
	greeting chan string // capacity 1

	mu   sync.Mutex
	last string // of its errors
}

// stream returns one of the two outputs. The first line of one that greets is the
// greeting, and its lines are not about errors.
func (o *childOutput) stream(greets bool) io.Writer {
	return &childStream{out: o, greets: greets, errors: !greets}
}

func (o *childOutput) lastWords() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == "" {
		return ""
	}
	return ": " + o.last
}

// childStream makes lines of an output.
type childStream struct {
	out            *childOutput
	greets, errors bool
	rest           []byte
	skip           bool // the rest of a line that is too long
}

// Write implements io.Writer.
func (s *childStream) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if !s.skip {
			s.rest = append(s.rest, line[:min(len(line), childLine)]...)
		}

		if len(s.rest) > childLine || whole {
			if !s.skip {
				s.line(strings.TrimSpace(string(s.rest)))
			}
			s.rest, s.skip = nil, !whole
		}
	}

	return n, nil
}

func (s *childStream) line(line string) {
	if s.greets {
		s.greets = false
		s.out.greeting <- line
		return
	}

	if line == "" {
		return
	}

	line = httpsafe.RedactSecrets(line, s.out.token)
	if s.errors {
		s.out.mu.Lock()
		s.out.last = line
		s.out.mu.Unlock()
	}

	s.out.log.Info("a program of a channel says", "line", line)
}
