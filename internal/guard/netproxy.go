package guard

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/guard/reach"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// commandProxy is the only network access of sandboxed commands. Each command has
// its own socket, which identifies the call of a connection and ends with it.
type commandProxy struct {
	options httpsafe.ProxyOptions
	policy  *reach.Policy

	mu      sync.Mutex
	proxy   *httpsafe.Proxy // nil before the first command
	dir     string          // of the sockets, mode 0700
	last    int             // number of the latest socket
	lines   map[int]func()  // ends an open socket, by number
	refused []refusal       // the latest, to be added to the results of their calls
}

// refusal is a connection that the command of a call was denied.
type refusal struct {
	call string
	why  []string
}

// maxRefusals limits the refusals that wait for a result: a command that continues
// in the background may never have one.
const maxRefusals = 64

// line is the network access of one command.
type line struct {
	socket string
	certs  string                  // a file
	used   func() httpsafe.Traffic // so far
	taint  func()                  // counts what is sent from now on
	stop   func()                  // ends all connections and waits for them
}

// attach stops a line when its command ends: after the cleanup of the sandbox, or
// at once if the command did not start.
func (l *line) attach(cleanup *func(), err *error) {
	if *err != nil || *cleanup == nil {
		l.stop()
		return
	}
	inner := *cleanup
	*cleanup = func() { inner(); l.stop() }
}

// newCommandProxy creates the proxy of a configuration. It starts with the first command.
func newCommandProxy(policy Policy, state store.Store, log *slog.Logger) *commandProxy {
	p := &commandProxy{lines: map[int]func(){}}
	p.options = httpsafe.ProxyOptions{
		Guard:    httpsafe.GuardOptions{Strict: policy.StrictAddresses},
		OwnPorts: policy.ownPorts,
		Log:      log,
	}
	for _, entry := range policy.Exec.AllowedAddresses { // what cannot be read was warned about
		if r, err := httpsafe.ParseAddressRule(entry); err == nil {
			p.options.Addresses = append(p.options.Addresses, r)
		}
	}

	p.policy = reach.New(reach.Options{
		Any:     policy.Network == sandbox.NetHost,
		Allowed: hostRules(policy.Exec.AllowedHosts),
		Keep:    policy.AllowHost,
		Sent:    state,
		Timeout: policy.ApprovalTimeout,
		Log:     log,
	})
	return p
}

// hostRules parses a list of hosts. It skips invalid entries: the configuration
// check warned about them.
func hostRules(list []string) []httpsafe.HostRule {
	var out []httpsafe.HostRule
	for _, entry := range list {
		if r, err := httpsafe.ParseHostRule(entry); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// ownPorts are the ports that a nanobot with these settings listens on, and those of
// this process.
func (p Policy) ownPorts() []uint16 {
	out := httpsafe.ListeningPorts()
	if p.Ports != nil {
		out = append(out, p.Ports()...)
	}
	return out
}

// start creates the proxy, its folder and the file of certificates if needed.
func (p *commandProxy) start() error {
	if p.proxy != nil {
		return nil
	}

	proxy, err := httpsafe.NewProxy(p.options)
	if err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "nanobot-proxy-") // 0700, and a name short enough for a socket
	if err != nil {
		return err
	}

	certs := append(systemCertificates(), proxy.Certificate()...)
	if err := os.WriteFile(filepath.Join(dir, certsName), certs, 0o600); err != nil {
		_ = os.RemoveAll(dir)
		return err
	}

	p.proxy, p.dir = proxy, dir
	return nil
}

const certsName = "certs.pem"

// systemCertificates returns the machine's certificate bundle, empty if there is none.
func systemCertificates() []byte {
	for _, name := range []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
	} {
		if data, err := os.ReadFile(name); err == nil && len(data) > 0 {
			return append(bytes.TrimRight(data, "\n"), '\n')
		}
	}
	return nil
}

// serve opens a line for the command of a call. see is told how it decides about
// connections, and may be nil.
func (p *commandProxy) serve(c tool.Call, see func(*httpsafe.Access)) (*line, error) {
	var taint func()
	access := func(ctx context.Context) (a *httpsafe.Access) {
		a, taint = p.policy.Command(ctx, c)
		if see != nil {
			see(a)
		}
		return a
	}

	l, err := p.open(access, func(t httpsafe.Traffic) {
		if len(t.Refused) > 0 {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.refused = append(p.refused, refusal{callKey(c), t.Refused})
			p.refused = p.refused[max(0, len(p.refused)-maxRefusals):]
		}
	})
	if err == nil {
		l.taint = taint
	}
	return l, err
}

// open listens for one client until the line is stopped.
func (p *commandProxy) open(access func(ctx context.Context) *httpsafe.Access, over func(httpsafe.Traffic)) (*line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if err := p.start(); err != nil {
		return nil, fmt.Errorf("proxy for commands: %w", err)
	}

	p.last++
	number := p.last
	socket := filepath.Join(p.dir, strconv.Itoa(number))
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("proxy for commands: %w", err)
	}

	ctx, cancel := context.WithCancel(context.Background()) // it serves until it is stopped
	a := access(ctx)
	proxy, done := p.proxy, make(chan struct{})
	go func() {
		defer close(done)
		_ = proxy.Serve(ctx, l, a) // ends with its context, and removes the socket
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-done
		over(a.Used())
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.lines, number)
	})

	p.lines[number] = stop
	return &line{socket: socket, certs: filepath.Join(p.dir, certsName), used: a.Used, taint: func() {}, stop: stop}, nil
}

func callKey(c tool.Call) string { return c.SessionKey + "\x00" + c.TurnID + "\x00" + c.ID }

// remark says which connections the command of a call was denied: most programs do
// not show the reason.
func (p *commandProxy) remark(c tool.Call) string {
	p.mu.Lock()
	defer p.mu.Unlock()

	var why []string
	p.refused = slices.DeleteFunc(p.refused, func(r refusal) bool {
		if r.call != callKey(c) {
			return false
		}
		why = append(why, r.why...)
		return true
	})
	if len(why) == 0 {
		return ""
	}
	return "[network: " + strings.Join(why, "; ") + "]"
}

// close ends the proxy and waits for it.
func (p *commandProxy) close() {
	p.mu.Lock()
	lines := make([]func(), 0, len(p.lines))
	for _, stop := range p.lines {
		lines = append(lines, stop)
	}

	p.mu.Unlock()
	for _, stop := range lines {
		stop()
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proxy != nil {
		p.proxy.Close()
		_ = os.RemoveAll(p.dir)
		p.proxy = nil
	}
}

// connect gives a command the network of its profile: none, or the proxy. No
// command uses the machine's own network, because local services, ours included,
// trust local clients. Without private networks, commands have no network.
func connect(box *sandbox.Box, p *sandbox.Profile, open func() (*line, error)) (*line, error) {
	off := &line{used: func() httpsafe.Traffic { return httpsafe.Traffic{} }, taint: func() {}, stop: func() {}}
	if p.Network == sandbox.NetNone || !box.Level().NetNS {
		p.Network = sandbox.NetNone
		return off, nil
	}

	l, err := open()
	if err != nil {
		return nil, err
	}

	p.Network = sandbox.NetProxy
	p.ProxySocket = l.socket
	p.ProxyCerts = l.certs
	p.Protected = append(slices.Clip(p.Protected), filepath.Dir(l.socket)) // hides the sockets of other commands
	return l, nil
}
