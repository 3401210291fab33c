package daemon

import (
	"encoding/json"
	"os"
	"time"
)

// Crashes counts how often a program ended without saying so.
type Crashes struct{ path string }

// crashNote is what the file holds: the starts that nobody took back.
type crashNote struct {
	Starts []time.Time `json:"starts"`
}

// OpenCrashes names the file.
func OpenCrashes(path string) Crashes { return Crashes{path} }

// Begin notes a start and returns how many before it, within a time, were
// never followed by End. A file that cannot be read counts as none.
func (c Crashes) Begin(now time.Time, within time.Duration) (int, error) {
	var note crashNote
	if data, err := os.ReadFile(c.path); err == nil {
		_ = json.Unmarshal(data, &note) // a torn note is no note
	}
	var recent []time.Time
	for _, t := range note.Starts {
		if age := now.Sub(t); age >= 0 && age <= within {
			recent = append(recent, t)
		}
	}
	return len(recent), c.write(crashNote{append(recent, now)})
}

// End says that all is well: the program ended in order, or has run long
// enough.
func (c Crashes) End() error { return c.write(crashNote{Starts: []time.Time{}}) }

func (c Crashes) write(n crashNote) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return putVolatile(c.path, append(data, '\n'))
}
