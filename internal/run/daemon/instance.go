// Package daemon hides how a program that runs in the background is found,
// started, stopped and watched: the file that names the running process and
// tells it from another one with the same number, log files that do not grow
// for ever, the service manager's notifications, and the unit files that make
// it start with the machine. It knows no product words beyond the texts it is
// given.
package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"
)

// Instance is a running program as it describes itself on disk.
type Instance struct {
	PID       int       `json:"pid"`
	Identity  string    `json:"identity"` // tells it from a later process with the same number
	Started   time.Time `json:"started_at"`
	Platform  string    `json:"platform"`
	Address   string    `json:"address,omitempty"`
	Port      int       `json:"port,omitempty"`
	Workspace string    `json:"workspace"`
	Config    string    `json:"config_path"`
	Command   []string  `json:"command,omitempty"`
	Log       string    `json:"log_path,omitempty"`
	Mode      string    `json:"launch_mode"` // foreground, background, service
	Version   string    `json:"version,omitempty"`
}

// ErrNotRunning says that there is no such program.
var ErrNotRunning = errors.New("not running")

// StaleError is a description whose program is gone: it was killed or crashed.
type StaleError struct{ Instance Instance }

func (e *StaleError) Error() string {
	return fmt.Sprintf("process %d, started %s, is gone without saying so", e.Instance.PID, e.Instance.Started.Local().Format(time.DateTime))
}

// Is makes a StaleError an ErrNotRunning.
func (*StaleError) Is(err error) bool { return err == ErrNotRunning }

// Self describes the process that calls.
func Self() Instance {
	pid := os.Getpid()
	id, _ := identity(pid) // without one the number has to do
	return Instance{PID: pid, Identity: id, Platform: runtime.GOOS, Command: os.Args}
}

// Write puts the description in place of an older one.
func (i Instance) Write(path string) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	return writeVolatile(path, append(data, '\n'))
}

// Find reads a description and makes sure that its program runs. Without one
// it returns ErrNotRunning; a *StaleError if there was one.
func Find(path string) (Instance, error) {
	var i Instance
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return i, ErrNotRunning
	}
	if err != nil {
		return i, err
	}
	if len(bytes.Trim(data, "\x00")) == 0 { // just being written, or what a power loss leaves, which nothing survives
		return i, ErrNotRunning
	}
	if err := json.Unmarshal(data, &i); err != nil || i.PID <= 0 {
		return i, fmt.Errorf("%s is damaged; remove it if nothing runs", path)
	}
	if !i.alive() {
		return i, &StaleError{i}
	}
	return i, nil
}

// alive reports whether the very process runs.
func (i Instance) alive() bool {
	id, err := identity(i.PID)
	if err != nil {
		return false
	}
	return i.Identity == "" || id == "" || id == i.Identity
}

// Stop asks the process to end and, when it has not after the time it is
// given, ends it. It returns false if force was needed.
func (i Instance) Stop(ctx context.Context, grace time.Duration) (gently bool, err error) {
	if err := terminate(i.PID); err != nil {
		if !i.alive() {
			return true, nil
		}
		return false, fmt.Errorf("end process %d: %w", i.PID, err)
	}

	if i.wait(ctx, grace) {
		return true, nil
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := kill(i.PID); err != nil && i.alive() {
		return false, fmt.Errorf("end process %d: %w", i.PID, err)
	}
	if !i.wait(ctx, 5*time.Second) {
		return false, fmt.Errorf("process %d does not end", i.PID)
	}
	return false, nil
}

// wait reports whether the process ended within a time.
func (i Instance) wait(ctx context.Context, most time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond) // the end of another's child is not reported
	defer tick.Stop()

	for i.alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return !i.alive()
		}
	}

	return true
}
