package shell_test

import (
	"context"
	"net"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
)

// startProxy serves the filtering proxy for the network "proxy".
func (a *adversary) startProxy(ctx context.Context) (stop func(), err error) {
	if a.Network != sandbox.NetProxy {
		return func() {}, nil
	}
	proxy, err := httpsafe.NewProxy(httpsafe.ProxyOptions{})
	if err != nil {
		return nil, err
	}
	a.proxy = filepath.Join(a.Base, "proxy")
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", a.proxy)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	anywhere := func(context.Context, httpsafe.HostRequest) (httpsafe.Reach, error) { return httpsafe.ReachFull, nil }
	go func() { done <- proxy.Serve(ctx, l, &httpsafe.Access{Decide: anywhere}) }()
	return func() {
		cancel()
		<-done
	}, nil
}
