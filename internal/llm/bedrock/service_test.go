package bedrock

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awssso "github.com/aws/aws-sdk-go-v2/service/sso"
	awsoidc "github.com/aws/aws-sdk-go-v2/service/ssooidc"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// Our signature of a request is the one of the vendor's signer.
func TestSignLikeVendor(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	word := func() string {
		letters := []rune("ab/:%-._~+ =&é日\"'()*,;@!$A9")
		var b strings.Builder
		for range rng.IntN(9) {
			b.WriteRune(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	hosts := []string{"sts.eu-west-1.amazonaws.com", "localhost:8080", "example.com:443", "[::1]:8080", "example.com:80"}
	for range 2000 {
		query := url.Values{}
		for range rng.IntN(4) {
			query.Add(word(), word())
		}
		u := &url.URL{
			Scheme: []string{"http", "https"}[rng.IntN(2)], Host: hosts[rng.IntN(len(hosts))], Path: "/" + word() + "/" + word(), RawQuery: query.Encode(),
		}
		if rng.IntN(8) == 0 {
			u.Path = ""
		}
		body := []byte(word())
		c := credentials{id: "AKID" + word(), secret: httpsafe.NewSecret(word() + "s"), token: httpsafe.NewSecret(word())}
		s := scope{region: "eu-west-1", service: "sts", at: time.Unix(rng.Int64N(4e9), 0)}
		header := http.Header{"Content-Type": {" text/plain;  x  " + word()}, "X-Amz-Some-Thing": {word(), " b   c "}}

		vendors := &http.Request{Method: http.MethodPost, URL: u, Header: header.Clone()}
		sum := sha256.Sum256(body)
		err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: c.id, SecretAccessKey: c.secret.Reveal(), SessionToken: c.token.Reveal()},
			vendors, hex.EncodeToString(sum[:]), s.service, s.region, s.at)
		if err != nil {
			t.Fatal(err)
		}
		ours := &http.Request{Method: http.MethodPost, URL: u, Header: header.Clone()}
		ours.Header.Set("User-Agent", "not signed")
		s.sign(ours, body, c)
		for _, h := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
			if got, want := ours.Header.Get(h), vendors.Header.Get(h); got != want {
				t.Fatalf("%s with the headers %q: %s is\n%s, the vendor's signer says\n%s", u, header, h, got, want)
			}
		}
	}
}

// The services are where the vendor's own clients look for them.
func TestServiceAddressesLikeVendor(t *testing.T) {
	t.Parallel()
	for _, region := range []string{
		"us-east-1", "eu-west-1", "ap-southeast-7", "mx-central-1", "cn-north-1", "us-gov-west-1", "us-gov-east-1", "eusc-de-east-1",
		"us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "us-isof-south-1", "xx-new-1",
	} {
		one, err := awssts.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), awssts.EndpointParameters{Region: &region})
		if err != nil {
			t.Fatal(err)
		}
		two, err := awssso.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), awssso.EndpointParameters{Region: &region})
		if err != nil {
			t.Fatal(err)
		}
		three, err := awsoidc.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), awsoidc.EndpointParameters{Region: &region})
		if err != nil {
			t.Fatal(err)
		}
		for service, want := range map[awsService]url.URL{sts: one.URI, portal: two.URI, oidc: three.URI} {
			got, err := ring(t, ringOptions{}).address(serviceCall{service: service, region: region})
			if err != nil || strings.TrimSuffix(got, "/") != strings.TrimSuffix(want.String(), "/") {
				t.Errorf("%q in %s is %s (%v), the vendor's client asks %s", service, region, got, err, &want)
			}
		}
	}
}

func TestServiceAddressIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ region, address, want string }{
		"no region":           {"", "", "set region"},
		"a host as region":    {"x-1.example.com/", "", "is not an AWS region"},
		"an address is wrong": {"eu-west-1", "localhost", "AWS_ENDPOINT_URL_STS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := ring(t, ringOptions{env: map[string]string{"AWS_ENDPOINT_URL_STS": c.address}})
			if got, err := k.address(serviceCall{service: sts, region: c.region}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("address = %s, %v, want an error with %q", got, err, c.want)
			}
		})
	}
}

// A service that fails for a moment is asked again, one that refuses is not.
func TestServiceIsAskedAgain(t *testing.T) {
	t.Parallel()
	const keys = `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>s</SecretAccessKey>` +
		`<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`
	refused := func(code string) string {
		return "<ErrorResponse><Error><Code>" + code + "</Code><Message>because</Message></Error></ErrorResponse>"
	}
	type answer struct {
		status int // 0: no connection
		body   string
	}
	for name, c := range map[string]struct {
		answers []answer
		asked   int
		err     string
	}{
		"overloaded":               {[]answer{{503, ""}, {429, ""}, {200, keys}}, 3, ""},
		"no connection":            {[]answer{{0, ""}, {200, keys}}, 2, ""},
		"throttled":                {[]answer{{400, refused("Throttling")}, {200, keys}}, 2, ""},
		"the token is too new":     {[]answer{{400, refused("InvalidIdentityToken")}, {200, keys}}, 2, ""},
		"overloaded for long":      {[]answer{{500, "<html>"}, {500, "<html>"}, {500, "<html>"}, {200, keys}}, 3, "STS answers HTTP 500"},
		"refused":                  {[]answer{{403, refused("AccessDenied")}, {200, keys}}, 1, "STS answers HTTP 403: AccessDenied: because"},
		"an answer without keys":   {[]answer{{200, "<AssumeRoleResponse/>"}}, 1, "holds no credentials"},
		"an answer that is broken": {[]answer{{200, "<AssumeRoleResponse><secret"}}, 1, "cannot be read"},
		"endless":                  {[]answer{{200, "<a>" + strings.Repeat("x", 3<<20)}}, 1, "cannot be read"},
		"deep":                     {[]answer{{403, strings.Repeat("<Error>", 100_000)}}, 1, "STS answers HTTP 403"},
		"a long code":              {[]answer{{403, refused(strings.Repeat("z", 1<<19))}}, 1, "STS answers HTTP 403: zzz"},
		"a long reason":            {[]answer{{403, strings.Replace(refused("x"), "because", strings.Repeat("z", 1<<19), 1)}}, 1, "STS answers HTTP 403: x: zzz"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				k := ring(t, ringOptions{trip: func(r *http.Request) (*http.Response, error) {
					if body, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(body), "RoleArn=r") {
						t.Errorf("request %d has the body %q, %v", asked+1, body, err)
					}
					a := c.answers[asked]
					asked++
					if a.status == 0 {
						return nobody(r)
					}
					return answering(a.status, a.body), nil
				}})
				got, err := k.askRole(t.Context(), "AssumeRole", url.Values{"RoleArn": {"r"}}, credentials{}, "eu-west-1", "role")
				switch {
				case c.err == "" && (err != nil || got.id != "A"):
					t.Errorf("credentials %q, %v", got.id, err)
				case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || len(err.Error()) > 1000):
					t.Errorf("error = %.1200v, want %q", err, c.err)
				}
				if asked != c.asked {
					t.Errorf("asked %d times, want %d", asked, c.asked)
				}
			})
		})
	}
}

// What the vendor's tool keeps beside a token, and the rights of the file, are
// the same after a renewal.
func TestRenewedSignInKeepsItsFile(t *testing.T) {
	t.Parallel()
	files := merged(map[string]string{".aws/config": "[default]\nsso_session=work\nsso_account_id=12\nsso_role_name=Dev\n[sso-session work]\nsso_start_url=https://start\nsso_region=eu-west-1\n"},
		cached("work", "old", time.Now().Add(-time.Hour)))
	k := ring(t, ringOptions{files: files, trip: (&awsFake{t: t}).RoundTrip})
	if _, err := k.get(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(k.home, ".aws", "sso", "cache", "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("files = %v, %v", names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"registrationExpiresAt":"2099-01-01T00:00:00Z"`, `"startUrl":"https://start"`, `"clientId":"id"`, `"expiresAt":"20`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the file lacks %s: %s", want, data)
		}
	}
	if info, err := os.Stat(names[0]); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("rights = %v, %v", info.Mode(), err)
	}
}

// What is in the file of a sign-in, or comes from the service, never stands in an
// error.
func TestSignInErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	const config = "[default]\nsso_session=work\nsso_account_id=12\nsso_role_name=Dev\n[sso-session work]\nsso_start_url=https://start\nsso_region=eu-west-1\n"
	name := ""
	for n := range cached("work", "", time.Time{}) {
		name = n
	}
	for rule, c := range map[string]struct{ file, answer, want string }{
		"not JSON":        {`"secret-word`, "", "cannot be read"},
		"a wrong time":    {`{"accessToken":"secret-word","expiresAt":"secret-word"}`, "", "cannot be read"},
		"no time":         {`{"accessToken":"secret-word"}`, "", "lacks accessToken or expiresAt"},
		"ended":           {`{"accessToken":"secret-word","expiresAt":"2001-01-01T00:00:00Z","clientId":"x"}`, "", "has ended"},
		"an odd answer":   {`{"accessToken":"good","expiresAt":"2099-01-01T00:00:00Z"}`, `{"roleCredentials":"secret-word"}`, "not JSON"},
		"an empty answer": {`{"accessToken":"good","expiresAt":"2099-01-01T00:00:00Z"}`, `{"roleCredentials":{"secretAccessKey":"secret-word"}}`, "holds no credentials"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			k := ring(t, ringOptions{files: map[string]string{".aws/config": config, name: c.file}, trip: func(*http.Request) (*http.Response, error) {
				return answering(200, c.answer), nil
			}})
			_, err := k.get(t.Context())
			if got := fmt.Sprint(err); err == nil || !strings.Contains(got, c.want) || !strings.Contains(got, "aws sso login") || strings.Contains(got, "secret-word") {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}
