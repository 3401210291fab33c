package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/llm/speech"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// transcribeJSON is written by nanobot transcribe --json.
type transcribeJSON struct {
	Text     string `json:"text"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

type transcribeFlags struct {
	provider, model, language string
	asJSON                    bool
}

// transcribeCommand is nanobot transcribe.
type transcribeCommand struct {
	*console
	home *home
}

func (c *transcribeCommand) command() *cobra.Command {
	var f transcribeFlags
	cmd := &cobra.Command{
		Use: "transcribe FILE", Short: "Transcribe a recording", Args: exactArgs(1),
		Long: `transcribe sends a recording to the service that is configured for voice messages
and prints the text. The settings are under transcription; the key is the
provider's. A server on this machine with OpenAI's protocol works too: set
providers.openai.apiBase and use --provider openai.`,
		Example: `  nanobot transcribe note.ogg
  nanobot transcribe --language de --provider openai interview.m4a
  nanobot transcribe memo.mp3 | nanobot agent -m -`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], f) },
	}

	fl := cmd.Flags()
	fl.StringVar(&f.provider, "provider", "", fmt.Sprintf("`name`: %s", strings.Join(speech.Providers(), ", ")))
	fl.StringVar(&f.model, "model", "", "`model` instead of the provider's default")
	fl.StringVar(&f.language, "language", "", "language `code` such as en")
	jsonFlag(cmd, &f.asJSON)
	_ = cmd.RegisterFlagCompletionFunc("provider", cobra.FixedCompletions(speech.Providers(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

func (c *transcribeCommand) run(ctx context.Context, file string, f transcribeFlags) error {
	loaded, err := c.home.load()
	if err != nil {
		return err
	}

	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", file)
	}

	o, err := provider.Speech(loaded, provider.SpeechChoice{Provider: f.provider, Model: f.model, Language: f.language}, c.getenv)
	if err != nil {
		return err
	}

	defer o.Client.CloseIdleConnections()
	t, err := speech.New(o)
	if e, ok := errors.AsType[*speech.Error](err); ok && e.Code == speech.NotConfigured {
		fmt.Fprintln(c.Err, "nanobot: "+c.known(e.Error()))
		return failure{exitConfig}
	} else if err != nil {
		return err
	}

	spent := provider.OpenLedger(loaded, nil)
	defer spent.Close() //nolint:errcheck // what was spent is written already
	got, err := provider.CountSpeech(t, o, spent, provider.OpenPrices(loaded, nil)).Transcribe(ctx, speech.Audio{
		Name: filepath.Base(file), Size: info.Size(),
		Open: func() (io.ReadCloser, error) { return os.Open(file) },
	})
	if err != nil {
		return err
	}
	return c.show(f.asJSON, transcribeJSON(got), func() error {
		_, err = fmt.Fprintln(c.Out, got.Text)
		return err
	})
}
