package httpsafe

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Local returns a client that talks to one socket on this machine, whatever host a
// URL names.
func Local(socket string, timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return DialLocal(ctx, socket)
		},
		DisableKeepAlives: true,
	}}
}

// LoopbackHost reports whether a host to listen on is reached from this machine
// only.
func LoopbackHost(host string) bool {
	if host == "" || strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}
