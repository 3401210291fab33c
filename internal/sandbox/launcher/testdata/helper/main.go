// Command helper is the smallest program that can be a launcher. As itself it
// says so.
package main

import (
	"os"

	_ "github.com/nanobot-go/nanobot/internal/sandbox/launcher"
)

func main() { _, _ = os.Stdout.WriteString("main\n") }
