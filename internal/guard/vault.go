package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/keyring"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// Vault takes keys out of what people type before anything else sees or stores
// it, and stores those of the owner.
type Vault struct {
	ring    func() *keyring.Ring // opened with the first key that is typed
	secrets *httpsafe.Registry
	log     *slog.Logger
}

// NewVault makes a vault for the keyring of a data folder.
func NewVault(o keyring.Options, secrets *httpsafe.Registry, log *slog.Logger) *Vault {
	return &Vault{
		ring:    sync.OnceValue(func() *keyring.Ring { return keyring.Open(o) }),
		secrets: secrets,
		log:     log,
	}
}

// Clean returns a message without the keys that were typed in it. The note, if
// there is one, is for the person who typed them. A command line that the owner
// runs is left as it is.
func (v *Vault) Clean(in bus.Inbound) (_ bus.Inbound, note string) {
	if in.Event != "" || in.Shell {
		return in, ""
	}

	in.History = slices.Clone(in.History)
	for i := range in.History {
		in.History[i].Text, _ = httpsafe.TypedKeys(in.History[i].Text)
	}

	in.Quoted = slices.Clone(in.Quoted)
	for i := range in.Quoted {
		in.Quoted[i].Text, _ = httpsafe.TypedKeys(in.Quoted[i].Text)
	}

	text, keys := httpsafe.TypedKeys(in.Text)
	if len(keys) == 0 {
		return in, ""
	}

	in.Text = text
	if in.Untrusted {
		return in, "" // words of a third person; there is no one to tell
	}
	if in.Scope != "" {
		return in, phrase.In(in.Language, "That looks like a key or password. It was taken out of the conversation and kept nowhere. Other people in this chat may have seen it: replace it.")
	}

	var notes []string
	for _, key := range keys {
		if n := v.keep(in.Language, key); n != "" {
			notes = append(notes, n)
		}
	}
	return in, strings.Join(notes, "\n")
}

// keep stores a key and says where it is. It is empty for one that was stored
// before.
func (v *Vault) keep(language, key string) string {
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
		return phrase.In(language, "That looks like an API key. It was taken out of the conversation; the model did not see it, and it could not be stored.")
	}

	where := phrase.In(language, "the system keyring")
	if place.File != "" {
		where = phrase.In(language, "%s, which only you can read (%s)", place.File, place.Why)
	}

	setting := "SETTING"
	if p := keyOwner(key); p != "" {
		setting = "providers." + p + ".apiKey"
	}
	return phrase.In(language, "That looks like an API key. It was taken out of the conversation; the model did not see it. It is stored in %s.\n"+
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
