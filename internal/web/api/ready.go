package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// AskReady asks a gateway for /readyz, at its complete address, and says what
// is wrong with it.
func AskReady(ctx context.Context, address string) error {
	client, err := httpsafe.Client(httpsafe.Options{Direct: httpsafe.IsLocal(address)})
	if err != nil {
		return err
	}

	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}

	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the gateway does not answer: %w", httpsafe.WithoutURL(err))
	}

	defer resp.Body.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}

	var r Report
	var wrong []string
	if json.Unmarshal(data, &r) == nil {
		for _, check := range r.Checks {
			if !check.OK && !check.Optional {
				wrong = append(wrong, strings.TrimSpace(check.Name+" "+check.Detail))
			}
		}
	}

	if len(wrong) == 0 {
		wrong = []string{resp.Status}
	}
	return fmt.Errorf("the gateway is not ready: %s", strings.Join(wrong, "; "))
}
