package tui

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// chatEnv makes TestChatProgram a program to be started from a shell.
const chatEnv = "TUI_TEST_CHAT"

// TestChatProgram is a chat on the terminal that the test binary was started
// at; without chatEnv it does nothing.
func TestChatProgram(t *testing.T) {
	if os.Getenv(chatEnv) == "" {
		return
	}
	err := Chat(t.Context(), Options{
		Console: Stdio(os.Stdin, os.Stdout, os.Stderr), Getenv: func(string) string { return "" },
		Ask: func(_ context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
			return func(yield func(bus.Outbound, error) bool) {
				yield(bus.Outbound{Kind: bus.Final, Text: "you said " + in.Text}, nil)
			}
		},
	})
	if err != nil {
		t.Error(err)
	}
}

// Ctrl-Z gives the terminal to the shell; fg brings back the chat with its
// draft, and it reads keys as before.
func TestSuspendAndContinue(t *testing.T) {
	master, tty := openPTY(t)
	expect, press, drained := watchPTY(t, master)
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-i")
	shell.Stdin, shell.Stdout, shell.Stderr = tty, tty, tty
	shell.Env = []string{"PS1=shell> ", "TERM=dumb", "PATH=" + os.Getenv("PATH"), chatEnv + "=1"}
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	expect("shell> ▮")
	press(os.Args[0] + " -test.run '^TestChatProgram$'\r")
	expect("You: ▮")
	for i := range 3 {
		draft := fmt.Sprintf("draft %d", i)
		press(draft)
		expect("You: " + draft + "▮")
		press("\x1a")
		expect("shell> ▮")
		if localFlags(t, tty)&unix.ICANON == 0 {
			t.Error("the shell got a terminal in raw mode")
		}
		press("fg\r")
		expect("You: " + draft + "▮")
		press("!")
		expect("You: " + draft + "!▮")
		press("\r")
		expect("you said " + draft + "!\n\nYou: ▮")
		if localFlags(t, tty)&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
			t.Error("the terminal is not in raw mode after fg")
		}
	}
	press("\x04")
	expect("PASS")
	expect("shell> ▮")
	press("exit\r")
	if err := shell.Wait(); err != nil {
		t.Errorf("shell: %v", err)
	}
	tty.Close()
	master.Close()
	<-drained
}
