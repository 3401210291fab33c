package bedrock

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
)

// The shared files mean what they mean to the vendor's own package.
func TestSharedFiles(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]struct{ config, credentials string }{
		"comments":            {"# a\n[default] ; b\nregion = eu-west-1 # c\noutput=x;y\n;d\n", "[default]\naws_access_key_id=A#1\naws_secret_access_key = S ; no\n"},
		"nested":              {"[default]\ns3 =\n  region = no\nregion=eu-west-1\n  role_arn = promoted\n", ""},
		"continued":           {"[default]\nregion = eu\n  west\n", ""},
		"twice":               {"[default]\nregion=a\nregion=b\n[profile p]\nregion=x\n[profile p]\nrole_arn=r\ncredential_source=Environment\n", ""},
		"wrong titles":        {"[p]\nregion=x\n[profile]\nregion=y\n[other p]\nregion=z\n[default\nregion=w\n", "[profile p]\nregion=q\n"},
		"merged":              {"[profile p]\nregion=x\naws_access_key_id=a\naws_secret_access_key=b\n", "[p]\naws_access_key_id=c\naws_secret_access_key=d\naws_session_token=e\n"},
		"half a key":          {"[default]\naws_access_key_id=a\n", ""},
		"case":                {"[default]\nREGION=x\nAws_Access_Key_Id=a\nAWS_SECRET_ACCESS_KEY=b\n", ""},
		"role":                {"[profile p]\nrole_arn=r\nsource_profile=default\nregion=x\n[default]\nregion=y\n", "[default]\naws_access_key_id=c\naws_secret_access_key=d\n"},
		"role of itself":      {"[profile p]\nrole_arn=r\nsource_profile=p\naws_access_key_id=c\naws_secret_access_key=d\n", ""},
		"role of a role":      {"[profile p]\nrole_arn=r\nsource_profile=q\n[profile q]\nrole_arn=s\nsource_profile=default\n", "[default]\naws_access_key_id=c\naws_secret_access_key=d\n"},
		"keys before a role":  {"[profile p]\nrole_arn=r\nsource_profile=q\n[profile q]\nrole_arn=s\nsource_profile=default\naws_access_key_id=q\naws_secret_access_key=d\n", "[default]\naws_access_key_id=c\naws_secret_access_key=d\n"},
		"circle":              {"[profile p]\nrole_arn=r\nsource_profile=q\n[profile q]\nrole_arn=s\nsource_profile=p\n", ""},
		"source is missing":   {"[profile p]\nrole_arn=r\nsource_profile=gone\n", ""},
		"source has nothing":  {"[profile p]\nrole_arn=r\nsource_profile=q\n[profile q]\nregion=x\n", ""},
		"source without role": {"[profile p]\nsource_profile=default\n", "[default]\naws_access_key_id=c\naws_secret_access_key=d\n"},
		"two sources":         {"[profile p]\nrole_arn=r\nsource_profile=default\ncredential_process=x\n", "[default]\naws_access_key_id=c\naws_secret_access_key=d\n"},
		"token without role":  {"[profile p]\nweb_identity_token_file=/x\n", ""},
		"session":             {"[profile p]\nsso_session=work\nsso_account_id=1\nsso_role_name=n\n[sso-session work]\nsso_region=r\nsso_start_url=u\n", ""},
		"session is missing":  {"[profile p]\nsso_session=work\nsso_account_id=1\nsso_role_name=n\n", ""},
		"source signs in":     {"[profile p]\nrole_arn=r\nsource_profile=q\n[profile q]\nsso_start_url=u\nsso_region=r\nsso_account_id=1\nsso_role_name=n\n", ""},
		"source by process":   {"[profile p]\nrole_arn=r\nsource_profile=q\n[profile q]\ncredential_process=x y\n", ""},
		"blanks":              {"  [default]\n\tregion = x\n[ profile   p ]\nregion\t=\ty \n", ""},
		"no value":            {"[default]\nregion\n= x\nregion=\n", ""},
		"windows":             {"[default]\r\nregion=x\r\n\r\n[profile p]\r\nregion=y\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := ring(t, ringOptions{files: map[string]string{".aws/config": f.config, ".aws/credentials": f.credentials}})
			for _, name := range []string{"default", "p", "q"} {
				want := vendors(t, k, name)
				p, exists, err := k.readProfile(name)
				got := describe(p)
				if err != nil {
					got = "refused"
				} else if !exists {
					got = "missing"
				}
				if got != want {
					t.Errorf("profile %s: %s, the vendor's package says %s (%v)", name, got, want, err)
				}
			}
		})
	}
}

func describe(p *profile) string {
	v := p.values
	s := fmt.Sprintf("region %q keys %q %q role %q of %q, process %q", v["region"], "", "", v["role_arn"], v["credential_source"], v["credential_process"])
	if p.hasKeys() {
		s = fmt.Sprintf("region %q keys %q %q role %q of %q, process %q", v["region"], v["aws_access_key_id"], v["aws_session_token"], v["role_arn"], v["credential_source"], v["credential_process"])
	}
	if p.session != nil {
		s += " session " + p.session.region
	}
	if p.source != nil {
		s += " from " + describe(p.source)
	}
	return s
}

// vendors describes a profile as the vendor's package reads it.
func vendors(t *testing.T, k *keyring, name string) string {
	t.Helper()
	for _, spelled := range []string{name, strconv.Quote(name)} {
		p, err := config.LoadSharedConfigProfile(t.Context(), spelled, func(o *config.LoadSharedConfigOptions) {
			o.ConfigFiles = []string{k.sharedFile("AWS_CONFIG_FILE", "config")}
			o.CredentialsFiles = []string{k.sharedFile("AWS_SHARED_CREDENTIALS_FILE", "credentials")}
		})
		if _, missing := err.(config.SharedConfigProfileNotExistError); missing { //nolint:errorlint // a wrapped one is about the source of a role
			continue
		}
		if err != nil {
			return "refused"
		}
		return describeVendor(&p)
	}
	return "missing"
}

func describeVendor(p *config.SharedConfig) string {
	s := fmt.Sprintf("region %q keys %q %q role %q of %q, process %q", p.Region, p.Credentials.AccessKeyID, p.Credentials.SessionToken, p.RoleARN, p.CredentialSource, p.CredentialProcess)
	if p.SSOSession != nil {
		s += " session " + p.SSOSession.SSORegion
	}
	if p.Source != nil {
		s += " from " + describeVendor(p.Source)
	}
	return s
}
