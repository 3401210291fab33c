package guard

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// What commands were kept from waits for their results, and those that never
// have one do not add up.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	l := &config.Loaded{Config: config.Default(), DataDir: t.TempDir()}
	l.Config.Tools.Exec.Network = "proxy"
	p := newCommandProxy(l, nil)
	t.Cleanup(p.close)
	const calls = maxRefusals * 2
	call := func(i int) tool.Call { return tool.Call{SessionKey: "s", TurnID: "t", ID: fmt.Sprint(i)} }
	for i := range calls {
		line, err := p.serve(call(i))
		if err != nil {
			t.Skip("no sockets here: ", err)
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", line.socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "CONNECT refused-%d.invalid:443 HTTP/1.1\r\nHost: refused-%d.invalid:443\r\n\r\n", i, i)
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 12)) // the answer is a refusal
		_ = conn.Close()
		line.stop()
	}
	if n := len(p.refused); n != maxRefusals {
		t.Errorf("%d refusals are kept, want %d", n, maxRefusals)
	}
	if got := p.remark(call(calls - 1)); !strings.Contains(got, fmt.Sprintf("refused-%d.invalid", calls-1)) {
		t.Errorf("the latest: %q", got)
	}
	if got := p.remark(call(calls - 1)); got != "" {
		t.Errorf("twice: %q", got)
	}
	if got := p.remark(call(0)); got != "" {
		t.Errorf("the oldest: %q", got)
	}
}
