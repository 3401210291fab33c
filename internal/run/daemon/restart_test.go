package daemon

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// After /restart somebody else starts the gateway: always with restartMode
// exit, and below a service manager unless another way was chosen. What a
// service manager told the shell we were started from is not about us.
func TestRestartByOthers(t *testing.T) {
	t.Parallel()
	self := strconv.Itoa(os.Getpid())
	for _, tt := range []struct {
		name, mode, launch string
		env                []string
		others             bool
	}{
		{"chosen", "exit", "foreground", nil, true},
		{"chosen, from a shell", "exit", "background", nil, true},
		{"below systemd", "auto", "foreground", []string{"INVOCATION_ID=1", "SYSTEMD_EXEC_PID=" + self}, true},
		{"below an old systemd", "auto", "foreground", []string{"INVOCATION_ID=1"}, true},
		{"with a notify socket", "auto", "foreground", []string{"NOTIFY_SOCKET=/nowhere"}, true},
		{"our own unit", "auto", "service", nil, true},
		{"on a terminal", "auto", "foreground", nil, false},
		{"a desktop's shell", "auto", "foreground", []string{"INVOCATION_ID=1", "SYSTEMD_EXEC_PID=1"}, false},
		{"in the background of a desktop's shell", "auto", "background", []string{"INVOCATION_ID=1", "NOTIFY_SOCKET=/nowhere"}, false},
		{"another way was chosen", "exec", "service", []string{"INVOCATION_ID=1"}, false},
		{"spawn was chosen", "spawn", "service", []string{"INVOCATION_ID=1"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			instance := Instance{PID: os.Getpid(), Mode: tt.launch}
			if tt.mode == "auto" {
				if got := instance.supervised(tt.env); got != tt.others {
					t.Errorf("supervised %v, want %v", got, tt.others)
				}
			}
			if !tt.others {
				return // this would start another program
			}
			err := instance.Again(tt.mode, tt.env, slog.New(slog.DiscardHandler))
			if e, ok := errors.AsType[*ExitError](err); !ok || e.Code != exitRestart {
				t.Errorf("got %v, want exit code %d", err, exitRestart)
			}
		})
	}
}

// A program that cannot be started is an error, not an end without a word.
func TestStartProcessMissing(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "nanobot")
	if err := startProcess(missing, []string{missing}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no such file", err)
	}
}
