package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot/internal/config"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
)

// transcribeJSON is what nanobot transcribe --json writes.
type transcribeJSON struct {
	Text     string `json:"text"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

type transcribeFlags struct {
	provider, model, language string
	asJSON                    bool
}

func (c *command) transcribeCommand() *cobra.Command {
	var f transcribeFlags
	cmd := &cobra.Command{
		Use: "transcribe FILE", Short: "Turn a recording into text", Args: exactArgs(1),
		Long: `transcribe sends a recording to the service that is set up for voice messages
and prints what was said. The settings are under transcription; the key is the
one of the provider. A server on this machine that speaks OpenAI's protocol
works too: set providers.openai.apiBase and use --provider openai.`,
		Example: `  nanobot transcribe note.ogg
  nanobot transcribe --language de --provider openai interview.m4a
  nanobot transcribe memo.mp3 | nanobot agent -m -`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.transcribe(cmd, args[0], f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.provider, "provider", "", "`name`: "+strings.Join(speech.Providers(), ", "))
	fl.StringVar(&f.model, "model", "", "`model` instead of the provider's usual one")
	fl.StringVar(&f.language, "language", "", "language `code` such as en")
	fl.BoolVar(&f.asJSON, "json", false, "write JSON")
	_ = cmd.RegisterFlagCompletionFunc("provider", cobra.FixedCompletions(speech.Providers(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

func (c *command) transcribe(cmd *cobra.Command, file string, f transcribeFlags) error {
	loaded, err := c.load()
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
	o, err := c.speechOptions(loaded, f)
	if err != nil {
		return err
	}
	defer o.Client.CloseIdleConnections()
	t, err := speech.New(o)
	if e, ok := errors.AsType[*speech.Error](err); ok && e.Code == speech.NotConfigured {
		fmt.Fprintln(c.Err, "nanobot: "+e.Error())
		return failure{exitConfig}
	} else if err != nil {
		return err
	}
	got, err := t.Transcribe(cmd.Context(), speech.Audio{
		Name: filepath.Base(file), Size: info.Size(),
		Open: func() (io.ReadCloser, error) { return os.Open(file) },
	})
	if err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(cmd.OutOrStdout(), transcribeJSON(got))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), got.Text)
	return err
}

// speechOptions joins the settings of transcription and of the provider. Being
// asked for on the command line counts as switched on.
func (c *command) speechOptions(loaded *config.Loaded, f transcribeFlags) (speech.Options, error) {
	cfg := loaded.Config.Transcription
	name := cmp.Or(f.provider, cfg.Provider, loaded.Config.Channels.TranscriptionProvider)
	block := speechBlock(loaded.Config.Providers, name)
	key := block.APIKey
	if key.IsZero() && len(block.APIKeys) > 0 {
		key = block.APIKeys[0]
	}
	model := f.model
	if model == "" && f.provider == "" {
		model = cfg.Model // it belongs to the configured provider
	}
	client, err := httpsafe.Client(httpsafe.Options{Proxy: block.Proxy.Reveal(), Direct: httpsafe.IsLocal(block.APIBase)})
	if err != nil {
		return speech.Options{}, fmt.Errorf("providers.%s: %w", name, err)
	}
	return speech.Options{
		Provider: name, Model: model, Language: cmp.Or(f.language, cfg.Language, loaded.Config.Channels.TranscriptionLanguage),
		Key: key, Base: block.APIBase, Headers: block.ExtraHeaders, Client: client, Getenv: c.getenv,
		MaxUpload: int64(cfg.MaxUploadMB) << 20, MaxDuration: time.Duration(cfg.MaxDurationSec) * time.Second,
	}, nil
}

// speechBlock finds the settings of a provider under any spelling of its name.
func speechBlock(all map[string]config.Provider, name string) config.Provider {
	canonical, ok := speech.Canonical(name)
	if !ok {
		return config.Provider{}
	}
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if c, ok := speech.Canonical(n); ok && n != "" && c == canonical {
			return all[n]
		}
	}
	return config.Provider{}
}
