package mcp

import (
	"os/exec"
	"strings"
	"testing"
)

// A server whose processes use too much memory together is ended, with the reason,
// and started again.
func TestServerMemoryIsBoundedAsASum(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	r := start(t, func(o *Options, _ *timing) { o.Memory = 150 << 20 }, stdioServer(t, "srv", "plain", nil))
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"a"}`); res.IsError {
		t.Fatalf("before: %q", res.Content.String())
	}
	if res := r.run(t.Context(), "mcp_srv_hog", `{}`); !res.IsError {
		t.Errorf("the call went on: %q", res.Content.String())
	}
	if res := r.run(t.Context(), "mcp_srv_echo", `{"text":"back"}`); res.Content.String() != "you said back" {
		t.Errorf("after the restart: %q", res.Content.String())
	}
	if log := r.log.String(); !strings.Contains(log, "tools.exec.maxMemoryMB") || !strings.Contains(log, "of memory; the limit is 150 MiB") {
		t.Errorf("the log does not say why: %s", log)
	}
}
