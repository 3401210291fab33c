package channel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// State keeps the small facts of one channel, such as how far it has read, in
// one file. Writers must not overlap.
type State struct{ path string }

// OpenState names the file; nothing is read yet.
func OpenState(path string) *State { return &State{path: path} }

// Load fills a struct with what was saved. Nothing saved leaves it as it is.
func (s *State) Load(into any) error {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state of the channel: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s is damaged (%w); move it away to start afresh", s.path, err)
	}
	return nil
}

// Save replaces what was saved. It is on disk when Save returns.
func (s *State) Save(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := diskio.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	return diskio.WriteFile(s.path, append(data, '\n'), 0o600)
}
