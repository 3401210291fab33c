package httpsafe

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ParseProxy reads the address of a proxy. Its errors do not show it, because
// it may hold a password.
func ParseProxy(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("proxy is not a URL with a host")
	}
	switch u.Scheme {
	case "http", "https", "socks5", "socks5h":
		return u, nil
	}
	return nil, errors.New("proxy must be an http, https or socks5 URL")
}

// Tunnel connects to a target, a host with its port, through a proxy: http and
// https ones by CONNECT, socks5 ones by SOCKS 5. The proxy looks up the name of
// the target, except a socks5 one, for which it is looked up here (socks5h
// leaves it to the proxy).
func Tunnel(ctx context.Context, via *url.URL, target string) (net.Conn, error) {
	port := via.Port()
	if port == "" {
		if port = defaultPort(via.Scheme); via.Scheme == "socks5" || via.Scheme == "socks5h" {
			port = "1080"
		}
	}

	d := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(via.Hostname(), port))
	if err != nil {
		return nil, err
	}

	if via.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: via.Hostname(), MinVersion: tls.VersionTLS12})
	}

	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	_ = conn.SetDeadline(time.Now().Add(proxyHeaderTime))
	open := conn
	switch via.Scheme {
	case "socks5", "socks5h":
		err = socks(ctx, conn, via, target)
	default:
		open, err = connectThrough(conn, via, target)
	}

	if !stop() && err == nil {
		err = ctx.Err()
	}

	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}

	_ = conn.SetDeadline(time.Time{})
	return open, nil
}

// connectThrough asks an HTTP proxy for the tunnel.
func connectThrough(conn net.Conn, via *url.URL, target string) (net.Conn, error) {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if via.User != nil {
		password, _ := via.User.Password()
		req.SetBasicAuth(via.User.Username(), password)
		req.Header["Proxy-Authorization"] = req.Header["Authorization"]
		req.Header.Del("Authorization")
	}

	if err := req.Write(conn); err != nil {
		return nil, err
	}

	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req) //nolint:bodyclose // the answer to CONNECT has none; what follows is the tunnel
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("proxy answered %d", resp.StatusCode)
	}
	if r.Buffered() > 0 { // the other end spoke first, as mail servers do
		return &begun{conn, r}, nil
	}
	return conn, nil
}

// begun is a connection of which some was read already.
type begun struct {
	net.Conn
	r io.Reader
}

// Read implements io.Reader.
func (b *begun) Read(p []byte) (int, error) { return b.r.Read(p) }

// The words of SOCKS 5 (RFC 1928, RFC 1929).
const (
	socksVersion  = 5
	socksOpen     = 0 // no proof is needed
	socksPassword = 2
	socksRefuse   = 0xff
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
)

// socks asks a SOCKS 5 proxy for the tunnel.
func socks(ctx context.Context, conn net.Conn, via *url.URL, target string) error {
	address, err := socksAddress(ctx, target, via.Scheme == "socks5h")
	if err != nil {
		return err
	}

	hello := []byte{socksVersion, 1, socksOpen}
	if via.User != nil {
		hello = []byte{socksVersion, 2, socksOpen, socksPassword}
	}

	if _, err := conn.Write(hello); err != nil {
		return err
	}

	var answer [4]byte
	if _, err := io.ReadFull(conn, answer[:2]); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}

	switch {
	case answer[0] != socksVersion:
		return errors.New("proxy does not speak SOCKS 5")
	case answer[1] == socksPassword && via.User != nil:
		if err := socksLogin(conn, via.User); err != nil {
			return err
		}
	case answer[1] == socksRefuse || answer[1] != socksOpen:
		return errors.New("proxy wants another proof than a name and a password")
	}

	if _, err := conn.Write(append([]byte{socksVersion, socksConnect, 0}, address...)); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if answer[1] != 0 {
		return fmt.Errorf("proxy cannot reach it (SOCKS code %d)", answer[1])
	}
	return socksSkip(conn, answer[3])
}

// socksSkip reads the address from which the proxy connected, byte by byte: what
// follows belongs to the tunnel.
func socksSkip(conn net.Conn, kind byte) error {
	var n int
	switch kind {
	case socksIPv4:
		n = net.IPv4len
	case socksIPv6:
		n = net.IPv6len
	case socksName:
		var size [1]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return fmt.Errorf("proxy: %w", err)
		}
		n = int(size[0])

	default:
		return errors.New("proxy answers in a way that is not known")
	}

	if _, err := io.ReadFull(conn, make([]byte, n+2)); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

func socksLogin(conn net.Conn, who *url.Userinfo) error {
	password, _ := who.Password()
	name := who.Username()
	if len(name) == 0 || len(name) > 255 || len(password) > 255 {
		return errors.New("proxy: the name and the password must have 1 to 255 characters")
	}

	msg := append([]byte{1, byte(len(name))}, name...)          //nolint:gosec // checked above
	msg = append(append(msg, byte(len(password))), password...) //nolint:gosec // checked above
	if _, err := conn.Write(msg); err != nil {
		return err
	}

	var answer [2]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if answer[1] != 0 {
		return errors.New("proxy refuses the name or the password")
	}
	return nil
}

// socksAddress returns a target as SOCKS 5 writes it.
func socksAddress(ctx context.Context, target string, byName bool) ([]byte, error) {
	host, service, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}

	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q is not a port", service)
	}

	ip := net.ParseIP(host)
	if ip == nil && !byName {
		list, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		ip = list[0]
	}

	var out []byte
	switch v4 := ip.To4(); {
	case v4 != nil:
		out = append([]byte{socksIPv4}, v4...)
	case ip != nil:
		out = append([]byte{socksIPv6}, ip.To16()...)
	case len(host) > 255:
		return nil, errors.New("the name of the host is too long")
	default:
		out = append([]byte{socksName, byte(len(host))}, host...) //nolint:gosec // checked above
	}

	return binary.BigEndian.AppendUint16(out, uint16(port)), nil
}
