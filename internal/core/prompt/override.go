package prompt

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// maxOverride bounds a file that replaces instructions of ours, in characters.
const maxOverride = 32000

// Override is a file of the workspace that replaces instructions of ours. The
// model follows it, so it counts only if it is a regular file without words from
// outside.
type Override struct {
	Workspace string
	Foreign   func(path string) bool // reports files with words from outside; may be nil
	Name      string                 // of the file, with slashes
	Usual     string                 // the instructions without it
}

// Text returns what counts now: the file, or the usual instructions if it is
// missing, blank or unusable.
func (o Override) Text() string {
	if own, err := o.read(); err == nil && own != "" {
		return own
	}
	return o.Usual
}

// Describe tells the owner what counts now.
func (o Override) Describe() string {
	switch own, err := o.read(); {
	case err != nil:
		return fmt.Sprintf("The built-in instructions are used: %v.", err)
	case own != "":
		return fmt.Sprintf("%s replaces the built-in instructions:\n\n%s", o.Name, own)
	}
	return fmt.Sprintf("The built-in instructions are used. Add the word init to this command to copy them to %s, where you can change them:\n\n%s", o.Name, o.Usual)
}

// Init copies the usual instructions to the file, unless it exists.
func (o Override) Init(files *change.Writer) (created bool, err error) {
	tree, err := diskio.OpenTree(o.Workspace)
	if err != nil {
		return false, err
	}

	defer tree.Close() //nolint:errcheck // read only

	if _, err := tree.Lstat(o.Name); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return files.Create(o.Name, []byte(o.Usual+"\n"))
}

// read returns the text of the file, "" if there is none. The error says why a
// file does not count.
func (o Override) read() (string, error) {
	tree, err := diskio.OpenTree(o.Workspace)
	if err != nil {
		return "", nil // without a workspace there is no file
	}

	defer tree.Close() //nolint:errcheck // read only

	switch info, err := tree.Lstat(o.Name); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil || !info.Mode().IsRegular():
		return "", fmt.Errorf("%s cannot be used, because it is not a regular file in the workspace", o.Name)
	case o.Foreign != nil && o.Foreign(filepath.Join(o.Workspace, filepath.FromSlash(o.Name))):
		return "", fmt.Errorf("%s came from outside; look at it, and if it is yours: nanobot trust %s", o.Name, o.Name)
	}

	b, err := tree.ReadHead(o.Name, maxOverride*utf8.UTFMax+1)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", o.Name, err)
	}

	own := strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD"))
	if utf8.RuneCountInString(own) > maxOverride {
		return "", fmt.Errorf("%s has more than %d characters", o.Name, maxOverride)
	}
	return own, nil
}
