package azure_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestTokenIsRenewedBeforeItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := noWay(t)
		n := 0
		o.Command = func(context.Context, string, ...string) ([]byte, error) {
			n++
			return fmt.Appendf(nil, `{"accessToken":"tok-%d","expires_on":%d}`, n, time.Now().Add(time.Hour).Unix()), nil
		}
		m := signer(t, o)
		for _, c := range []struct {
			wait time.Duration
			want string
		}{{0, "tok-1"}, {54 * time.Minute, "tok-1"}, {2 * time.Minute, "tok-2"}} {
			time.Sleep(c.wait)
			if got, err := sign(t, m); got != "Bearer "+c.want || err != nil {
				t.Errorf("after %s: credential %q, %v, want %s", c.wait, got, err, c.want)
			}
		}
	})
}
