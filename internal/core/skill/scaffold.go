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
)

// Scaffold makes a new skill in a workspace and returns the path of its
// SKILL.md. It replaces nothing; the error wraps ErrExists then.
func Scaffold(workspace, name, description string) (file string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if err := diskio.MkdirAll(workspace, 0o755); err != nil {
		return "", err
	}
	root, err := diskio.OpenTree(workspace)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	dir := path.Join(folder, name)
	if err := root.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if err := root.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("the skill %s %w", name, ErrExists)
	} else if err != nil {
		return "", err
	}
	if err := root.WriteFile(path.Join(dir, fileName), []byte(blank(name, description)), 0o644); err != nil {
		return "", err
	}
	return filepath.Join(workspace, filepath.FromSlash(dir), fileName), nil
}

// blank is the text of a new skill. It is valid as it is.
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
