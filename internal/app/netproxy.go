package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// commandProxy is the only way out of a sandbox whose network is "proxy". It
// listens on a socket of its own, from the first command on.
type commandProxy struct {
	options httpsafe.ProxyOptions

	mu     sync.Mutex
	socket string
	stop   context.CancelFunc
	done   chan struct{}
}

// start makes sure that the proxy runs and returns its socket.
func (p *commandProxy) start() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.socket != "" {
		return p.socket, nil
	}
	proxy, err := httpsafe.NewProxy(p.options)
	if err != nil {
		return "", fmt.Errorf("proxy for commands: %w", err)
	}
	dir, err := os.MkdirTemp("", "nanobot-proxy-") // 0700, and a name short enough for a socket
	if err != nil {
		return "", fmt.Errorf("proxy for commands: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		_ = os.Remove(dir)
		return "", fmt.Errorf("proxy for commands: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background()) // it serves until close
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = proxy.Serve(ctx, l) // ends with its context
		_ = os.RemoveAll(dir)
	}()
	p.socket, p.stop, p.done = filepath.Join(dir, "s"), stop, done
	return p.socket, nil
}

// close ends the proxy and waits for it.
func (p *commandProxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		p.stop()
		<-p.done
		p.socket, p.stop = "", nil
	}
}
