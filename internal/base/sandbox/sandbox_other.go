//go:build !linux && !darwin

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

type means struct{}

func (b *Box) open(context.Context) error {
	return fmt.Errorf("there is no sandbox for commands on %s: set tools.exec.sandbox to \"none\" to run them without one", runtime.GOOS)
}

func (b *Box) canFreeze() bool { return false }

func (b *Box) wrapFreezable(*exec.Cmd, Profile) (func() error, func(), error) {
	return nil, nil, errors.ErrUnsupported
}

func (b *Box) wrap(*exec.Cmd, Profile) (func(), error) { return nil, errors.ErrUnsupported }
