package reach

import (
	"context"

	"github.com/nanobot-go/nanobot/internal/httpsafe"
)

// Guest is what the commands of others than the owner may reach: package hosts,
// to read from them. Neither the owner's list nor an open network is for them,
// and they cannot be asked.
func Guest() *httpsafe.Access {
	return &httpsafe.Access{Decide: func(_ context.Context, r httpsafe.HostRequest) (httpsafe.Reach, error) {
		if httpsafe.PackageHost(r.Host, r.Port) {
			return httpsafe.ReachRead, nil
		}
		return httpsafe.ReachNone, &httpsafe.BlockedError{Target: r.String(), Reason: "commands of guests reach package hosts only"}
	}}
}
