package bedrock

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // how the vendor's tools name cached tokens
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// signIn is the file in which "aws sso login" keeps a sign-in.
type signIn struct {
	AccessToken  string    `json:"accessToken"`
	ExpiresAt    time.Time `json:"expiresAt"`
	RefreshToken string    `json:"refreshToken"`
	ClientID     string    `json:"clientId"`
	ClientSecret string    `json:"clientSecret"`
}

var errSignInEnded = errors.New("the sign-in has ended")

// fromSSO uses the sign-in that "aws sso login" keeps in a file. A session of
// the newer form is renewed without the browser as long as it can be.
func (k *keyring) fromSSO(ctx context.Context, p *profile, name string) (credentials, error) {
	account, role := p.values["sso_account_id"], p.values["sso_role_name"]
	if account == "" || role == "" {
		return credentials{}, fmt.Errorf("the AWS profile %q needs sso_account_id and sso_role_name", name)
	}

	region, key := p.values["sso_region"], p.values["sso_start_url"]
	if p.session != nil {
		region, key = p.session.region, p.session.name
	}

	sum := sha1.Sum([]byte(key)) //nolint:gosec // a file's name
	path := k.awsFile("sso", "cache", hex.EncodeToString(sum[:])+".json")

	source := "sign-in of profile " + name
	c, err := k.askPortal(ctx, path, region, account, role, p.session != nil)
	switch {
	case err == nil:
		c.source = source
		return c, nil
	case ctx.Err() != nil:
		return credentials{}, fmt.Errorf("%s: %w", source, err)
	}

	return credentials{}, fmt.Errorf("%s: %w; if the sign-in has ended, run: aws sso login --profile %s", source, err, name)
}

// askPortal exchanges the sign-in in a file for the credentials of a role.
func (k *keyring) askPortal(ctx context.Context, path, region, account, role string, renewable bool) (c credentials, err error) {
	token, err := k.signInToken(ctx, path, region, renewable)
	if err != nil {
		return c, err
	}

	data, err := k.ask(ctx, serviceCall{
		service: portal,
		region:  region,
		method:  http.MethodGet,
		path:    "/federation/credentials",
		query:   url.Values{"account_id": {account}, "role_name": {role}},
		header:  http.Header{"X-Amz-Sso_bearer_token": {token.Reveal()}},
	})
	if err != nil {
		return c, err
	}

	var a struct {
		RoleCredentials struct {
			AccessKeyID     string `json:"accessKeyId"`
			SecretAccessKey string `json:"secretAccessKey"`
			SessionToken    string `json:"sessionToken"`
			Expiration      int64  `json:"expiration"` // milliseconds
		} `json:"roleCredentials"`
	}
	if json.Unmarshal(data, &a) != nil {
		return c, errors.New("the answer of Identity Center is not JSON") // the error could quote a secret
	}

	c = credentials{
		id:      a.RoleCredentials.AccessKeyID,
		secret:  httpsafe.NewSecret(a.RoleCredentials.SecretAccessKey),
		token:   httpsafe.NewSecret(a.RoleCredentials.SessionToken),
		expires: time.UnixMilli(a.RoleCredentials.Expiration).UTC(),
	}
	if !c.complete() {
		return credentials{}, errors.New("the answer of Identity Center holds no credentials")
	}
	return c, nil
}

// signInToken returns the token of a sign-in, renewed if it has ended and can be.
func (k *keyring) signInToken(ctx context.Context, path, region string, renewable bool) (token httpsafe.Secret, err error) {
	data, err := readFile(path)
	if err != nil {
		return token, fmt.Errorf("read the sign-in: %w", err)
	}

	var s signIn
	if json.Unmarshal(data, &s) != nil {
		return token, fmt.Errorf("the sign-in in %s cannot be read", path) // the error could quote a secret
	}

	canRenew := renewable && s.ClientID != "" && s.ClientSecret != "" && s.RefreshToken != ""
	switch {
	case s.AccessToken == "" || s.ExpiresAt.IsZero():
		return token, fmt.Errorf("the sign-in in %s lacks accessToken or expiresAt", path)
	case !time.Now().After(s.ExpiresAt):
		return httpsafe.NewSecret(s.AccessToken), nil
	case !canRenew:
		return token, errSignInEnded
	}

	s, err = k.renew(ctx, s, region)
	if err != nil {
		return token, fmt.Errorf("renew the sign-in: %w", err)
	}
	if err := s.save(path, data); err != nil {
		return token, fmt.Errorf("save the renewed sign-in: %w", err)
	}
	return httpsafe.NewSecret(s.AccessToken), nil
}

// renew exchanges the refresh token of a sign-in.
func (k *keyring) renew(ctx context.Context, s signIn, region string) (signIn, error) {
	body, err := json.Marshal(map[string]string{
		"clientId":     s.ClientID,
		"clientSecret": s.ClientSecret,
		"grantType":    "refresh_token",
		"refreshToken": s.RefreshToken,
	})
	if err != nil {
		return s, err
	}

	data, err := k.ask(ctx, serviceCall{
		service: oidc,
		region:  region,
		method:  http.MethodPost,
		path:    "/token",
		header:  http.Header{"Content-Type": {"application/json"}},
		body:    body,
	})
	if err != nil {
		return s, err
	}

	var a struct {
		AccessToken  string `json:"accessToken"`
		ExpiresIn    int    `json:"expiresIn"` // seconds
		RefreshToken string `json:"refreshToken"`
	}
	if json.Unmarshal(data, &a) != nil || a.AccessToken == "" {
		return s, errors.New("the answer of Identity Center holds no token")
	}

	s.AccessToken = a.AccessToken
	s.ExpiresAt = time.Now().Add(time.Duration(a.ExpiresIn) * time.Second).UTC().Truncate(time.Second)
	s.RefreshToken = cmp.Or(a.RefreshToken, s.RefreshToken)
	return s, nil
}

// save writes a renewed sign-in where the vendor's tool finds it. old is what the
// file holds: settings that we do not know, and its rights, stay.
func (s signIn) save(path string, old []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}

	fields := map[string]any{}
	if err := json.Unmarshal(old, &fields); err != nil {
		return err
	}

	fields["accessToken"] = s.AccessToken
	fields["expiresAt"] = s.ExpiresAt.Format(time.RFC3339)
	fields["refreshToken"] = s.RefreshToken
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return diskio.WriteFile(path, append(data, '\n'), info.Mode().Perm())
}
