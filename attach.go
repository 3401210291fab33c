package nanobot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// maxCopy is the largest attachment that is copied to where the agent's tools
// may read it; a larger one stays where it is and is only named.
const maxCopy = 50 << 20

// Attach brings a file where the agent's tools may read it, for Input.Media: an
// agent that is restricted to its workspace could otherwise not open what it
// was just given. A file of the workspace stays where it is.
func (b *Bot) Attach(file string) (Media, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return Media{}, err
	}

	info, err := os.Stat(path)
	if err != nil {
		return Media{}, fmt.Errorf("attach: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Media{}, fmt.Errorf("attach %s: not a regular file", file)
	}

	m := Media{Path: path, Name: filepath.Base(path), Size: info.Size()}
	switch {
	case strings.HasPrefix(path, b.Workspace()+string(filepath.Separator)): // links there are not followed
	case m.Size > maxCopy:
		m.Path, err = filepath.EvalSymlinks(path)
	default:
		m.Path, err = saveCopy(m, datadir.Media.In(b.DataDir(), "cli"))
	}

	if err != nil {
		return Media{}, fmt.Errorf("attach %s: %w", m.Name, err)
	}
	return m, nil
}

// saveCopy stores a file under its name and a hash of its content, so that
// attaching it again takes no further space.
func saveCopy(m Media, dir string) (string, error) {
	f, err := os.Open(m.Path)
	if err != nil {
		return "", err
	}

	defer f.Close() //nolint:errcheck // read only
	body, err := io.ReadAll(io.LimitReader(f, maxCopy))
	if err != nil {
		return "", err
	}

	sum := sha256.Sum256(body)
	path := filepath.Join(dir, hex.EncodeToString(sum[:6])+"-"+m.Name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return path, diskio.WriteFile(path, body, 0o600)
}
