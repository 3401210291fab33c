package cli

import "github.com/spf13/cobra"

func (c *command) configCommand() *cobra.Command { return &cobra.Command{Use: "config"} }
