//go:build !linux && !darwin && !windows

package terminal

import (
	"context"
	"errors"
)

// Desktop returns what shows notices on the desktop of this user.
func Desktop(func(string) string) func(ctx context.Context, n Notice) error {
	return func(context.Context, Notice) error { return errors.ErrUnsupported }
}
