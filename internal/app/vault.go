package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/httpsafe"
	"github.com/nanobot-go/nanobot/internal/keyring"
)

// vault takes keys out of what people type before anything else sees or keeps
// it, and stores those of the owner.
type vault struct {
	ring    func() *keyring.Ring
	secrets *httpsafe.Registry
	log     *slog.Logger
}

func (a *App) vault(o Options) *vault {
	return &vault{ring: KeyRing(a.Config.DataDir, o.Env), secrets: a.safety.secrets, log: o.Log}
}

// KeyRing looks for the keyring with the first key that is typed.
func KeyRing(data string, env []string) func() *keyring.Ring {
	return sync.OnceValue(func() *keyring.Ring {
		return keyring.Open(keyring.Options{DataDir: data, Getenv: Getenv(env)})
	})
}

// clean is a message without keys. The note, if there is one, is for the person
// who typed them. A command line that the owner runs is left as it is.
func (v *vault) clean(in bus.Inbound) (_ bus.Inbound, note string) {
	if v == nil || in.Event != "" || in.Shell {
		return in, ""
	}
	in.History = slices.Clone(in.History)
	for i := range in.History {
		in.History[i].Text, _ = httpsafe.TypedKeys(in.History[i].Text)
	}
	text, keys := httpsafe.TypedKeys(in.Text)
	if len(keys) == 0 {
		return in, ""
	}
	in.Text = text
	if in.Untrusted {
		return in, "" // somebody else's words; there is nobody to tell
	}
	if in.Scope != "" {
		return in, "That looks like a key or password. It was taken out of the conversation and kept nowhere. Other people in this chat may have seen it: replace it."
	}
	var notes []string
	for _, key := range keys {
		if n := v.keep(key); n != "" {
			notes = append(notes, n)
		}
	}
	return in, strings.Join(notes, "\n")
}

// keep stores a key and says where it is. It is empty for one that was stored
// before.
func (v *vault) keep(key string) string {
	v.secrets.Add("typed key", httpsafe.NewSecret(key))
	sum := sha256.Sum256([]byte(key))
	name := "typed-" + hex.EncodeToString(sum[:4])
	ring := v.ring()
	if ring.Has(name) {
		return ""
	}

	place, err := ring.Set(context.Background(), name, key) // the ring bounds it
	if err != nil {
		v.log.Warn("a key that was typed into a chat cannot be stored", "err", err)
		return "That looks like an API key. It was taken out of the conversation; the model did not see it, and it could not be stored."
	}

	where := "the system keyring"
	if place.File != "" {
		where = place.File + ", which only you can read (" + place.Why + ")"
	}
	setting := "SETTING"
	if p := keyOwner(key); p != "" {
		setting = "providers." + p + ".apiKey"
	}
	return fmt.Sprintf("That looks like an API key. It was taken out of the conversation; the model did not see it. It is stored in %s.\n"+
		"To use it: nanobot config set %s '${keyring:%s}'. To forget it: nanobot keys remove %s. The chat platform may still have it.", where, setting, name, name)
}

// keyOwner is the provider whose keys begin like this one.
func keyOwner(key string) string {
	for _, p := range [][2]string{
		{"sk-ant-", "anthropic"},
		{"sk-or-", "openrouter"},
		{"gsk_", "groq"},
		{"AIza", "gemini"},
		{"nvapi-", "nvidia"},
		{"hf_", "huggingface"},
		{"sk-proj-", "openai"},
	} {
		if strings.HasPrefix(key, p[0]) {
			return p[1]
		}
	}
	return ""
}
