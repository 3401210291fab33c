package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// noArgs refuses arguments with the right exit code.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q\nSee: %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}

// exactArgs wants n arguments named by the usage line.
func exactArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("usage: %s\nSee: %s --help", cmd.UseLine(), cmd.CommandPath())}
		}
		return nil
	}
}

// atMost allows up to n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError{fmt.Errorf("usage: %s\nSee: %s --help", cmd.UseLine(), cmd.CommandPath())}
		}
		return nil
	}
}
