package teams

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const (
	frameworkIssuer = "https://api.botframework.com"
	clockSkew       = 5 * time.Minute
	keysFresh       = time.Hour
	keysAgain       = time.Minute // between two looks for a key that is not known
	keysTimeout     = 10 * time.Second
	maxKeys         = 1 << 20 // bytes of a list of keys
)

// verifier tells requests of Teams from forged ones.
type verifier struct {
	o         *options
	now       func() time.Time
	framework *keySet // signs for bots of every kind
	entra     *keySet // of the bot's own directory; nil if that is not known
}

func newVerifier(d chat.Deps, o *options, h *http.Client) *verifier {
	rest := kit.REST{Client: h, Judge: judgeKeys, Most: maxKeys}
	v := &verifier{o: o, now: d.Now, framework: &keySet{url: o.OpenIDURL, rest: rest, now: d.Now}}
	if o.TenantID != "" {
		v.entra = &keySet{url: o.LoginBase + "/" + o.TenantID + "/v2.0/.well-known/openid-configuration", rest: rest, now: d.Now}
	}
	return v
}

// forgedError is the reason why a request is not one of Teams.
type forgedError struct{ why string }

func (e *forgedError) Error() string { return e.why }

func forged(why string) error { return &forgedError{why} }

// claims are what a token says.
type claims struct {
	jwt.RegisteredClaims
	ServiceURL string `json:"serviceurl"`
	Tenant     string `json:"tid"`
	AppID      string `json:"appid"` // of the caller, in tokens of the first version
	Caller     string `json:"azp"`   // the same in tokens of the second version
}

// verify checks the token that came with an activity. A forgedError means that
// the request is not one of Teams, any other error that it cannot be checked now.
func (v *verifier) verify(ctx context.Context, token string, a *activity) error {
	var c claims
	var used key
	_, err := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}), jwt.WithAudience(v.o.AppID), jwt.WithLeeway(clockSkew),
		jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(), jwt.WithTimeFunc(v.now),
	).ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		set := v.issuer(c.Issuer)
		if set == nil {
			return nil, forged("its issuer is not one of Microsoft for this bot")
		}
		id, _ := t.Header["kid"].(string)
		k, err := set.get(ctx, id)
		used = k
		return k.public, err
	})
	switch {
	case errors.Is(err, errNoKeys):
		return err
	case err != nil:
		return forged(reason(err))
	case c.Issuer == frameworkIssuer:
		return endorsed(&c, used, a)
	}

	return v.own(&c)
}

// issuer returns the list with the keys of an issuer, nil for an unknown one.
func (v *verifier) issuer(name string) *keySet {
	switch {
	case name == frameworkIssuer:
		return v.framework
	case v.entra == nil:
		return nil
	case strings.EqualFold(name, "https://sts.windows.net/"+v.o.TenantID+"/"), strings.EqualFold(name, "https://login.microsoftonline.com/"+v.o.TenantID+"/v2.0"):
		return v.entra
	}
	return nil
}

// endorsed checks what a token of the Bot Framework says about the activity:
// which service sent it, and where answers go.
func endorsed(c *claims, k key, a *activity) error {
	if len(k.endorsements) > 0 && !slices.Contains(k.endorsements, a.ChannelID) {
		return forged("its key is for other services")
	}
	if c.ServiceURL == "" || c.ServiceURL != a.ServiceURL {
		return forged("it is for another serviceUrl")
	}
	return nil
}

// own checks a token of the bot's own directory. Any application of a directory
// can ask it for a token for any other, so only the bot's own application
// counts.
func (v *verifier) own(c *claims) error {
	switch {
	case !strings.EqualFold(c.Tenant, v.o.TenantID):
		return forged("it is of another directory")
	case !strings.EqualFold(c.AppID+c.Caller, v.o.AppID):
		return forged("it was issued to another application of the directory")
	}
	return nil
}

// reason returns the cause of a refusal in a few words, the same each time.
func reason(err error) string {
	if e, ok := errors.AsType[*forgedError](err); ok {
		return e.why
	}

	for cause, why := range map[error]string{
		jwt.ErrTokenExpired:              "it is expired",
		jwt.ErrTokenNotValidYet:          "it is not valid yet",
		jwt.ErrTokenInvalidAudience:      "it is for another bot: check appId",
		jwt.ErrTokenRequiredClaimMissing: "it lacks a claim",
		jwt.ErrTokenMalformed:            "it is malformed",
	} {
		if errors.Is(err, cause) {
			return why
		}
	}

	return "its signature is wrong"
}

// key is one that an issuer signs with.
type key struct {
	public       *rsa.PublicKey
	endorsements []string
}

var errNoKeys = errors.New("the keys that Teams signs with cannot be read")

// keySet is the list of an issuer's keys.
type keySet struct {
	url  string
	rest kit.REST // takes whole addresses
	now  func() time.Time

	mu    sync.Mutex // also while the list is fetched
	keys  map[string]key
	at    time.Time // of the list
	tried time.Time
}

// get finds a key. A list that is old, or that does not have the key, is
// fetched again; one that cannot be fetched again goes on to be used.
func (s *keySet) get(ctx context.Context, id string) (key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	k, known := s.keys[id]
	now := s.now()
	if known && now.Sub(s.at) < keysFresh || now.Sub(s.tried) < keysAgain && s.keys != nil {
		return found(k, known)
	}

	s.tried = now
	list, err := s.fetch(ctx)
	if err != nil {
		s.tried = time.Time{} // it is our trouble, not the caller's
		if known {
			return k, nil
		}
		return key{}, fmt.Errorf("%w: %w", errNoKeys, err)
	}

	s.keys, s.at = list, now
	k, known = list[id]
	return found(k, known)
}

func found(k key, known bool) (key, error) {
	if !known {
		return key{}, forged("its key is not published")
	}
	return k, nil
}

// fetch reads the list.
func (s *keySet) fetch(ctx context.Context) (map[string]key, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	var about struct {
		Keys string `json:"jwks_uri"`
	}
	if err := s.read(ctx, s.url, &about); err != nil {
		return nil, err
	}

	var list struct {
		Keys []struct {
			Kind         string   `json:"kty"`
			ID           string   `json:"kid"`
			N            string   `json:"n"`
			E            string   `json:"e"`
			Endorsements []string `json:"endorsements"`
		} `json:"keys"`
	}
	if err := s.read(ctx, about.Keys, &list); err != nil {
		return nil, err
	}

	out := map[string]key{}
	for _, k := range list.Keys {
		n, errN := base64.RawURLEncoding.DecodeString(strings.TrimRight(k.N, "="))
		e, errE := base64.RawURLEncoding.DecodeString(strings.TrimRight(k.E, "="))
		if k.Kind != "RSA" || k.ID == "" || errN != nil || errE != nil || len(n) < 256 || len(e) == 0 || len(e) > 4 {
			continue
		}
		out[k.ID] = key{&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}, k.Endorsements}
	}

	if len(out) == 0 {
		return nil, errors.New("the list of keys is empty")
	}
	return out, nil
}

func (s *keySet) read(ctx context.Context, address string, into any) error {
	return s.rest.Do(ctx, kit.Call{Method: http.MethodGet, Path: address, Name: "fetch the keys"}, into)
}

// judgeKeys reads a list of keys, or where it is.
func judgeKeys(a kit.Answer) (json.RawMessage, error) {
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP status %d", a.Call, a.Status)
	}
	return a.Body, nil
}
