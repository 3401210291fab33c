// Command nanobot is a personal AI agent for the terminal.
package main

import (
	"context"
	"os"
	"os/signal"
	"os/user"
	"runtime/debug"
	"syscall"

	_ "time/tzdata" // time zones where the system has none

	"github.com/nanobot-go/nanobot/internal/cli"
	"github.com/nanobot-go/nanobot/internal/guard"
)

func main() { os.Exit(run()) }

func run() int {
	_ = guard.Harden() // without it only the sandbox keeps commands out of our memory
	// Collecting the small heap less often saves a tenth of the work of a busy process.
	debug.SetGCPercent(400)
	findHome(user.Current)
	releaseStart()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	dir, _ := os.Getwd() // a folder that was deleted is none
	return cli.Main(ctx, os.Args[1:], cli.Stdio{
		In:  os.Stdin,
		Out: os.Stdout,
		Err: os.Stderr,
		Env: os.Environ(),
		Dir: dir,
	})
}
