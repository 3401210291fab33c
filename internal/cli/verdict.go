package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

func (c *modelsCommand) testCommand() *cobra.Command {
	var asJSON, vision bool
	cmd := &cobra.Command{
		Use: "test [MODEL]", Short: "Test what a model can do, with a few small calls", Args: atMost(1),
		Long: `test asks a model (or a preset, or the configured model) for a few words, for a
tool call and, if it supports images, for the colour of a small image. It prints
the result and the duration of each call. The calls cost a fraction of a cent.`,
		Example: `  nanobot models test
  nanobot models test claude-sonnet-4-6
  nanobot models test ollama/gemma3:4b --vision`,
		ValidArgsFunction: c.home.completePresets,
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := c.home.load()
			if err != nil {
				return err
			}

			name := ""
			if len(args) == 1 {
				name = args[0]
			}

			t, err := provider.OpenTrial(cmd.Context(), c.home.providerOptions(loaded), name)
			if err != nil {
				return err
			}

			if !asJSON {
				c.say("Testing %s at %s (%s)\n", t.Choice().WireModel, t.Provider, cmp.Or(t.Base, c.in("by region")))
			}

			err = provider.RunTrial(cmd.Context(), loaded, t, vision, func(v trial.Verdict) {
				if !asJSON {
					c.printVerdict(v)
				}
			})
			if err != nil {
				return err
			}

			err = c.show(asJSON, t, func() error {
				c.printTrial(t)
				return nil
			})
			if err != nil {
				return err
			}
			if err := t.Err(); err != nil {
				return failure{kindCode(llm.AsError(err).Kind)}
			}
			return nil
		},
	}

	cmd.Flags().BoolVar(&vision, "vision", false, "send an image even if the model is not known to support images")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *modelsCommand) printVerdict(v trial.Verdict) {
	mark := map[string]string{"yes": "✓", "no": "✗", "failed": "✗", "skipped": "-"}[v.Result]
	took := ""
	if v.Seconds > 0 {
		took = fmt.Sprintf(" (%.1f s)", v.Seconds)
	}
	fmt.Fprintf(c.Out, "  %s %-10s %s%s\n", mark, v.Ability, strings.ReplaceAll(c.known(v.Note), "\n", "\n               "), took)
}

// printTrial prints what is known after the last call.
func (c *modelsCommand) printTrial(t *trial.Trial) {
	if u := t.Usage; u.Prompt+u.Completion > 0 {
		c.say("  Tokens: %d in, %d out\n", u.Prompt, u.Completion)
	}
	for _, w := range t.Warnings {
		c.say("  Note: %s\n", c.known(w))
	}
}
