package web_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// resolver answers A and AAAA queries from a table of successive answers; the
// last one repeats. It speaks DNS over an in-memory connection. nil knows no name.
func resolver(t *testing.T, names map[string][][]string) *net.Resolver {
	t.Helper()
	counts := map[string]*atomic.Int64{}
	for n := range names {
		counts[n] = &atomic.Int64{}
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		if names == nil {
			return nil, errors.New("no names in this test")
		}
		client, server := net.Pipe()
		go answerDNS(server, func(name string) []string {
			answers := names[name]
			if len(answers) == 0 {
				return nil
			}
			n := int(counts[name].Add(1)) - 1
			return answers[min(n/2, len(answers)-1)] // each lookup asks for A and AAAA
		})
		return client, nil
	}}
}

// answerDNS serves one query on a stream: 2 bytes of length, then the message.
func answerDNS(c net.Conn, lookup func(string) []string) {
	defer func() { _ = c.Close() }()
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	q := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, q); err != nil {
		return
	}
	end := 12
	var labels []string
	for q[end] != 0 {
		n := int(q[end])
		labels = append(labels, string(q[end+1:end+1+n]))
		end += n + 1
	}
	kind := binary.BigEndian.Uint16(q[end+1:])
	end += 5
	var addrs []netip.Addr
	for _, s := range lookup(strings.ToLower(strings.Join(labels, "."))) {
		a := netip.MustParseAddr(s)
		if kind == 1 && a.Is4() || kind == 28 && a.Is6() {
			addrs = append(addrs, a)
		}
	}
	out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, byte(len(addrs)), 0, 0, 0, 0}, q[12:end]...)
	for _, a := range addrs {
		raw := a.AsSlice()
		out = append(out, 0xC0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		out = append(out, raw...)
	}
	binary.BigEndian.PutUint16(size[:], uint16(len(out)))
	_, _ = c.Write(append(size[:], out...))
}
