package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/prompt"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

// bootstrap names the templates a workspace starts with.
func bootstrap() []string {
	return []string{"AGENTS.md", "SOUL.md", "USER.md", "TOOLS.md", "HEARTBEAT.md", "memory/MEMORY.md"}
}

// withheld stands for a template that was not written, in the place of its hash.
const withheld = ""

// prepareWorkspace makes the workspace and writes the templates it does not
// have yet. A file the user deleted is not written again: the data folder
// remembers what was given once. A folder with a project of the user gets none.
func (a *App) prepareWorkspace() error {
	_, left, err := syncTemplates(a.Config.DataDir, a.Workspace, false)
	a.Notes = append(a.Notes, left...)
	return err
}

// SyncTemplates writes missing templates into a workspace, never over an
// existing file, and returns the names it wrote. The user asked for them.
func SyncTemplates(l *config.Loaded, workspace string) ([]string, error) {
	written, _, err := syncTemplates(l.DataDir, workspace, true)
	return written, err
}

// syncTemplates also returns what could not be written, for the user.
func syncTemplates(data, workspace string, asked bool) (written, left []string, err error) {
	if err := diskio.MkdirAll(workspace, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the workspace: %w", err)
	}

	w, err := session.Identify(disk.Open(data, nil), data, workspace)
	if err != nil {
		return nil, nil, fmt.Errorf("look up the workspace: %w", err)
	}

	given := w.Entry.Templates
	wasWithheld := slices.Contains(slices.Collect(maps.Values(given)), withheld)
	if len(given) >= len(bootstrap()) && (!asked || !wasWithheld) {
		return nil, w.Notes, nil
	}

	err = w.Update(func(r *session.Entry) error {
		if r.Templates == nil {
			r.Templates = map[string]string{}
		}

		// Versions before have given them all, and remembered it in the workspace.
		known := r.Seen.IsZero() && len(r.Templates) == 0
		switch {
		case asked:
			maps.DeleteFunc(r.Templates, func(_, sum string) bool { return sum == withheld })
		case len(r.Templates) == 0 && !known && isProject(w.Path):
			for _, name := range bootstrap() {
				r.Templates[name] = withheld
			}
			return nil
		}

		written, left, err = giveTemplates(w, r.Templates, known)
		return err
	})
	return written, append(w.Notes, left...), err
}

// isProject reports whether a folder has files and none that only a workspace has:
// it is a project of the user, for which -w was given.
func isProject(folder string) bool {
	tree, err := diskio.OpenTree(folder)
	if err != nil {
		return false
	}

	defer tree.Close() //nolint:errcheck // only read

	for _, name := range []string{"SOUL.md", "USER.md", "HEARTBEAT.md", "memory/MEMORY.md", "sessions", ".nanobot"} {
		if _, err := tree.Lstat(name); err == nil {
			return false
		}
	}

	entries, err := tree.ReadDir(".")
	return err == nil && len(entries) > 0
}

// giveTemplates writes the templates that are not in given, and notes them there.
func giveTemplates(w *session.Workspace, given map[string]string, known bool) (written, left []string, err error) {
	tree, err := diskio.OpenTree(w.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("make the workspace: %w", err)
	}

	defer tree.Close() //nolint:errcheck // nothing is pending
	files := templateFiles(w)

	for _, name := range bootstrap() {
		body, err := fs.ReadFile(prompt.Templates(), name)
		if err != nil {
			return written, left, err
		}
		if _, done := given[name]; done {
			continue
		}

		sum := sha256.Sum256(body)
		given[name] = hex.EncodeToString(sum[:8])
		if known {
			continue
		}

		ok, err := files.Create(name, body)
		switch {
		case passes(err):
			left = append(left, fmt.Sprintf("%s was not written: %v", name, err))
		case err != nil:
			return written, left, fmt.Errorf("write %s: %w", name, err)
		case ok:
			written = append(written, name)
		}
	}

	if known {
		return written, left, nil
	}
	if err := tree.MkdirAll("skills", 0o700); err != nil && !passes(err) {
		return written, left, fmt.Errorf("make the workspace: %w", err)
	}
	if _, err := files.Create("memory/history.jsonl", nil); err != nil && !passes(err) {
		return written, left, err
	}
	return written, left, nil
}

// templateFiles writes the templates of a workspace. A record of origin that cannot
// be read does not keep the program from starting: they are written all the same,
// and count as from outside until it can.
func templateFiles(w *session.Workspace) *change.Writer {
	record, err := guard.OpenOrigins(w.Data, w.Path, w.ID, "", nil)
	if err != nil || record.Readable() != nil {
		return change.NewWriter(w.Path, nil)
	}
	return change.NewWriter(w.Path, func() (*origin.Store, error) { return record, nil })
}

// passes reports that something in the workspace is not what it should be,
// which is no reason not to start.
func passes(err error) bool {
	return errors.Is(err, diskio.ErrLink) || errors.Is(err, diskio.ErrNotRegular) || errors.Is(err, diskio.ErrChanged)
}

// LinkNotes say which names of a workspace are not used because they are links.
func LinkNotes(ws string) (notes []string) {
	if links := linkedNames(ws); len(links) == 1 {
		notes = append(notes, fmt.Sprintf("%s in %s is a link; nanobot does not follow links inside a workspace and does not use it.", links[0], ws))
	} else if len(links) > 1 {
		notes = append(notes, fmt.Sprintf("%s in %s are links; nanobot does not follow links inside a workspace and does not use them.", strings.Join(links, ", "), ws))
	}
	return notes
}

// linkedNames are the files and folders of a workspace that the program would
// read, if they were not links.
func linkedNames(workspace string) []string {
	tree, err := diskio.OpenTree(workspace)
	if err != nil {
		return nil
	}

	defer tree.Close() //nolint:errcheck // only read

	links := tree.Links(slices.Concat(datadir.FollowedFiles(), datadir.FollowedFolders(), []string{".git"})...)
	for _, dir := range datadir.FollowedFolders() {
		entries, _ := tree.ReadDir(dir) // a folder that is a link is in the list already
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			if dir == "skills" && e.IsDir() {
				name = path.Join(name, "SKILL.md")
			}
			links = append(links, tree.Links(name)...)
		}
	}

	return links
}
