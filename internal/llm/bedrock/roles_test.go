package bedrock

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// awsFake is a fake of the services that give out credentials. It refuses what the
// real ones would refuse, and tells what it was asked.
type awsFake struct {
	t     *testing.T
	asked []string
}

func (f *awsFake) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case strings.HasPrefix(r.URL.Host, "sts."):
		return f.sts(r)
	case strings.HasPrefix(r.URL.Host, "portal.sso."):
		return f.portal(r)
	case strings.HasPrefix(r.URL.Host, "oidc."):
		return f.oidc(r)
	}
	return nobody(r)
}

func xmlAnswer(status int, body string) (*http.Response, error) {
	a := answering(status, body)
	a.Header = http.Header{"Content-Type": {"text/xml"}}
	return a, nil
}

func (f *awsFake) sts(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	q, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	signer := ""
	if auth := r.Header.Get("Authorization"); auth != "" {
		_, rest, _ := strings.Cut(auth, "Credential=")
		parts := strings.Split(rest, "/")
		signer = parts[0] + "@" + parts[2]
	}
	f.asked = append(f.asked, strings.Join([]string{q.Get("Action"), q.Get("RoleArn"), q.Get("RoleSessionName"), q.Get("ExternalId"), q.Get("DurationSeconds"), q.Get("WebIdentityToken"), signer, r.URL.Host}, " "))
	if q.Get("RoleArn") == "arn:aws:iam::1:role/forbidden" {
		return xmlAnswer(403, `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not for you</Message></Error></ErrorResponse>`)
	}
	_, role, _ := strings.Cut(q.Get("RoleArn"), "/")
	return xmlAnswer(200, fmt.Sprintf(`<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>`+
		`<AccessKeyId>ASIA%[2]s</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>`+
		`<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, q.Get("Action"), strings.ToUpper(role)))
}

func (f *awsFake) portal(r *http.Request) (*http.Response, error) {
	f.asked = append(f.asked, r.URL.RequestURI()+" "+r.Header.Get("X-Amz-Sso_bearer_token")+" "+r.URL.Host)
	if r.Header.Get("X-Amz-Sso_bearer_token") != "good" {
		return answering(401, `{"message":"Session token not found or invalid"}`), nil
	}
	return answering(200, `{"roleCredentials":{"accessKeyId":"ASIASSO","secretAccessKey":"s","sessionToken":"t","expiration":4070908800000}}`), nil
}

func (f *awsFake) oidc(r *http.Request) (*http.Response, error) {
	var q struct{ GrantType, RefreshToken, ClientID, ClientSecret string }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	f.asked = append(f.asked, strings.Join([]string{r.URL.Path, q.GrantType, q.RefreshToken, q.ClientID, q.ClientSecret, r.URL.Host}, " "))
	return answering(200, `{"accessToken":"good","expiresIn":3600,"refreshToken":"next","tokenType":"Bearer"}`), nil
}

// cached is where and how the vendor's tool keeps a sign-in.
func cached(key, token string, expires time.Time) map[string]string {
	sum := sha1.Sum([]byte(key))
	data, _ := json.Marshal(map[string]any{
		"accessToken": token, "expiresAt": expires.UTC().Format(time.RFC3339), "refreshToken": "refresh", "clientId": "id", "clientSecret": "cs",
		"registrationExpiresAt": "2099-01-01T00:00:00Z", "region": "eu-west-1", "startUrl": "https://start",
	})
	return map[string]string{".aws/sso/cache/" + hex.EncodeToString(sum[:]) + ".json": string(data)}
}

func merged(files ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		maps.Copy(out, f)
	}
	return out
}

func TestRoles(t *testing.T) {
	t.Parallel()
	config := func(s string) map[string]string {
		return map[string]string{".aws/config": s, ".aws/credentials": "[base]\naws_access_key_id=AKIDBASE\naws_secret_access_key=b\n"}
	}
	const (
		legacy  = "[profile p]\nsso_start_url=https://start\nsso_region=eu-west-1\nsso_account_id=12\nsso_role_name=Dev\n"
		session = "[profile p]\nsso_session=work\nsso_account_id=12\nsso_role_name=Dev\n[sso-session work]\nsso_start_url=https://start\nsso_region=eu-west-1\n"
		portal  = "/federation/credentials?account_id=12&role_name=Dev good portal.sso.eu-west-1.amazonaws.com"
	)
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name  string
		o     ringOptions
		want  string // id and source
		asked []string
		err   string
	}{
		{
			"role",
			ringOptions{profile: "p", files: config("[profile p]\nrole_arn=arn:aws:iam::1:role/dev\nsource_profile=base\nexternal_id=ext\nduration_seconds=1800\nregion=eu-west-1\n")},
			"ASIADEV role of profile p",
			[]string{"AssumeRole arn:aws:iam::1:role/dev nanobot ext 1800  AKIDBASE@eu-west-1 sts.eu-west-1.amazonaws.com"},
			"",
		},
		{
			"role of a role",
			ringOptions{profile: "p", files: config("[profile p]\nrole_arn=arn:aws:iam::1:role/dev\nsource_profile=q\n[profile q]\nrole_arn=arn:aws:iam::1:role/mid\nsource_profile=base\nrole_session_name=me\n")},
			"ASIADEV role of profile p",
			[]string{"AssumeRole arn:aws:iam::1:role/mid me  900  AKIDBASE@us-east-1 sts.us-east-1.amazonaws.com", "AssumeRole arn:aws:iam::1:role/dev nanobot  900  ASIAMID@us-east-1 sts.us-east-1.amazonaws.com"},
			"",
		},
		{
			"role with the keys of the environment",
			ringOptions{profile: "p", env: map[string]string{"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-west-2"}, files: config("[profile p]\nrole_arn=arn:aws:iam::1:role/dev\ncredential_source=Environment\n")},
			"ASIADEV role of profile p",
			[]string{"AssumeRole arn:aws:iam::1:role/dev nanobot  900  AKIDENV@us-west-2 sts.us-west-2.amazonaws.com"},
			"",
		},
		{"role with a source that has none", ringOptions{profile: "p", files: config("[profile p]\nrole_arn=arn:aws:iam::1:role/dev\ncredential_source=Environment\n")}, "", nil, "from Environment, which has none"},
		{
			"role refused",
			ringOptions{profile: "p", files: config("[profile p]\nrole_arn=arn:aws:iam::1:role/forbidden\nsource_profile=base\n")},
			"",
			[]string{"AssumeRole arn:aws:iam::1:role/forbidden nanobot  900  AKIDBASE@us-east-1 sts.us-east-1.amazonaws.com"},
			"not for you",
		},
		{
			"web identity of the platform",
			ringOptions{env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "$HOME/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod", "AWS_REGION": "ap-south-1"}, files: map[string]string{"token": "jwt"}},
			"ASIAPOD web identity",
			[]string{"AssumeRoleWithWebIdentity arn:aws:iam::1:role/pod nanobot   jwt  sts.ap-south-1.amazonaws.com"},
			"",
		},
		{"web identity without its file", ringOptions{env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "$HOME/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod"}}, "", nil, "web identity"},
		{"sign-in of the older form", ringOptions{profile: "p", files: merged(config(legacy), cached("https://start", "good", later))}, "ASIASSO sign-in of profile p", []string{portal}, ""},
		{"sign-in", ringOptions{profile: "p", files: merged(config(session), cached("work", "good", later))}, "ASIASSO sign-in of profile p", []string{portal}, ""},
		{
			"sign-in is renewed",
			ringOptions{profile: "p", files: merged(config(session), cached("work", "old", before))},
			"ASIASSO sign-in of profile p",
			[]string{"/token refresh_token refresh id cs oidc.eu-west-1.amazonaws.com", portal},
			"",
		},
		{
			"role of a sign-in",
			ringOptions{profile: "r", files: merged(config(session+"[profile r]\nrole_arn=arn:aws:iam::1:role/dev\nsource_profile=p\n"), cached("work", "good", later))},
			"ASIADEV role of profile r",
			[]string{portal, "AssumeRole arn:aws:iam::1:role/dev nanobot  900  ASIASSO@us-east-1 sts.us-east-1.amazonaws.com"},
			"",
		},
		{"no sign-in", ringOptions{profile: "p", files: config(session)}, "", nil, "aws sso login --profile p"},
		{"sign-in has ended", ringOptions{profile: "p", files: merged(config(legacy), cached("https://start", "good", before))}, "", nil, "aws sso login --profile p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fake := &awsFake{t: t}
			c.o.trip = fake.RoundTrip
			got, err := ring(t, c.o).get(t.Context())
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error = %v, want %q", err, c.err)
			}
			if s := got.id + " " + got.source; c.err == "" && (s != c.want || got.expires.Year() != 2099) {
				t.Errorf("credentials = %q until %v, want %q", s, got.expires, c.want)
			}
			if a, b := strings.Join(fake.asked, "\n"), strings.Join(c.asked, "\n"); a != b {
				t.Errorf("asked\n%s\nwant\n%s", a, b)
			}
		})
	}
}

// A renewed sign-in is kept where the vendor's tool finds it.
func TestRenewedSignInIsKept(t *testing.T) {
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
	if err != nil || !strings.Contains(string(data), `"next"`) || !strings.Contains(string(data), `"good"`) {
		t.Errorf("kept = %s, %v", data, err)
	}
}

// An address in the environment replaces that of a service, over a real
// connection.
func TestServiceAddress(t *testing.T) {
	t.Parallel()
	fake := &awsFake{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := fake.sts(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer a.Body.Close()
		w.Header().Set("Content-Type", "text/xml")
		w.WriteHeader(a.StatusCode)
		_, _ = io.Copy(w, a.Body)
	}))
	defer server.Close()
	k := ring(t, ringOptions{
		env:   map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "$HOME/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod", "AWS_ENDPOINT_URL_STS": server.URL},
		files: map[string]string{"token": "jwt"},
	})
	k.public = server.Client()
	if c, err := k.get(t.Context()); err != nil || c.id != "ASIAPOD" {
		t.Errorf("credentials %v, %v", c.id, err)
	}
}
