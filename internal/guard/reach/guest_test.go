package reach_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/guard/reach"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// A guest reads from package hosts and reaches nothing else, whatever the
// settings open for the owner.
func TestGuestReach(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]httpsafe.Reach{
		"proxy.golang.org": httpsafe.ReachRead, "pypi.org": httpsafe.ReachRead,
		"example.com": httpsafe.ReachNone, "127.0.0.1": httpsafe.ReachNone, "169.254.169.254": httpsafe.ReachNone, "intranet": httpsafe.ReachNone,
	} {
		got, err := reach.New(reach.Options{}).Guest(t.Context(), tool.Call{}).Decide(t.Context(), httpsafe.HostRequest{Host: host, Port: 443})
		if got != want || (err == nil) != (want != httpsafe.ReachNone) {
			t.Errorf("%s: %v, %v, want %v", host, got, err, want)
		}
	}
}
