package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// Scaffold makes a new skill in the workspace and returns the path of its
// SKILL.md. It replaces nothing; the error wraps ErrExists then.
func Scaffold(p Place, name, description string) (file string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if err := diskio.MkdirAll(p.Workspace, 0o755); err != nil {
		return "", err
	}

	dir := path.Join(folder, name)
	skill := change.File{Name: path.Join(dir, fileName), Data: []byte(blank(name, description))}
	err = p.files().Put([]change.File{skill}, func(root *diskio.Tree) error {
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return err
		}

		err := root.Mkdir(dir, 0o755)
		switch {
		case errors.Is(err, fs.ErrExist):
			return fmt.Errorf("the skill %s %w", name, ErrExists)
		case err != nil:
			return err
		}
		return root.WriteFile(skill.Name, skill.Data, 0o644)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(p.Workspace, filepath.FromSlash(dir), fileName), nil
}

// blank returns the text of a new skill. It is valid as it is.
func blank(name, description string) string {
	if description = text.Label(description, maxDescription); description == "" {
		description = "Say in one line when to use this skill"
	}

	title := strings.ReplaceAll(name, "-", " ")
	return "---\nname: " + name + "\ndescription: " + strconv.Quote(description) + `
---
# ` + strings.ToUpper(title[:1]) + title[1:] + `

What comes out, in one sentence.

## Steps

1. Say what to look at first.
2. Give commands that can be pasted; mark each placeholder like ` + "`<this>`" + `.
3. Say how to check the result.

## Traps

- What went wrong before, and how to notice it.

## Example

A short request, and what came of it.
`
}

// checkName refuses a name that a new skill cannot have.
func checkName(name string) error {
	if name == "" || oddName(name) != "" || len(name) > 64 {
		return fmt.Errorf("%.100q is not a valid skill name: use at most 64 lower-case letters and digits, with single hyphens between them", name)
	}
	return nil
}
