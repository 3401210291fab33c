package guard

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// What commands were kept from waits for their results, and those that never
// have one do not add up.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	p := newCommandProxy(Policy{Posture: Posture{Network: sandbox.NetProxy}}, nil, nil)
	t.Cleanup(p.close)
	const calls = maxRefusals * 2
	call := func(i int) tool.Call { return tool.Call{SessionKey: "s", TurnID: "t", ID: fmt.Sprint(i)} }
	for i := range calls {
		line, err := p.serve(call(i), nil)
		if err != nil {
			t.Skip("no sockets here: ", err)
		}
		connectTo(t, line, fmt.Sprintf("refused-%d.invalid:443", i))
		line.stop()
	}
	if n := len(p.refused); n != maxRefusals {
		t.Errorf("%d refusals are kept, want %d", n, maxRefusals)
	}
	if got := p.remark(call(calls - 1)); !strings.Contains(got, fmt.Sprintf("refused-%d.invalid", calls-1)) || strings.Contains(got, fmt.Sprintf("refused-%d.invalid", calls-2)) {
		t.Errorf("the latest, and no other: %q", got)
	}
	if got := p.remark(call(calls - 1)); got != "" {
		t.Errorf("twice: %q", got)
	}
	if got := p.remark(call(0)); got != "" {
		t.Errorf("the oldest: %q", got)
	}
}

// connectTo asks for a tunnel and returns the beginning of the answer.
func connectTo(t *testing.T, l *line, address string) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", l.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", address)
	head, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return head
}

// The result of a command names a few of the hosts it was kept from, however
// many it tries.
func TestRemarkIsShort(t *testing.T) {
	t.Parallel()
	p := newCommandProxy(Policy{}, nil, nil)
	t.Cleanup(p.close)
	c := tool.Call{SessionKey: "s", TurnID: "t", ID: "1"}
	line, err := p.serve(c, nil)
	if err != nil {
		t.Skip("no sockets here: ", err)
	}
	for i := range 40 {
		connectTo(t, line, fmt.Sprintf("refused-%d.invalid:443", i))
	}
	line.stop()
	if got := p.remark(c); !strings.Contains(got, "refused-0.invalid") || strings.Contains(got, "refused-39.invalid") || len(got) > 4<<10 {
		t.Errorf("the remark has %d bytes: %q", len(got), got)
	}
}

// The ports that a nanobot with these settings listens on are ours, also those of
// another process: no list opens them.
func TestOwnPortsAreClosed(t *testing.T) {
	t.Parallel()
	// Nothing listens on these, so that a port that is open gives another error.
	ports := map[string]int{"ours": 2, "of nothing": 6}
	var open []string
	for _, n := range ports {
		open = append(open, fmt.Sprintf("127.0.0.1:%d", n))
	}
	p := newCommandProxy(Policy{
		Posture: Posture{Network: sandbox.NetProxy},
		Exec:    Exec{AllowedHosts: open, AllowedAddresses: open},
		Ports:   func() []uint16 { return []uint16{2} },
	}, nil, nil)
	t.Cleanup(p.close)
	line, err := p.serve(tool.Call{SessionKey: "s", TurnID: "t", ID: "1"}, nil)
	if err != nil {
		t.Skip("no sockets here: ", err)
	}
	defer line.stop()
	for name, n := range ports {
		got := connectTo(t, line, fmt.Sprintf("127.0.0.1:%d", n))
		if strings.Contains(got, "commands do not reach nanobot itself") == (name == "of nothing") {
			t.Errorf("port %s: %q", name, got)
		}
	}
}
