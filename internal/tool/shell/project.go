package shell

import (
	"errors"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/tool"
)

// of returns the runner of a call: that of the workspace, one that starts in the
// folder of the conversation, or one that is kept inside it.
func (s *Shell) of(c tool.Call) (*runner, error) {
	if c.Project.Dir == "" {
		return s.r, nil
	}

	r := *s.r
	r.origin = c.Project.Dir
	switch {
	case c.Project.Only:
	case c.Project.Started && s.confine != nil:
		if !r.guard.sandboxed { // confine does what wrap does, too
			g := *r.guard
			g.workspace, g.roots = c.Project.Dir, append(slices.Clip(g.roots), g.workspace)
			r.guard, r.wrap = &g, s.confine
			return &r, nil
		}

	default:
		return &r, nil
	}

	if s.confine == nil {
		return nil, errors.New("commands are not run in a chat that is kept inside a folder: nothing here could keep them there")
	}

	g := *r.guard
	g.workspace = c.Project.Dir
	g.roots = nil
	g.restrict = true
	g.sandboxed = true
	r.workspace = c.Project.Dir
	r.restrict = true
	r.guard = &g
	r.env = slices.DeleteFunc(slices.Clone(r.env), func(kv string) bool { return strings.HasPrefix(kv, "HOME=") })
	r.wrap = s.confine
	return &r, nil
}
