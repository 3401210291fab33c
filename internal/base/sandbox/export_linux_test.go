package sandbox

import (
	"context"
	"log/slog"
	"os"
)

// OpenPlain opens a box as on a machine that allows no namespaces and whose
// Landlock has the given version.
func OpenPlain(ctx context.Context, abi int) (*Box, error) {
	b := &Box{o: Options{Mode: Landlock, Self: runningProgram, TempDir: os.TempDir(), Log: slog.New(slog.DiscardHandler)}}
	return b, b.openLandlock(ctx, abi, []means{{}})
}

// OpenRoot opens a box as root does where user namespaces are switched off.
func OpenRoot(ctx context.Context) (*Box, error) {
	b := &Box{o: Options{Mode: Landlock, Self: runningProgram, TempDir: os.TempDir(), Log: slog.New(slog.DiscardHandler)}}
	err := b.openLandlock(ctx, landlockABI(), []means{{spaces: allSpaces | 0x40000000, pidMax: countsPerSpace()}})
	b.level.Freeze = b.canFreeze()
	return b, err
}

// LandlockABI is the version of the machine.
func LandlockABI() int { return landlockABI() }

// ErrCannotFreeze is errCannotFreeze.
var ErrCannotFreeze = errCannotFreeze
