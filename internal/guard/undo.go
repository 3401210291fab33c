package guard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/tool/undo"
)

// OpenUndo opens the record of file changes that belongs to a workspace, for a
// person at the command line: unlike the agent, they reach every folder except
// protected ones. The workspace must exist. Done gives everything back but the
// sessions.
func OpenUndo(o Options) (s *undo.Store, done func() error, err error) {
	p := placesOf(o)
	jail, err := diskio.OpenJail(diskio.JailOptions{
		Workspace:      o.Workspace,
		Protected:      p.deny,
		ProtectedNames: p.protectedNames(),
		ProtectedWrite: p.denyWrite,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("open the workspace: %w", err)
	}

	s, err = undo.Open(undo.Options{Dir: p.undoDir(), Jail: jail, Exclude: slices.Concat(p.deny, p.denyWrite), Log: o.Log})
	if err != nil {
		return nil, nil, errors.Join(err, jail.Close())
	}
	return s, func() error { return errors.Join(s.Close(), jail.Close()) }, nil
}
