package daemon

import (
	"encoding/json"
	"os"
	"slices"
	"time"
)

// Crashes counts how often a program ended without saying so.
type Crashes struct{ path string }

// crashNote is the content of the file: the starts that were not taken back.
type crashNote struct {
	Starts []time.Time `json:"starts"`
}

// OpenCrashes names the file.
func OpenCrashes(path string) Crashes { return Crashes{path} }

// Begin notes a start and returns how many before it, within a time, were
// never followed by End. A file that cannot be read counts as none.
func (c Crashes) Begin(now time.Time, within time.Duration) (int, error) {
	var recent []time.Time
	for _, t := range c.read().Starts {
		if age := now.Sub(t); age >= 0 && age <= within {
			recent = append(recent, t)
		}
	}
	return len(recent), c.write(crashNote{append(recent, now)})
}

// Remove takes back the start that Begin recorded: the program ended before it did
// anything, and said why. Others stay, since they may be of one that runs.
func (c Crashes) Remove(start time.Time) error {
	rest := slices.DeleteFunc(c.read().Starts, start.Equal)
	if rest == nil {
		rest = []time.Time{}
	}
	return c.write(crashNote{rest})
}

func (c Crashes) read() (note crashNote) {
	if data, err := os.ReadFile(c.path); err == nil {
		_ = json.Unmarshal(data, &note) // a torn note counts as none
	}
	return note
}

// Clear removes all recorded starts: the program ended in order, or has run long
// enough.
func (c Crashes) Clear() error { return c.write(crashNote{Starts: []time.Time{}}) }

func (c Crashes) write(n crashNote) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return writeVolatile(c.path, append(data, '\n'))
}
