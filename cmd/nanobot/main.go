// Command nanobot is a personal AI agent for the terminal.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/nanobot-go/nanobot/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, os.Args[1:], cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()})
}
