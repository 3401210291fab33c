//go:build !linux

package sandbox

import (
	"context"
	"time"
)

// Run returns when the context ends: only Linux tells what is asked here.
func (w Watch) Run(ctx context.Context) *OverError {
	<-ctx.Done()
	return nil
}

// Added is unknown here.
func (w Watch) Added() int64 { return 0 }

func machineMemory() int64 { return 0 }

// PrivateDirs are the private temporary directories that commands got since.
func PrivateDirs(time.Time) []string { return nil }
