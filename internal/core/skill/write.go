package skill

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/guard/change"
)

// Reasons why Write does not write.
var (
	ErrStale      = errors.New("the skill has changed since it was read")
	ErrThirdParty = errors.New("the skill was installed and is not edited")
)

// Draft is the SKILL.md of a skill in the workspace, as it shall be.
type Draft struct {
	Name string
	Text string
	// Version is that of the text which it replaces; "" makes a new skill.
	Version string
}

// Version names a text.
func Version(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Check says what is wrong with a draft, in the order of the lines. It changes
// nothing.
func Check(p Place, d Draft) (problems []Problem, err error) {
	err = p.change(func(root *diskio.Tree, _ string, _ ledger) error {
		problems, _, err = d.check(root)
		return err
	})
	return problems, err
}

// Write puts a draft in its place. One with errors is refused, and so is one of a
// skill that came from others.
func Write(p Place, d Draft) (problems []Problem, err error) {
	err = p.change(func(root *diskio.Tree, dir string, book ledger) error {
		if _, foreign := book.find(filepath.Join(dir, d.Name)); foreign {
			return ErrThirdParty
		}

		var old string
		if problems, old, err = d.check(root); err != nil {
			return err
		}

		switch {
		case hasErrors(problems):
			return &InvalidError{d.Name, problems}
		case d.Version == "":
			if err := p.free(root, d.Name); err != nil {
				return err
			}
		case Version(old) != d.Version:
			return ErrStale
		}

		at := path.Join(folder, d.Name)
		file := path.Join(at, fileName)
		return p.files().Put([]change.File{{Name: file, Data: []byte(d.Text)}}, func(root *diskio.Tree) error {
			if err := root.MkdirAll(at, 0o755); err != nil {
				return err
			}
			temp := path.Join(at, "."+fileName)
			if err := root.WriteFile(temp, []byte(d.Text), 0o644); err != nil {
				return err
			}
			return root.Rename(temp, file)
		})
	})
	return problems, err
}

// check judges a draft among the files of the skill that is there, and returns
// the text that it replaces.
func (d Draft) check(root *diskio.Tree) (problems []Problem, old string, err error) {
	if err := checkName(d.Name); err != nil {
		return nil, "", err
	}

	b := &bundle{name: d.Name, files: []file{{path: fileName}}}
	at := path.Join(folder, d.Name)
	info, err := root.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, "", err
	case !info.IsDir():
		return nil, "", fmt.Errorf("%s is a link or no folder", at)
	default:
		if b, err = readSource(filepath.Join(root.Path(), at)); err != nil {
			return nil, "", err
		}
	}

	f := b.file(fileName)
	if f == nil {
		return nil, "", fmt.Errorf("%s has no %s", at, fileName)
	}

	old, f.data = string(f.data), []byte(d.Text)
	return b.validate(), old, nil
}
