package guard

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// redirected refuses a call that would write into instructions under another name,
// through a link that came from outside: whoever made the link would choose what
// the agent follows, with words that were meant for another file. Links of the
// owner's are followed.
func (t *tracker) redirected(c tool.Call, names []string) error {
	if c.Scope != "" {
		return nil
	}

	for _, name := range names {
		at := c.Project.Path(name)
		if !filepath.IsAbs(at) {
			at = filepath.Join(t.jail.Workspace(), at)
		}

		path, err := t.jail.Path(c.Project.Path(name))
		if err != nil || !t.instructs(c, path) {
			continue // the tool refuses it, or it is not followed as instructions
		}

		link, err := t.foreignLink(c, filepath.Clean(at), 0)
		if err != nil {
			return fmt.Errorf("%s was not written: where a link on the way comes from is not known: %w", name, err)
		}
		if link != "" {
			return fmt.Errorf("%s was not written: %s is a link from outside that leads to the instructions of the agent. "+
				"Name the file itself if you mean it, or remove the link", name, link)
		}
	}

	return nil
}

// instructs reports whether the agent reads a file as instructions, in the
// workspace or in the folder that a conversation was started in.
func (t *tracker) instructs(c tool.Call, path string) bool {
	path = leadsTo(path)
	return t.followed(path) || c.Project.Started && path == filepath.Join(resolved(c.Project.Dir), FolderFile)
}

// leadsTo is a path without links, also of what is not there yet.
func leadsTo(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	if path == filepath.Dir(path) {
		return path
	}
	return filepath.Join(leadsTo(filepath.Dir(path)), filepath.Base(path))
}

// maxLinks bounds the links that a path leads through, as the system does.
const maxLinks = 40

// foreignLink is the first link from outside that a path leads through, also by
// the targets of other links; "" if there is none.
func (t *tracker) foreignLink(c tool.Call, path string, depth int) (string, error) {
	parts := strings.Split(strings.TrimPrefix(path, string(filepath.Separator)), string(filepath.Separator))
	at := string(filepath.Separator)
	for i, part := range parts {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err != nil {
			return "", nil //nolint:nilerr // it is not there, so nothing leads further
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}

		if t.knows(c, at) {
			rec, err := t.recordAt(c, at)
			if err != nil {
				return "", err
			}
			if rec.Foreign(at) {
				return at, nil
			}
		}

		target, err := os.Readlink(at)
		if err != nil || depth >= maxLinks {
			return at, err
		}

		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		return t.foreignLink(c, filepath.Join(append([]string{target}, parts[i+1:]...)...), depth+1)
	}

	return "", nil
}

// knows reports whether a path lies where a record of the call can say something
// about it.
func (t *tracker) knows(c tool.Call, path string) bool {
	ws := t.jail.Workspace()
	return diskio.Within(path, ws) || diskio.Within(path, resolved(ws)) || c.Project.Dir != "" && diskio.Within(path, c.Project.Dir)
}
