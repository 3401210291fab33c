package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"
)

// portFlag adds --port, which is -1 if it is not given.
func portFlag(flags *pflag.FlagSet, port *int, usage string) {
	*port = -1
	flags.VarP(portValue{port}, "port", "p", usage)
}

// portValue is a TCP port of the command line.
type portValue struct{ port *int }

const maxPort = 65535

// Set implements pflag.Value.
func (v portValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxPort {
		return errors.New("a port is a number from 0 to 65535; 0 picks a free one")
	}
	*v.port = n
	return nil
}

// String implements pflag.Value.
func (v portValue) String() string { return strconv.Itoa(*v.port) }

// Type implements pflag.Value.
func (v portValue) Type() string { return "port" }
