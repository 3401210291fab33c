package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/memory"
)

// printWhy writes a file with the origin of each line below it.
func printWhy(w io.Writer, f memory.FileView) {
	facts := map[int]memory.Fact{}
	for _, fact := range f.Facts {
		facts[fact.Line] = fact
	}

	n := 0
	for line := range strings.Lines(f.Text) {
		n++
		fmt.Fprintln(w, printable(strings.TrimRight(line, "\r\n")))
		if fact, ok := facts[n]; ok {
			for _, s := range fact.Explain() {
				fmt.Fprintf(w, "    <- %s\n", text.Label(printable(s), 200))
			}
		}
	}

	fmt.Fprintln(w)
}

// printWaiting lists what came from outside and is not believed yet.
func (c *memoryCommand) printWaiting(held []memory.Held) {
	if len(held) == 0 {
		return
	}

	c.say("== From outside; nanobot memory confirm or reject decides\n")
	for _, h := range held {
		where := string(h.Target)
		if h.Scope != "" {
			where = c.in("%s of %s", where, h.Scope)
		}
		if h.Order {
			where += c.in(", reads like an instruction and cannot be confirmed")
		}

		fmt.Fprintf(c.Out, "  %s  %s  [%s]\n", h.ID, text.Label(printable(h.Text), 200), printable(where))
		for _, o := range h.Sources {
			fmt.Fprintf(c.Out, "    <- %s\n", text.Label(printable(o.String()), 200))
		}
	}

	fmt.Fprintln(c.Out)
}

func (c *memoryCommand) confirmCommand() *cobra.Command {
	return c.decideCommand("confirm", "Accept findings from outside", "confirm writes findings from web pages, documents or other tools to the memory\nfiles. nanobot memory show lists them.",
		func(cmd *cobra.Command, m *memory.Memory, id string) error {
			file, err := m.Dream.Confirm(cmd.Context(), id)
			if err == nil {
				c.say("%s is now in %s\n", id, file)
			}
			return err
		})
}

func (c *memoryCommand) rejectCommand() *cobra.Command {
	return c.decideCommand("reject", "Reject findings from outside", "reject drops findings that wait for your decision. They do not come back.",
		func(cmd *cobra.Command, m *memory.Memory, id string) error {
			err := m.Dream.Reject(cmd.Context(), id)
			if err == nil {
				c.say("%s is dropped\n", id)
			}
			return err
		})
}

// decideCommand makes a command about findings that wait.
func (c *memoryCommand) decideCommand(name, short, long string, do func(*cobra.Command, *memory.Memory, string) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID...", Short: short, Long: long, Example: "  nanobot memory " + name + " 3f2a91bc",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name at least one finding; nanobot memory show lists them")}
			}
			return nil
		},
		ValidArgsFunction: c.heldIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd.Context(), func(m *memory.Memory) error {
				for _, id := range args {
					err := do(cmd, m, id)
					if errors.Is(err, memory.ErrNoFinding) {
						return usageError{fmt.Errorf("no finding %q waits; nanobot memory show lists them", id)}
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// heldIDs completes findings.
func (c *memoryCommand) heldIDs(cmd *cobra.Command, _ []string, _ string) (out []string, _ cobra.ShellCompDirective) {
	err := c.with(cmd.Context(), func(m *memory.Memory) error {
		held, err := m.Dream.Quarantine(cmd.Context())
		for _, h := range held {
			out = append(out, h.ID+"\t"+text.Label(printable(h.Text), 40))
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
