// Command floor is the least a Go program can do for a turn: send the given
// request body, read the answer, and fsync one line per message. Everything
// nanobot takes beyond this is its own doing.
//
// Usage: floor URL BODYFILE LOGFILE
//
//	floor -run COMMAND...   prints the peak memory of a command in kilobytes
package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

func main() {
	if os.Args[1] == "-run" {
		cmd := exec.Command(os.Args[2], os.Args[3:]...)
		if err := cmd.Run(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			os.Stdout.WriteString(strconv.FormatInt(ru.Maxrss, 10) + "\n")
		}
		return
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func run(url, bodyFile, logFile string) error {
	body, err := os.ReadFile(bodyFile)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := line(log, "user"); err != nil {
		return err
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		return err
	}
	return line(log, "assistant")
}

func line(f *os.File, role string) error {
	if _, err := f.WriteString(`{"role":"` + role + `","content":"hello"}` + "\n"); err != nil {
		return err
	}
	return f.Sync()
}
