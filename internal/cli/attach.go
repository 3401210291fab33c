package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/datadir"
	"github.com/nanobot-go/nanobot/internal/diskio"
)

// maxCopy is the largest attachment that is copied to where the agent's tools
// may read it; a larger one stays where it is and is only named.
const maxCopy = 50 << 20

// checkFiles finds mistakes in --file before anything is started.
func checkFiles(files []string) ([]bus.Media, error) {
	var out []bus.Media
	for _, name := range files {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file %s: %w", name, errors.Unwrap(err))}
		}
		if !info.Mode().IsRegular() {
			return nil, usageError{fmt.Errorf("--file %s: not a regular file", name)}
		}
		out = append(out, bus.Media{Path: path, Name: filepath.Base(path), Size: info.Size()})
	}
	return out, nil
}

// attach brings files where the agent's tools may read them: an agent that is
// restricted to its workspace could otherwise not open what it was just given.
func attach(files []bus.Media, workspace, dataDir string) ([]bus.Media, error) {
	for i, m := range files {
		if strings.HasPrefix(m.Path, workspace+string(filepath.Separator)) {
			continue // links there are not followed
		}
		if m.Size > maxCopy {
			path, err := filepath.EvalSymlinks(m.Path)
			if err != nil {
				return nil, fmt.Errorf("attach %s: %w", m.Name, err)
			}
			files[i].Path = path
			continue
		}
		path, err := keepCopy(m, datadir.Media.In(dataDir, "cli"))
		if err != nil {
			return nil, fmt.Errorf("attach %s: %w", m.Name, err)
		}
		files[i].Path = path
	}
	return files, nil
}

// keepCopy stores a file under its name and a hash of its content, so that
// attaching it again takes no further space.
func keepCopy(m bus.Media, dir string) (string, error) {
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
