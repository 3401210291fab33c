package bedrock

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// sessionName is how our sessions show in the account's records.
const sessionName = "nanobot"

// fromProfile finds the credentials a profile stands for: its own, or those of
// a role that is assumed with the ones it names as their source.
func (k *keyring) fromProfile(ctx context.Context, p *profile, name string) (c credentials, err error) {
	switch {
	case p.values["mfa_serial"] != "":
		return c, unsupported(name, "asks for a code of a second device")
	case p.source != nil:
		c, err = k.fromProfile(ctx, p.source, p.source.name)
	case p.hasKeys():
		c = credentials{
			id:     p.values["aws_access_key_id"],
			secret: httpsafe.NewSecret(p.values["aws_secret_access_key"]),
			token:  httpsafe.NewSecret(p.values["aws_session_token"]),
			source: "profile " + name,
		}

	case p.values["credential_source"] != "":
		c, err = k.fromNamed(ctx, p.values["credential_source"])
	case p.values["web_identity_token_file"] != "":
		return k.webIdentity(ctx, p.values["web_identity_token_file"], p.values["role_arn"], p.values["role_session_name"], p.values["region"])
	case p.session != nil || p.values["sso_start_url"] != "":
		c, err = k.fromSSO(ctx, p, name)
	case p.values["login_session"] != "":
		return c, unsupported(name, "signs in through the browser")
	case p.values["credential_process"] != "":
		c, err = runProcess(ctx, p.values["credential_process"], name)
	default:
		err = errNoCredentials
	}

	if err != nil || p.values["role_arn"] == "" {
		return c, err
	}
	return k.assume(ctx, c, p, name)
}

// fromNamed returns the source that a profile names with credential_source.
func (k *keyring) fromNamed(ctx context.Context, source string) (c credentials, err error) {
	switch source {
	case "Environment":
		c, err = k.fromEnv(ctx)
	case "EcsContainer":
		c, err = k.fromContainer(ctx)
	case "Ec2InstanceMetadata":
		c, err = k.fromMachine(ctx)
	default:
		return c, fmt.Errorf("credential_source must be Environment, EcsContainer or Ec2InstanceMetadata, not %q", source)
	}

	if errors.Is(err, errNoCredentials) {
		err = fmt.Errorf("the AWS profile takes its credentials from %s, which has none", source)
	}
	return c, err
}

// roleLifetime is how long the credentials of an assumed role last, unless the
// profile says otherwise. Every role allows it, and a chain of roles too.
const roleLifetime = 15 * time.Minute

// assume exchanges credentials for those of the profile's role.
func (k *keyring) assume(ctx context.Context, c credentials, p *profile, name string) (credentials, error) {
	form := url.Values{
		"RoleArn":         {p.values["role_arn"]},
		"RoleSessionName": {cmp.Or(p.values["role_session_name"], sessionName)},
		"DurationSeconds": {strconv.Itoa(int(cmp.Or(p.duration(), roleLifetime).Seconds()))},
	}
	if id := p.values["external_id"]; id != "" {
		form.Set("ExternalId", id)
	}
	return k.askRole(ctx, "AssumeRole", form, c, p.values["region"], "role of profile "+name)
}

// fromWebIdentity takes on the role that a container platform announces in the
// environment.
func (k *keyring) fromWebIdentity(ctx context.Context) (credentials, error) {
	file, role := k.getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), k.getenv("AWS_ROLE_ARN")
	if file == "" || role == "" {
		return credentials{}, errNoCredentials
	}
	return k.webIdentity(ctx, file, role, k.getenv("AWS_ROLE_SESSION_NAME"), "")
}

// webIdentity exchanges the token that the platform keeps in a file for the
// credentials of a role. The token is the proof, so the request is not signed.
func (k *keyring) webIdentity(ctx context.Context, file, role, session, region string) (credentials, error) {
	const source = "web identity"
	token, err := readFile(file)
	if err != nil {
		return credentials{}, fmt.Errorf("%s: read the token: %w", source, err)
	}

	form := url.Values{
		"RoleArn":          {role},
		"RoleSessionName":  {cmp.Or(session, sessionName)},
		"WebIdentityToken": {strings.TrimSpace(string(token))},
	}
	return k.askRole(ctx, "AssumeRoleWithWebIdentity", form, credentials{}, region, source)
}

// roleAnswer is what STS answers to either action.
type roleAnswer struct {
	Assumed  roleKeys `xml:"AssumeRoleResult>Credentials"`
	Identity roleKeys `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
}

type roleKeys struct {
	ID      string    `xml:"AccessKeyId"`
	Secret  string    `xml:"SecretAccessKey"`
	Token   string    `xml:"SessionToken"`
	Expires time.Time `xml:"Expiration"`
}

// askRole asks STS for the credentials of a role. Without signer, the request is
// not signed.
func (k *keyring) askRole(ctx context.Context, action string, form url.Values, signer credentials, region, source string) (credentials, error) {
	form.Set("Action", action)
	form.Set("Version", "2011-06-15")
	data, err := k.ask(ctx, serviceCall{
		service: sts,
		region:  cmp.Or(region, k.region, k.getenv("AWS_REGION"), k.getenv("AWS_DEFAULT_REGION"), "us-east-1"),
		method:  http.MethodPost,
		path:    "/",
		header:  http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		body:    []byte(form.Encode()),
		signer:  signer,
	})
	if err != nil {
		return credentials{}, fmt.Errorf("%s: %w", source, err)
	}

	var a roleAnswer
	if xml.Unmarshal(data, &a) != nil {
		return credentials{}, fmt.Errorf("%s: the answer of STS cannot be read", source) // the error could quote a secret
	}

	keys := cmp.Or(a.Assumed, a.Identity)
	c := credentials{
		id:      keys.ID,
		secret:  httpsafe.NewSecret(keys.Secret),
		token:   httpsafe.NewSecret(keys.Token),
		expires: keys.Expires,
		source:  source,
	}
	if !c.complete() {
		return credentials{}, fmt.Errorf("%s: the answer of STS holds no credentials", source)
	}
	return c, nil
}

// unsupported names the way out for profiles that need the vendor's own tool.
func unsupported(profile, what string) error {
	return fmt.Errorf("the AWS profile %q %s, which needs the AWS CLI: add a profile with the line "+
		"credential_process = aws configure export-credentials --profile %s --format process, and use that one", profile, what, profile)
}
