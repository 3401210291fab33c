package bedrock

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Credentials are replaced five minutes before their end; if that fails, the
// old ones serve as long as they can.
func TestCredentialsAreRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, down := 0, false
		k := ring(t, ringOptions{
			env: map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"},
			trip: func(r *http.Request) (*http.Response, error) {
				if down {
					return nobody(r)
				}
				n++
				return answering(200, fmt.Sprintf(`{"AccessKeyId":"K%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`,
					n, time.Now().Add(time.Hour).Format(time.RFC3339))), nil
			},
		})
		expect := func(want string) {
			t.Helper()
			c, err := k.get(t.Context())
			got := c.id
			if err != nil {
				got = "error"
			}
			if got != want {
				t.Errorf("after %d fetches: %s (%v), want %s", n, got, err, want)
			}
		}
		expect("K1")
		time.Sleep(54 * time.Minute)
		expect("K1")
		time.Sleep(2 * time.Minute)
		expect("K2")
		down = true
		time.Sleep(58 * time.Minute)
		expect("K2")
		time.Sleep(3 * time.Minute)
		expect("error")
		down = false
		expect("K3")
	})
}
