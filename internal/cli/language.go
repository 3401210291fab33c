package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
)

// languageNote is the annotation of the root command that holds the user's language:
// help is asked for by cobra, which knows nothing but the command.
const languageNote = "language"

// languageOf returns the language of whoever called a command.
func languageOf(cmd *cobra.Command) string { return cmd.Root().Annotations[languageNote] }

// words returns a sentence of the catalogue in the language of whoever called a command.
func words(cmd *cobra.Command, english string, args ...any) string {
	return phrase.In(languageOf(cmd), english, args...)
}

// speak makes the commands of a tree speak a language. There is nothing to do for English.
func speak(root *cobra.Command, language string) {
	if language == "" || language == phrase.English {
		return
	}
	root.Annotations = map[string]string{languageNote: language}
}

// helpWidth is the width of a help text: that of a terminal that was not
// resized.
const helpWidth = 80

// broken returns a text with its lines broken for a terminal. English texts are written so.
func broken(text string) string {
	var rows []string
	for line := range strings.SplitSeq(text, "\n") {
		rows = append(rows, tui.Rows(line, helpWidth)...)
	}
	return strings.Join(rows, "\n")
}

// translateHelp rewords the help of a command and of those below it, just before it is
// shown. Names of commands and flags stay.
func translateHelp(cmd *cobra.Command, language string) {
	if language == "" {
		return
	}

	cmd.Short = phrase.In(language, cmd.Short)
	cmd.Example = phrase.In(language, cmd.Example)
	if cmd.Long != "" {
		cmd.Long = broken(phrase.Recognize(language, cmd.Long))
	}

	reword := func(f *pflag.Flag) { f.Usage = phrase.Recognize(language, f.Usage) }
	cmd.LocalFlags().VisitAll(reword)
	cmd.InheritedFlags().VisitAll(reword)
	for _, sub := range cmd.Commands() {
		translateHelp(sub, language)
	}
}
