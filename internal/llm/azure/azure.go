// Package azure finds Entra ID tokens for Azure OpenAI without the vendor's
// SDK: from a client secret, a federated token, the managed identity of the
// machine, or the az command line. It hides which of them works here, and when
// a token must be fetched again.
package azure

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/oauth"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

const (
	// defaultScope is the scope of a token for Azure OpenAI.
	defaultScope = "https://cognitiveservices.azure.com/.default"

	defaultAuthority = "https://login.microsoftonline.com"
	defaultMetadata  = "http://169.254.169.254/metadata/identity/oauth2/token"

	// margin is how long before its end a token is no longer used.
	margin = 5 * time.Minute
	// fresh is how long a token fetched after a refusal answers the refusals
	// of other requests too.
	fresh = 10 * time.Second
	// metadataPatience is how long the metadata service may take to accept us:
	// it answers at once where it exists and never elsewhere.
	metadataPatience = 2 * time.Second
	// fetchPatience bounds any other way to a token.
	fetchPatience = 30 * time.Second
)

// Options say where credentials are looked for. Empty fields are read from the
// environment (AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET,
// AZURE_FEDERATED_TOKEN_FILE, AZURE_AUTHORITY_HOST).
type Options struct {
	TenantID     string
	ClientID     string // of an application, or of a user-assigned identity
	ClientSecret httpsafe.Secret
	TokenFile    string // holds a federated token, read again each time

	Scope       string // "" means defaultScope
	Authority   string // the sign-in service; "" means the public cloud's
	MetadataURL string // the machine's identity service; "" means the usual address

	Client *http.Client // for the sign-in service; nil: one from httpsafe
	// MetadataClient must use no proxy; nil: one from httpsafe.
	MetadataClient *http.Client
	Getenv         func(string) string // nil: os.Getenv
	// Command runs a program and returns what it printed; nil: os/exec.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	Log     *slog.Logger // nil: no log
}

// token is a credential with its end.
type token struct {
	value   string
	expires time.Time
}

func (t token) usable() bool { return t.value != "" && time.Until(t.expires) > margin }

// source is one way to a token. errNotHere from fetch means that the way does
// not exist on this machine.
type source struct {
	name  string
	fetch func(ctx context.Context) (token, error)
}

var errNotHere = errors.New("not available here")

type signer struct {
	o       Options
	sources []source
	tokens  *oauth.Source[token]
	source  int // that gave the last token, -1 before the first; only renewals use it
}

var _ wire.Signer = (*signer)(nil)

// New makes a signer. It does no I/O.
func New(o Options) (wire.Signer, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}

	for _, f := range []struct {
		to        *string
		env, rest string
	}{
		{&o.TenantID, "AZURE_TENANT_ID", ""},
		{&o.ClientID, "AZURE_CLIENT_ID", ""},
		{&o.TokenFile, "AZURE_FEDERATED_TOKEN_FILE", ""},
		{&o.Authority, "AZURE_AUTHORITY_HOST", defaultAuthority},
		{&o.Scope, "", defaultScope},
		{&o.MetadataURL, "", defaultMetadata},
	} {
		if *f.to == "" && f.env != "" {
			*f.to = o.Getenv(f.env)
		}
		if *f.to == "" {
			*f.to = f.rest
		}
	}

	if o.ClientSecret.IsZero() {
		o.ClientSecret = httpsafe.NewSecret(o.Getenv("AZURE_CLIENT_SECRET"))
	}

	if o.Command == nil {
		o.Command = func(ctx context.Context, name string, args ...string) ([]byte, error) {
			return exec.CommandContext(ctx, name, args...).Output()
		}
	}

	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	var err error
	if o.Client == nil {
		if o.Client, err = httpsafe.Client(httpsafe.Options{}); err != nil {
			return nil, err
		}
	}

	if o.MetadataClient == nil {
		if o.MetadataClient, err = httpsafe.Client(httpsafe.Options{Direct: true}); err != nil {
			return nil, err
		}
	}

	s := &signer{o: o, source: -1}
	s.sources = []source{
		{"client secret", s.clientSecret},
		{"federated token", s.federated},
		{"managed identity", s.managed},
		{"az command", s.commandLine},
	}

	s.tokens = oauth.NewSource(oauth.SourceOptions[token]{
		Key: func(t token) string { return t.value }, Fresh: token.usable, Renew: s.fetch, OverlapWait: fresh,
	})
	return s, nil
}

// Sign implements wire.Signer.
func (s *signer) Sign(ctx context.Context, req *http.Request, _ []byte) error {
	t, err := s.tokens.Get(ctx, "")
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+t.value)
	return nil
}

// Refused implements wire.Signer.
func (s *signer) Refused(ctx context.Context) bool {
	err := s.tokens.Replace(ctx)
	if err != nil {
		s.o.Log.WarnContext(ctx, "no new token after a refusal", "err", err)
	}
	return err == nil
}

// fetch gets another token than the refused one: the way that worked before is
// asked first, then the others in their order.
func (s *signer) fetch(ctx context.Context, refused string) (token, error) {
	order := make([]int, 0, len(s.sources)+1)
	if s.source >= 0 {
		order = append(order, s.source)
	}

	for i := range s.sources {
		if i != s.source {
			order = append(order, i)
		}
	}

	var problems []string
	kind := llm.Auth
	for _, i := range order {
		t, err := s.sources[i].fetch(ctx)
		if err == nil && t.value == refused {
			return token{}, errors.New("the token that was refused was given again")
		}
		if err == nil {
			s.source = i
			return t, nil
		}
		if ctx.Err() != nil {
			return token{}, ctx.Err()
		}
		if errors.Is(err, errNotHere) {
			continue
		}

		problems = append(problems, s.sources[i].name+": "+httpsafe.RedactSecrets(err.Error(), s.o.ClientSecret))
		kind = kindOf(err)
		if i < 2 {
			break // configured on purpose: another identity would be a surprise
		}
	}

	if len(problems) == 0 {
		return token{}, &llm.Error{Kind: llm.Auth, Message: "no Azure credentials were found; set an API key, AZURE_TENANT_ID with AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or run: az login"}
	}
	return token{}, &llm.Error{Kind: kind, Message: "Azure sign-in: " + strings.Join(problems, "; ")}
}

// kindOf tells trouble that may pass from credentials that are wrong.
func kindOf(err error) llm.Kind {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e.Kind
	}
	if e, ok := errors.AsType[*oauth.RefusedError](err); ok && (e.Status == http.StatusTooManyRequests || e.Status >= 500) {
		return llm.ServerError
	}
	return llm.Auth
}
