package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// skillCommand is nanobot skill.
type skillCommand struct {
	*console
	home *home
}

func (c *skillCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "skill", Aliases: []string{"skills"}, Short: "List, create, validate, pack and install skills",
		Long: `skill manages skills, which teach the agent kinds of tasks. A skill is a folder with
a SKILL.md; workspace skills take precedence over built-in skills. In a chat,
$NAME in a message loads a skill.`,
		Example: `  nanobot skill list
  nanobot skill init release-notes
  nanobot skill validate release-notes
  nanobot skill install release-notes.skill`,
		Args: subcommand, RunE: showHelp,
	}

	cmd.AddCommand(c.listCommand(), c.showCommand(), c.initCommand(), c.validateCommand(), c.packCommand(), c.installCommand(), c.removeCommand())
	return cmd
}

// skills are the skills of the workspace in use and where they are kept.
type skills struct {
	*skill.Library
	place    skill.Place
	disabled []string
}

func (c *skillCommand) open() (*skills, error) {
	loaded, ws, err := c.home.inUse()
	if err != nil {
		return nil, err
	}
	return &skills{
		Library: app.OpenSkills(loaded, ws, c.getenv, c.home.logger()), place: skill.Place{Workspace: ws, Ledger: app.State(loaded, c.home.logger()), Files: app.OpenFiles(loaded, ws, c.home.logger())},
		disabled: loaded.Config.Agents.Defaults.DisabledSkills,
	}, nil
}

// find returns a skill by name, or an error with the nearest one.
func (s *skills) find(name string) (skill.Skill, error) {
	if found, ok := s.Load(name); ok {
		return found, nil
	}

	var names []string
	for _, k := range s.List() {
		names = append(names, k.Name)
	}

	hint := "nanobot skill list shows all"
	if near := text.NearestRatio(name, names, 0.6); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	return skill.Skill{}, usageError{fmt.Errorf("there is no skill %q; %s", name, hint)}
}

// names completes names of skills.
func (c *skillCommand) names(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	s, err := c.open()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	var out []string
	for _, k := range s.List() {
		if strings.HasPrefix(k.Name, typed) {
			out = append(out, k.Name+"\t"+k.Description)
		}
	}
	return out, cobra.ShellCompDirectiveDefault
}

func (c *skillCommand) listCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List skills with their source and missing requirements",
		Args:    noArgs,
		Example: "  nanobot skill list\n  nanobot skill list --json | jq -r '.[] | select(.available) | .name'",
		RunE: func(*cobra.Command, []string) error {
			s, err := c.open()
			if err != nil {
				return err
			}

			list, err := skill.Describe(s.place, s.List(), s.disabled)
			if err != nil {
				return err
			}
			return c.show(asJSON, list, func() error {
				w := c.table(" ", "SKILL", "SOURCE", "STATE", "DESCRIPTION")
				for _, e := range list {
					mark := " "
					if e.Available {
						mark = "✓"
					}
					w.row(mark, e.Name, c.in(string(e.Source)), c.in(e.State()), text.Ellipsis(e.Description, 80))
				}

				return w.Flush()
			})
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *skillCommand) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a skill as the model reads it",
		Args:              exactArgs(1),
		ValidArgsFunction: c.names,
		Example:           "  nanobot skill show weather\n  nanobot skill show weather --json",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := c.open()
			if err != nil {
				return err
			}

			k, err := s.find(args[0])
			if err != nil {
				return err
			}

			list, err := skill.Describe(s.place, []skill.Skill{k}, s.disabled)
			if err != nil {
				return err
			}

			e := list[0]
			return c.show(asJSON, e, func() error {
				c.say("Skill   %s: %s\nSource  %s\nState   %s\nFile    %s\n", e.Name, e.Description, e.Source, e.State(), e.Path)
				for _, n := range e.Notes {
					c.say("Note    %s\n", n)
				}
				fmt.Fprintf(c.Out, "\n%s\n", e.Text)
				return nil
			})
		},
	}

	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *skillCommand) initCommand() *cobra.Command {
	var description string
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Create a skill in the workspace",
		Args:  exactArgs(1),
		Long: `init creates skills/NAME/SKILL.md in the workspace from a template. NAME consists of
lower-case letters and digits with single hyphens.`,
		Example: "  nanobot skill init release-notes\n  nanobot skill init rotate-logs --description \"Rotate and compress old logs\"",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := c.open()
			if err != nil {
				return err
			}

			file, err := skill.Scaffold(s.place, args[0], description)
			if err != nil {
				return usageError{err}
			}

			c.say("Created %s. Fill it in, then run: nanobot skill validate %s\n", file, args[0])
			return nil
		},
	}

	cmd.Flags().StringVar(&description, "description", "", "`text` that describes when to use it")
	return cmd
}

func (c *skillCommand) validateCommand() *cobra.Command {
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:               "validate PATH|NAME",
		Short:             "Check a skill and list problems by line",
		Args:              exactArgs(1),
		ValidArgsFunction: c.names,
		Long: `validate checks a folder, an archive, or a skill by its name. It exits with 1 on
errors; a warning means that the skill works, but perhaps not as intended.`,
		Example: "  nanobot skill validate release-notes\n  nanobot skill validate ./my-skill --strict\n  nanobot skill validate download.zip --json",
		RunE: func(_ *cobra.Command, args []string) error {
			problems, err := c.validate(args[0])
			if err != nil {
				return err
			}

			valid := !slices.ContainsFunc(problems, func(p skill.Problem) bool { return p.Error || strict })
			err = c.show(asJSON, append([]skill.Problem{}, problems...), func() error {
				for _, p := range problems {
					fmt.Fprintln(c.Out, p)
				}
				if valid {
					c.say("%s is valid.\n", args[0])
				}
				return nil
			})
			if err == nil && !valid {
				return failure{exitFailure}
			}
			return err
		},
	}

	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 on warnings too")
	return cmd
}

// validate checks a path if there is something to check, else a name.
func (c *skillCommand) validate(arg string) ([]skill.Problem, error) {
	info, err := os.Stat(arg)
	isPath := strings.ContainsAny(arg, `/\`)
	switch {
	case err == nil && filepath.Base(arg) == "SKILL.md":
		return skill.Validate(filepath.Dir(arg))
	case err == nil && (isPath || !info.IsDir()):
		return skill.Validate(arg)
	case isPath:
		return nil, usageError{fmt.Errorf("%s does not exist", arg)}
	}

	if _, err := os.Stat(filepath.Join(arg, "SKILL.md")); err == nil {
		return skill.Validate(arg)
	}

	s, err := c.open()
	if err != nil {
		return nil, err
	}

	k, err := s.find(arg)
	if err != nil {
		return nil, err
	}
	if k.Source == skill.FromBuiltin {
		return skill.ValidateBuiltin(skill.BuiltinFS(), k.Name)
	}
	return skill.Validate(filepath.Dir(k.Path))
}

func (c *skillCommand) packCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "pack DIR",
		Short: "Pack a skill into one file",
		Args:  exactArgs(1),
		Long: `pack writes the folder of a skill to NAME.skill, a zip archive. Identical files
give identical archives. It does not pack a skill with errors.`,
		Example: "  nanobot skill pack ~/.nanobot/workspace/skills/release-notes\n  nanobot skill pack ./my-skill -o /tmp/my-skill.zip",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return usageError{fmt.Errorf("%s is not a folder", args[0])}
			}

			file, err := filepath.Abs(cmp.Or(out, filepath.Base(dir)+".skill"))
			if err != nil {
				return err
			}
			if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
				return usageError{fmt.Errorf("%s would contain itself; choose another place with -o", file)}
			}

			packed, err := skill.PackFile(file, dir)
			if err != nil {
				return c.printInvalid(err)
			}

			c.say("Packed %s into %s: %d files, %d bytes\nsha256 %s\n", packed.Name, file, packed.Files, packed.Bytes, packed.SHA256)
			return nil
		},
	}

	cmd.Flags().StringVarP(&out, "output", "o", "", "`file` to write")
	return cmd
}

// printInvalid prints what is wrong with a skill that was refused for it.
func (c *skillCommand) printInvalid(err error) error {
	bad, ok := errors.AsType[*skill.InvalidError](err)
	if !ok {
		return err
	}
	for _, p := range bad.Problems {
		fmt.Fprintln(c.Err, p)
	}
	c.sayErr("nanobot: the skill has errors; nothing was changed\n")
	return failure{exitFailure}
}

func (c *skillCommand) installCommand() *cobra.Command {
	var force, always bool
	cmd := &cobra.Command{
		Use:   "install FILE|DIR",
		Short: "Install a skill into the workspace",
		Args:  exactArgs(1),
		Long: `install takes a .skill, .zip or .tar.gz file, or a folder. It refuses links, paths
outside the archive, names that differ only in case, and more than 5,000 files
or 10 MiB. The skill is labelled as third-party for the model, and the agent's tools
cannot change it. Read it before you install it: the agent will follow it.`,
		Example: "  nanobot skill install release-notes.skill\n  nanobot skill install ~/Downloads/notes.zip --force",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := c.open()
			if err != nil {
				return err
			}
			if _, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
				return usageError{fmt.Errorf("%s does not exist", args[0])}
			}

			s.place.Force = force
			rec, problems, err := skill.Install(s.place, args[0], always, time.Now())
			if err != nil {
				return explainSkill(c.printInvalid(err))
			}

			for _, p := range problems {
				fmt.Fprintln(c.Err, p)
			}

			c.say("Installed %s in %s: %d files, %d bytes\nsha256 %s\n", rec.Name, rec.Dir, rec.Files, rec.Bytes, rec.SHA256)
			if k, ok := s.Load(rec.Name); ok && !k.Available() {
				c.say("It is not available yet; it requires %s\n", k.Missing)
			}
			return nil
		},
	}

	cmd.Flags().BoolVar(&force, "force", false, "replace a skill with the same name, or hide a built-in one")
	cmd.Flags().BoolVar(&always, "always", false, "allow it in every prompt if it requests that")
	return cmd
}

func (c *skillCommand) removeCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:               "remove NAME",
		Aliases:           []string{"rm", "uninstall"},
		Short:             "Remove a skill from the workspace",
		Args:              exactArgs(1),
		ValidArgsFunction: c.names,
		Long: `remove deletes the folder of an installed skill. To remove a skill that was written
in the workspace, use --force. To disable built-in skills, use the setting
agents.defaults.disabledSkills.`,
		Example: "  nanobot skill remove release-notes",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := c.open()
			if err != nil {
				return err
			}

			k, found := s.Load(args[0])
			if found && k.Source == skill.FromBuiltin {
				return usageError{fmt.Errorf("%s is built in; disable it with: nanobot config set agents.defaults.disabledSkills '[%q]'", k.Name, k.Name)}
			}

			s.place.Force = force
			err = skill.Remove(s.place, args[0])
			if errors.Is(err, skill.ErrNotFound) {
				_, missing := s.find(args[0])
				return cmp.Or(missing, err)
			}
			if err != nil {
				return explainSkill(err)
			}

			c.say("Removed %s.\n", args[0])
			return nil
		},
	}

	cmd.Flags().BoolVar(&force, "force", false, "also remove a skill that was not installed")
	return cmd
}

// explainSkill says how to go on when a skill is in the way.
func explainSkill(err error) error {
	if errors.Is(err, skill.ErrExists) || errors.Is(err, skill.ErrOwn) {
		return usageError{fmt.Errorf("%w; use --force to override", err)}
	}
	return err
}
