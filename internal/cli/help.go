package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
)

// teach gives a command tree our help and our answers to wrong calls.
func teach(root *cobra.Command, wrong *error) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if *wrong = misnamed(cmd); *wrong == nil {
			translateHelp(cmd, languageOf(cmd))
			writeHelp(cmd.OutOrStdout(), cmd)
		}
	})

	root.SetUsageFunc(func(cmd *cobra.Command) error {
		translateHelp(cmd, languageOf(cmd))
		writeUsage(cmd.OutOrStderr(), cmd)
		return nil
	})

	root.SetFlagErrorFunc(wrongFlag)
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	retell(root)
}

// retell rewords what cobra brings along.
func retell(cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	if f := cmd.Flags().Lookup("help"); f != nil {
		f.Usage = "show this help"
	}

	if cmd.Name() == "completion" {
		cmd.Short = "Generate a shell completion script"
		cmd.Args, cmd.RunE = subcommand, showHelp
		cmd.Long = "completion writes a script for your shell. It completes commands, flags, settings\nand sessions."
		cmd.Example = `  source <(nanobot completion bash)                                     this bash
  nanobot completion bash > ~/.local/share/bash-completion/completions/nanobot
  nanobot completion zsh > "${fpath[1]}/_nanobot"
  nanobot completion fish > ~/.config/fish/completions/nanobot.fish`
	}

	for _, sub := range cmd.Commands() {
		retell(sub)
	}
}

// showHelp runs a command that only groups others: it shows their help.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Show help for a command",
		Example: "  nanobot help agent\n  nanobot help config set",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(at), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			at := root
			for _, name := range args {
				next, rest, err := at.Find([]string{name})
				if err != nil || next == at || len(rest) > 0 {
					return unknown(at, name)
				}
				at = next
			}

			return at.Help()
		},
	}
}

func writeHelp(w io.Writer, cmd *cobra.Command) {
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintf(w, "%s\n\n", strings.TrimSpace(about))
	writeUsage(w, cmd)
}

func writeUsage(w io.Writer, cmd *cobra.Command) {
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " <command>"
	}

	fmt.Fprint(w, words(cmd, "Usage:\n  %s\n", line))
	if cmd.Example != "" {
		fmt.Fprint(w, words(cmd, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n")))
	}

	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, words(cmd, "\nCommands:\n"))
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(w, "  %-12s %s\n", sub.Name(), sub.Short)
			}
		}
	}

	writeFlags(w, words(cmd, "\nFlags:\n"), cmd, cmd.LocalFlags())
	writeFlags(w, words(cmd, "\nFlags of every command:\n"), cmd, cmd.InheritedFlags())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, words(cmd, "\nMore about one: %s <command> --help\n", cmd.CommandPath()))
	}
}

// writeFlags lists flags as pflag does, aligned by the columns of a terminal: pflag
// counts the bytes of a name such as <file>.
func writeFlags(w io.Writer, title string, cmd *cobra.Command, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}

	const indent, gap = 6, "   "
	var names, abouts []string
	width := 0
	flags.VisitAll(func(f *pflag.Flag) {
		one := pflag.NewFlagSet("", pflag.ContinueOnError)
		one.AddFlag(f)
		line := strings.TrimRight(one.FlagUsages(), "\n")
		if line == "" {
			return // hidden
		}

		name, about, _ := strings.Cut(line[indent:], gap)
		if i := strings.LastIndex(about, " (default "); i >= 0 && strings.HasSuffix(about, ")") {
			value := strings.TrimSuffix(about[i+len(" (default "):], ")")
			about = about[:i] + words(cmd, " (default %s)", value)
		}

		names, abouts = append(names, line[:indent]+name), append(abouts, about)
		width = max(width, tui.Width(names[len(names)-1]))
	})

	fmt.Fprint(w, title)
	for i, name := range names {
		fmt.Fprintln(w, strings.TrimRight(pad(name, width)+gap+abouts[i], " "))
	}
}

// names lists the subcommands a user may type.
func names(cmd *cobra.Command) []string {
	var out []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			out = append(append(out, sub.Name()), sub.Aliases...)
		}
	}
	return out
}

// subcommand is the Args of a command that only groups others.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknown(cmd, args[0])
}

func unknown(cmd *cobra.Command, name string) error {
	path := cmd.CommandPath()
	if near := text.NearestRatio(strings.ToLower(name), names(cmd), 0.6); near != "" {
		return usageError{fmt.Errorf("unknown command %q for %s; did you mean %s %s?\nSee: %s --help", name, path, path, near, path)}
	}
	if !cmd.HasParent() && strings.ContainsAny(name, " ?？") {
		return usageError{fmt.Errorf("unknown command %q for %s; to ask something: nanobot agent -m \"...\"\nSee: %s --help", name, path, path)}
	}
	return usageError{fmt.Errorf("unknown command %q for %s\nSee: %s --help", name, path, path)}
}

// misnamed is the error about a name after a group that is none of its
// commands; nil if there is none.
func misnamed(cmd *cobra.Command) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknown(cmd, args[0])
	}
	return nil
}

// wrongFlag adds the flag that was probably meant. A flag of a command that is
// misspelt is not what is wrong.
func wrongFlag(cmd *cobra.Command, err error) error {
	if err := misnamed(cmd); err != nil {
		return err
	}

	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := text.NearestRatio(name, known, 0.6); near != "" {
			return usageError{fmt.Errorf("%w; did you mean --%s?\nSee: %s --help", err, near, cmd.CommandPath())}
		}
	}

	return usageError{fmt.Errorf("%w\nSee: %s --help", err, cmd.CommandPath())}
}
