package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/sandbox"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// lazyBox opens a sandbox with the first command.
func lazyBox(mode sandbox.Mode, log *slog.Logger) func(ctx context.Context) (*sandbox.Box, error) {
	var once sync.Once
	var box *sandbox.Box
	var err error
	return func(ctx context.Context) (*sandbox.Box, error) {
		once.Do(func() { box, err = sandbox.Open(ctx, sandbox.Options{Mode: mode, Log: log}) })
		return box, err
	}
}

// confineTo puts the commands of a conversation that is kept inside a folder
// into a sandbox, also where other commands run without one.
func (s *safety) confineTo(a *App, c tool.Call, cmd *exec.Cmd) (shell.Confined, error) {
	box, err := s.strict(context.Background()) // as in confine
	if err != nil {
		return shell.Confined{}, fmt.Errorf("this chat is kept inside the folder %s, and nothing here can keep commands there: %w", c.Project.Dir, err)
	}
	p, err := s.only(a, box, c)
	if err != nil {
		return shell.Confined{}, err
	}
	return s.enclose(c, cmd, enclosure{box: box, profile: p, folder: c.Project.Dir})
}

// only is the profile of a command that is kept inside a folder. What the
// settings open for commands can be read, unless it is of the workspace.
func (s *safety) only(a *App, box *sandbox.Box, c tool.Call) (sandbox.Profile, error) {
	dir, cfg := c.Project.Dir, a.Config.Config.Tools.Exec
	if err := s.mounted(box); err != nil {
		return sandbox.Profile{}, err
	}
	spaces := []string{a.Workspace, a.houseScope().Path}
	p := sandbox.Profile{Workspace: dir, Exact: true, Protected: s.closed(), Network: s.Network, Limits: s.limits(cfg)}
	for _, path := range slices.Concat(cfg.SandboxROBinds, cfg.SandboxRWBinds) {
		target, err := filepath.EvalSymlinks(path)
		if err == nil && !slices.ContainsFunc(spaces, func(ws string) bool { return diskio.Within(target, ws) || diskio.Within(ws, target) }) {
			p.ReadOnly = append(p.ReadOnly, target)
		}
	}
	for _, path := range s.fixed {
		if path = resolved(path); diskio.Within(path, dir) {
			p.ReadOnly = append(p.ReadOnly, path)
		}
	}
	for _, name := range besides(c) {
		if path := filepath.Join(spaces[1], name); !diskio.Within(path, dir) {
			p.ReadOnly = append(p.ReadOnly, path)
		}
	}
	if runtime.GOOS == "linux" && !box.Level().MountNS && slices.ContainsFunc(p.Protected, func(path string) bool { return diskio.Within(path, dir) }) {
		return p, errors.New("commands do not run in this chat: the sandbox of this machine cannot hide the protected files that are in its folder")
	}
	return p, nil
}
