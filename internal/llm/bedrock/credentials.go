package bedrock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

const (
	// refreshEarly is how long before their end credentials are replaced, so
	// that none expires on the way.
	refreshEarly = 5 * time.Minute
	// lookTimeout bounds one search for credentials, a process included.
	lookTimeout = 60 * time.Second
)

// credentials are one key pair. They never leave this process other than as a
// signature.
type credentials struct {
	id      string
	secret  httpsafe.Secret
	token   httpsafe.Secret // of temporary credentials
	expires time.Time       // zero: never
	source  string          // where they came from, for messages
}

// Format hides the secrets: fmt does not ask the fields of a struct to do so.
func (c credentials) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "credentials from %s", c.source)
}

func (c credentials) complete() bool { return c.id != "" && !c.secret.IsZero() }

// usable reports whether the credentials last for another d.
func (c credentials) usable(now time.Time, d time.Duration) bool {
	return c.complete() && (c.expires.IsZero() || now.Add(d).Before(c.expires))
}

func (c credentials) same(o credentials) bool {
	return c.id == o.id && c.secret == o.secret && c.token == o.token
}

// errNoCredentials means that a source holds none, so the next one is asked.
var errNoCredentials = errors.New("no credentials here")

// keyring finds and keeps credentials. The sources, first hit wins: the
// environment (unless a profile was asked for by name), a role for the web
// identity of a container platform, the shared files of the vendor's tools,
// the container's endpoint, the machine's endpoint.
// Nothing is ever put into the environment.
type keyring struct {
	getenv  func(string) string
	home    string
	profile string       // asked for in our own configuration
	region  string       // for the services that give out credentials; may be empty
	client  *http.Client // to metadata endpoints
	public  *http.Client // to the services that give out credentials
	log     *slog.Logger

	turn chan struct{} // holds one token: whoever has it looks for credentials

	mu  sync.Mutex
	now credentials
}

// get returns credentials that are good for at least a moment. Of concurrent
// callers one looks, the others wait for what it finds.
func (k *keyring) get(ctx context.Context) (credentials, error) {
	if c := k.held(); c.usable(time.Now(), refreshEarly) {
		return c, nil
	}

	select {
	case <-k.turn:
		defer func() { k.turn <- struct{}{} }()
	case <-ctx.Done():
		return credentials{}, ctx.Err()
	}

	old := k.held()
	if old.usable(time.Now(), refreshEarly) {
		return old, nil
	}

	look, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c, err := k.load(look)
	switch {
	case err == nil:
		k.hold(c)
		return c, nil
	case ctx.Err() != nil:
		return credentials{}, ctx.Err()
	case old.usable(time.Now(), 0): // better than nothing until they end
		k.log.WarnContext(ctx, "credentials not renewed, the old ones still work", "source", old.source, "err", err)
		return old, nil
	}

	return credentials{}, err
}

func (k *keyring) held() credentials {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

func (k *keyring) hold(c credentials) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = c
}

// refused forgets credentials the server did not take and reports whether
// other ones were found, so that one more try makes sense.
func (k *keyring) refused(ctx context.Context, bad credentials) bool {
	k.mu.Lock()
	if k.now.same(bad) {
		k.now = credentials{}
	}
	k.mu.Unlock()
	c, err := k.get(ctx)
	return err == nil && !c.same(bad)
}

// load asks the sources in order.
func (k *keyring) load(ctx context.Context) (credentials, error) {
	sources := []func(context.Context) (credentials, error){k.fromEnv, k.fromWebIdentity, k.fromFiles, k.fromContainer, k.fromMachine}
	if k.profile != "" {
		sources = sources[2:3]
	}

	for _, source := range sources {
		c, err := source(ctx)
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, errNoCredentials):
			return credentials{}, err
		}
	}

	if k.profile != "" {
		return credentials{}, fmt.Errorf("profile %q has no credentials in the AWS files", k.profile)
	}
	return credentials{}, errors.New("no AWS credentials found: set an API key, AWS_BEARER_TOKEN_BEDROCK, " +
		"AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws/credentials")
}

func (k *keyring) fromEnv(context.Context) (credentials, error) {
	c := credentials{
		id:     strings.TrimSpace(k.getenv("AWS_ACCESS_KEY_ID")),
		secret: httpsafe.NewSecret(strings.TrimSpace(k.getenv("AWS_SECRET_ACCESS_KEY"))),
		token:  httpsafe.NewSecret(strings.TrimSpace(k.getenv("AWS_SESSION_TOKEN"))),
		source: "environment",
	}
	if !c.complete() {
		return credentials{}, errNoCredentials
	}
	return c, nil
}

// profileName returns the profile in use, and whether it was chosen by a
// setting.
func (k *keyring) profileName() (name string, chosen bool) {
	name = cmp.Or(k.profile, k.getenv("AWS_PROFILE"), k.getenv("AWS_DEFAULT_PROFILE"))
	return cmp.Or(name, "default"), name != ""
}

// fromFiles follows the profile of the shared files to its credentials.
func (k *keyring) fromFiles(ctx context.Context) (credentials, error) {
	name, chosen := k.profileName()
	p, exists, err := k.readProfile(name)
	switch {
	case err != nil:
		return credentials{}, err
	case !exists && chosen:
		return credentials{}, fmt.Errorf("the AWS profile %q does not exist", name)
	}
	return k.fromProfile(ctx, p, name)
}
