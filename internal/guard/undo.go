package guard

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/sandbox"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// OpenUndo opens the record of file changes that belongs to a workspace, for a
// person at the command line: unlike the agent, they reach every folder except
// protected ones. The workspace must exist. Done gives everything back but the
// sessions.
func OpenUndo(o Options) (r *change.Record, done func() error, err error) {
	p := placesOf(o)
	rules := p.rules()
	rules.Workspace = o.Workspace
	jail, err := diskio.OpenJail(rules)
	if err != nil {
		return nil, nil, fmt.Errorf("open the workspace: %w", err)
	}

	r, err = openChanges(p, jail, originsOf(o.Policy.DataDir, o.Workspace, p.id, o.Log), nil, o)
	if err != nil {
		return nil, nil, errors.Join(err, jail.Close())
	}
	return r, func() error { return errors.Join(r.Close(), jail.Close()) }, nil
}

// rules returns what no jail of the owner's gives out.
func (p *places) rules() diskio.JailOptions {
	return diskio.JailOptions{
		Protected:      p.deny,
		ProtectedNames: p.protectedNames(),
		ProtectedWrite: p.denyWrite,
	}
}

// openChanges opens the record of the owner's changes.
func openChanges(p *places, jail *diskio.Jail, origins *origins, busy func(string) bool, o Options) (*change.Record, error) {
	rules := p.rules()
	if o.Folder != "" {
		rules.Also = []string{resolved(o.Folder)}
	}
	return change.Open(change.Options{
		Dir:     p.undoDir(),
		Jail:    jail,
		Rules:   rules,
		Exclude: slices.Concat(p.deny, p.denyWrite),
		Origin:  origins.of,
		Busy:    busy,
		Log:     o.Log,
	})
}

// writable are the folders of the owner that a command of a call can write to;
// none means only the workspace, or the folders of a guest.
func (f *confiner) writable(c tool.Call) []string {
	dir := c.Project.Dir
	home, err := os.UserHomeDir()
	switch {
	case c.Scope != "" || dir == "":
		return nil
	case c.Project.Only:
		return []string{dir}
	case f.policy.Sandbox == sandbox.None:
		return []string{f.places.workspace, dir}
	case !c.Project.Started:
		return nil
	case err == nil && diskio.Within(resolved(home), dir): // see confineHome
		return nil
	}

	return []string{dir}
}

// prepare makes the folders of the workspace that the sandbox needs for a command,
// before it is looked at what the command changes there.
func (f *confiner) prepare(writable []string) {
	inside := func(dir string) bool { return diskio.Within(dir, resolved(f.places.workspace)) }
	if f.policy.Sandbox != sandbox.None && (len(writable) == 0 || slices.ContainsFunc(writable, inside)) {
		f.seal.followed(f.places.workspace)
	}
}
