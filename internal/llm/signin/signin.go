// Package signin signs a person in at providers that give out expiring tokens
// instead of keys, and keeps those tokens usable. It hides the ways to sign in
// (a code typed on another device, a browser that returns to this machine),
// where tokens are kept (the system keyring, else a private file), and when
// they are renewed.
//
// An Account is one provider's sign-in. Its Signer puts the current token on
// requests. Renewing happens once however many requests need it, in this
// process and in others that share the folder: refresh tokens work only once,
// and a program that uses one twice is signed out.
//
// Making an Account does no I/O; the keyring is asked only when a token is
// needed. Accounts are safe for concurrent use.
package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// Options say where tokens are kept and how the provider is reached.
type Options struct {
	// Store is the folder of token files.
	Store store.Store
	// Home is the user's home folder, where tokens of the Python program and of
	// the Codex CLI are looked for; "" means nowhere.
	Home string
	// Getenv reads overrides of client ids and addresses, and
	// NANOBOT_NO_KEYRING, which keeps tokens in files. nil: none are set.
	Getenv  func(string) string
	Client  *http.Client // nil: one from httpsafe
	Version string       // of the product, for the User-Agent
	Log     *slog.Logger // nil: no log
	// BaseURL is the user's own address of the API. It switches off the
	// address that a provider assigns to an account.
	BaseURL string
}

// errNotSignedIn is in the chain of the error of a request that found no token.
var errNotSignedIn = errors.New("not signed in")

// flow has the steps of a sign-in that differ between providers.
type flow interface {
	login(ctx context.Context, d Dialog) (token, error)
	// refresh gets a new token for an expired one. errNoRefresh says that the
	// provider has no such thing.
	refresh(ctx context.Context, old token) (token, error)
	signer(a *Account) wire.Signer
	base() string
}

// brand holds what is known about a provider without asking it.
type brand struct {
	name    string // as in the configuration
	command string // as on the command line
	short   string // as in the catalog's Auth
	display string
	model   string // what login --set-main chooses
	caution string // what a person should know before signing in
	foreign func(Options) []foreign
	make    func(*client, Options) (flow, error)
}

func brands() []brand {
	return []brand{
		{
			name: "openai_codex", command: "openai-codex", short: "codex", display: "OpenAI Codex (ChatGPT subscription)", model: "openai-codex/gpt-5.6-sol",
			foreign: codexForeign, make: newCodex,
		},
		{
			name: "github_copilot", command: "github-copilot", short: "copilot", display: "GitHub Copilot (experimental)", model: "github-copilot/gpt-5.4-mini",
			caution: "GitHub takes this sign-in for one of an editor, and its terms may not cover other programs. " +
				"A client of your own is set with NANOBOT_GITHUB_COPILOT_CLIENT_ID.",
			foreign: copilotForeign, make: newCopilot,
		},
	}
}

// Names lists the providers one can sign in at, as typed on the command line.
func Names() []string {
	var out []string
	for _, b := range brands() {
		out = append(out, b.command)
	}
	return out
}

// Known reports whether a provider, by any of its names, needs a sign-in.
func Known(name string) bool {
	_, ok := find(name)
	return ok
}

// ConfigName returns the name that a provider has in the configuration, whichever
// of its names is given; "" for one without a sign-in.
func ConfigName(name string) string {
	b, _ := find(name)
	return b.name
}

func find(name string) (brand, bool) {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, b := range brands() {
		if b.name == name || b.short == name {
			return b, true
		}
	}
	return brand{}, false
}

// Account is a sign-in at one provider.
type Account struct {
	brand brand
	wire  *client
	flow  flow
	store *tokenStore
	log   *slog.Logger

	tokens *oauth.Source[token]
	base   string
}

// New makes the account of a provider, named as in the configuration, on the
// command line or in the catalog's Auth. It does no I/O.
func New(name string, o Options) (*Account, error) {
	b, ok := find(name)
	if !ok {
		return nil, fmt.Errorf("there is no sign-in for %q; there is one for %s", name, strings.Join(Names(), ", "))
	}

	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	if o.Client == nil {
		var err error
		if o.Client, err = httpsafe.Client(httpsafe.Options{HeaderTimeout: oauth.Timeout}); err != nil {
			return nil, err
		}
	}

	w := &client{name: b.name, command: b.command, Wire: oauth.Wire{Client: o.Client, Agent: userAgent(o.Version)}}
	f, err := b.make(w, o)
	if err != nil {
		return nil, &llm.Error{Kind: llm.Configuration, Provider: b.name, Message: err.Error(), Err: err}
	}

	a := &Account{brand: b, wire: w, flow: f, log: o.Log, base: f.base()}
	if o.BaseURL != "" {
		a.base = o.BaseURL
	}

	a.store = newStore(b, o)
	a.tokens = oauth.NewSource(oauth.SourceOptions[token]{
		Key: func(t token) string { return t.Access }, Fresh: token.fresh, Renew: a.renew, Grace: grace, OverlapWait: renewalOverlap,
	})
	return a, nil
}

func userAgent(version string) string {
	if version == "" {
		return "nanobot"
	}
	return "nanobot/" + version
}

// Name returns the provider's name in the configuration, such as openai_codex.
func (a *Account) Name() string { return a.brand.name }

// Command returns the provider's name on the command line, such as openai-codex.
func (a *Account) Command() string { return a.brand.command }

// Display returns the provider's name for people.
func (a *Account) Display() string { return a.brand.display }

// Caution returns what a person should know before signing in, "" if nothing.
func (a *Account) Caution() string { return a.brand.caution }

// DefaultModel returns the model to use when the user names none.
func (a *Account) DefaultModel() string { return a.brand.model }

// BaseURL returns where the provider's API is found; for Codex what comes
// before /codex/responses.
func (a *Account) BaseURL() string { return a.base }

// Signer puts the account's token on requests to BaseURL. Every call returns a
// signer of the same token.
func (a *Account) Signer() wire.Signer { return a.flow.signer(a) }

// Login signs in and keeps the token.
func (a *Account) Login(ctx context.Context, d Dialog) (Status, error) {
	t, err := a.flow.login(ctx, d)
	if err != nil {
		return Status{}, err
	}

	unlock, err := a.store.alone(ctx)
	if err != nil {
		return Status{}, err
	}

	defer unlock()
	if err := a.store.save(ctx, t); err != nil {
		return Status{}, fmt.Errorf("keep the sign-in: %w", err)
	}

	a.tokens.Put(t)
	return a.Status(), nil
}

// Logout forgets the token here; the provider is not told. It returns what was
// removed, which is nothing when there was no sign-in.
func (a *Account) Logout(ctx context.Context) ([]string, error) {
	unlock, err := a.store.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	a.tokens.Put(token{})
	return a.store.remove(ctx)
}

// Status reports whether there is a sign-in. It reads a file and asks neither
// the keyring nor the provider.
func (a *Account) Status() Status { return a.store.status() }

// Check makes sure that a usable token is there, renewing it if needed.
func (a *Account) Check(ctx context.Context) error {
	_, err := a.token(ctx)
	return err
}

// token returns a token good for at least the next minute.
func (a *Account) token(ctx context.Context) (token, error) { return a.tokens.Get(ctx, "") }

const (
	// renewalOverlap is how long after a renewal another refusal counts as the answer
	// to a request that was already on its way with the old token.
	renewalOverlap = 30 * time.Second
	// grace is how long a renewal goes on after its caller gave up.
	grace = 5 * time.Second
)

// renew finds a good token that is not the refused one: in the store, where
// another process may have put it, else by refreshing. The whole of it happens
// under the lock, so that a refresh token is never used twice.
func (a *Account) renew(ctx context.Context, refused string) (token, error) {
	good := func(t token) bool { return t.fresh() && t.Access != refused }
	if t, err := a.store.load(ctx); err == nil && good(t) {
		return t, nil
	}

	unlock, err := a.store.alone(ctx)
	if err != nil {
		return token{}, err
	}

	defer unlock()
	old, err := a.store.loadOrImport(ctx)
	if err != nil {
		return token{}, a.wire.signIn(err)
	}
	if good(old) {
		return old, nil
	}

	next, err := a.flow.refresh(ctx, old)
	if err != nil {
		// A program that knows no lock may have been faster.
		if t, again := a.store.load(ctx); again == nil && good(t) && t.Access != old.Access {
			return t, nil
		}
		return token{}, err
	}

	if err := a.store.save(ctx, next); err != nil {
		a.log.WarnContext(ctx, "cannot save a renewed sign-in; it ends with this process", "provider", a.brand.name, "err", err)
	}
	return next, nil
}
