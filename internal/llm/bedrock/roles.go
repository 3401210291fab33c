package bedrock

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // how the vendor's tools name cached tokens
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ssocreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sso"
	"github.com/aws/aws-sdk-go-v2/service/ssooidc"
	"github.com/aws/aws-sdk-go-v2/service/sts"

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

// fromNamed is the source that a profile names with credential_source.
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

// assume exchanges credentials for those of the profile's role.
func (k *keyring) assume(ctx context.Context, c credentials, p *profile, name string) (credentials, error) {
	provider := stscreds.NewAssumeRoleProvider(k.sts(c, p.values["region"]), p.values["role_arn"], func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = cmp.Or(p.values["role_session_name"], sessionName)
		if id := p.values["external_id"]; id != "" {
			o.ExternalID = &id
		}
		o.Duration = cmp.Or(p.duration(), o.Duration)
	})
	return retrieve(ctx, provider, "role of profile "+name)
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

func (k *keyring) webIdentity(ctx context.Context, file, role, session, region string) (credentials, error) {
	provider := stscreds.NewWebIdentityRoleProvider(k.sts(credentials{}, region), role, stscreds.IdentityTokenFile(file),
		func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = cmp.Or(session, sessionName) })
	return retrieve(ctx, provider, "web identity")
}

// fromSSO uses the sign-in that "aws sso login" keeps in a file. A session of
// the newer form is renewed without the browser as long as it can be.
func (k *keyring) fromSSO(ctx context.Context, p *profile, name string) (credentials, error) {
	account, role, start := p.values["sso_account_id"], p.values["sso_role_name"], p.values["sso_start_url"]
	if account == "" || role == "" {
		return credentials{}, fmt.Errorf("the AWS profile %q needs sso_account_id and sso_role_name", name)
	}
	region, key := p.values["sso_region"], start
	if p.session != nil {
		region, key = p.session.region, p.session.name
	}
	sum := sha1.Sum([]byte(key)) //nolint:gosec // a file's name
	path := k.awsFile("sso", "cache", hex.EncodeToString(sum[:])+".json")

	client := sso.New(sso.Options{Region: region, HTTPClient: k.public, BaseEndpoint: k.endpoint("SSO")})
	provider := ssocreds.New(client, account, role, start, func(o *ssocreds.Options) {
		o.CachedTokenFilepath = path
		if p.session != nil {
			o.SSOTokenProvider = ssocreds.NewSSOTokenProvider(
				ssooidc.New(ssooidc.Options{Region: region, HTTPClient: k.public, BaseEndpoint: k.endpoint("SSO_OIDC")}), path)
		}
	})
	c, err := retrieve(ctx, provider, "sign-in of profile "+name)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w; if the sign-in has ended, run: aws sso login --profile %s", err, name)
	}
	return c, err
}

// sts is the service that gives out roles, asked with credentials or, if they
// are empty, without.
func (k *keyring) sts(c credentials, region string) *sts.Client {
	o := sts.Options{
		Region:       cmp.Or(region, k.region, k.getenv("AWS_REGION"), k.getenv("AWS_DEFAULT_REGION"), "us-east-1"),
		HTTPClient:   k.public,
		BaseEndpoint: k.endpoint("STS"),
		Credentials:  aws.AnonymousCredentials{},
	}
	if c.complete() {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return c.aws(), nil })
	}
	return sts.New(o)
}

// endpoint is the address that replaces a service's own; nil if there is none.
func (k *keyring) endpoint(service string) *string {
	if address := strings.TrimSpace(k.getenv("AWS_ENDPOINT_URL_" + service)); address != "" {
		return &address
	}
	return nil
}

func retrieve(ctx context.Context, provider aws.CredentialsProvider, source string) (credentials, error) {
	c, err := provider.Retrieve(ctx)
	if err != nil {
		return credentials{}, fmt.Errorf("%s: %w", source, err)
	}
	return ours(c, source), nil
}

func ours(c aws.Credentials, source string) credentials {
	out := credentials{
		id:     c.AccessKeyID,
		secret: httpsafe.NewSecret(c.SecretAccessKey),
		token:  httpsafe.NewSecret(c.SessionToken),
		source: source,
	}
	if c.CanExpire {
		out.expires = c.Expires
	}
	return out
}

// unsupported names the way out for profiles that need the vendor's own tool.
func unsupported(profile, what string) error {
	return fmt.Errorf("the AWS profile %q %s, which needs the AWS CLI: add a profile with the line "+
		"credential_process = aws configure export-credentials --profile %s --format process, and use that one", profile, what, profile)
}
