//go:build !goolm

package matrix

import (
	"context"
	"fmt"
)

// linked says whether this program can read encrypted rooms.
const linked = false

// newCrypt says that this program was built without encryption.
func newCrypt(context.Context, *bot) (desk, error) {
	return nil, fmt.Errorf("%w: this program was built without it; use a released one, or build with: go install -tags goolm", errNoCrypt)
}
