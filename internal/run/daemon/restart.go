package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
)

// ExitError says with which code the process has to end.
type ExitError struct{ Code int }

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Again starts the program again after /restart: mode is exit, exec, spawn or
// auto. Everything it held is given back by now. An ExitError means that
// another program, such as a service manager, starts it.
func (i Instance) Again(mode string, env []string, log *slog.Logger) error {
	if mode == "exit" || mode == "auto" && i.supervised(env) {
		return &ExitError{exitRestart}
	}

	exe, err := os.Executable()
	if err != nil {
		return err
	}

	log.Info("restarting", "exe", exe, "mode", mode)
	if mode == "spawn" || mode == "auto" && !canReplace && i.Mode != "foreground" {
		return startProcess(exe, i.Command, env)
	}
	return ReplaceProcess(exe, i.Command, env)
}

// supervised reports whether a service manager starts us again when we end.
// What it says in the environment is inherited by everything it starts, such
// as the shells of a desktop, so it must have meant this very process.
func (i Instance) supervised(env []string) bool {
	getenv := lookup(env)
	switch i.Mode {
	case "service": // our own unit
		return true
	case "background": // nanobot gateway start
		return false
	}

	if main := getenv("SYSTEMD_EXEC_PID"); main != "" {
		return main == strconv.Itoa(i.PID)
	}
	if NewNotifier(getenv).active() || getenv("INVOCATION_ID") != "" {
		return true
	}
	return getenv("XPC_SERVICE_NAME") != "" && os.Getppid() == 1 // launchd
}

// startProcess starts a program on what we write to, and does not wait for it.
func startProcess(exe string, args, env []string) error {
	p, err := os.StartProcess(exe, args, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return p.Release()
}
