package bedrock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// TestMain doubles as the credential process of the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "credential-process" {
		switch os.Args[2] {
		case "good":
			_, _ = io.WriteString(os.Stdout, `{"Version":1,"AccessKeyId":"AKIDPROC","SecretAccessKey":"s p","SessionToken":"t","Expiration":"2099-01-01T00:00:00Z"}`)
		case "bad":
			_, _ = io.WriteString(os.Stderr, "please sign in first\n")
			os.Exit(3) //nolint:forbidigo // a child process of the tests
		default:
			_, _ = io.WriteString(os.Stdout, os.Args[2])
		}
		return
	}
	os.Exit(m.Run()) //nolint:forbidigo // how tests end
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answering(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}
}

// nobody is a metadata service that does not exist.
func nobody(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("no route to %s", r.URL.Host)
}

type ringOptions struct {
	env     map[string]string
	files   map[string]string // below the home folder
	profile string
	trip    tripFunc
}

func ring(t *testing.T, o ringOptions) *keyring {
	t.Helper()
	home := t.TempDir()
	for name, text := range o.files {
		path := filepath.Join(home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if o.trip == nil {
		o.trip = nobody
	}
	k := &keyring{
		getenv: func(n string) string { return strings.ReplaceAll(o.env[n], "$HOME", home) }, home: home, profile: o.profile,
		client: &http.Client{Transport: o.trip}, public: &http.Client{Transport: o.trip}, log: slog.New(slog.DiscardHandler), turn: make(chan struct{}, 1),
	}
	k.turn <- struct{}{}
	return k
}

const role = `{"Code":"Success","AccessKeyId":"AKIDROLE","SecretAccessKey":"rs","Token":"rt","Expiration":"2099-01-01T00:00:00Z"}`

// machine is the metadata service of a virtual machine.
func machine(r *http.Request) (*http.Response, error) {
	token := r.Header.Get("X-Aws-Ec2-Metadata-Token") == "mt"
	switch {
	case r.URL.Host != "169.254.169.254":
		return nobody(r)
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "21600":
		return answering(200, "mt\n"), nil
	case !token:
		return answering(401, ""), nil
	case r.URL.Path == "/latest/meta-data/iam/security-credentials/":
		return answering(200, "my-role\n"), nil
	case r.URL.Path == "/latest/meta-data/iam/security-credentials/my-role":
		return answering(200, role), nil
	case r.URL.Path == "/latest/meta-data/placement/region":
		return answering(200, "ap-south-1"), nil
	}
	return answering(404, ""), nil
}

func container(r *http.Request) (*http.Response, error) {
	if got := r.URL.String() + " " + r.Header.Get("Authorization"); got != "http://169.254.170.2/v2/creds tok" {
		return answering(400, got), nil
	}
	return answering(200, role), nil
}

func TestCredentialSources(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const files = "[default]\naws_access_key_id=AKIDFILE\naws_secret_access_key = fs # comment\n[work]\naws_access_key_id=AKIDWORK\naws_secret_access_key=ws\naws_session_token=wt\n"
	static := map[string]string{".aws/credentials": files}
	env := map[string]string{"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "es", "AWS_SESSION_TOKEN": "et"}
	with := func(k, v string) map[string]string { return map[string]string{k: v} }
	process := func(arg string) map[string]string {
		return map[string]string{".aws/config": "[profile p]\ncredential_process = \"" + self + "\" credential-process " + arg + "\n"}
	}
	for _, c := range []struct {
		name string
		o    ringOptions
		want string // id secret token source
		err  string
	}{
		{"environment first", ringOptions{env: env, files: static}, "AKIDENV es et environment", ""},
		{"half an environment", ringOptions{env: with("AWS_ACCESS_KEY_ID", "x"), files: static}, "AKIDFILE fs  profile default", ""},
		{"profile of the environment", ringOptions{env: with("AWS_PROFILE", "work"), files: static}, "AKIDWORK ws wt profile work", ""},
		{"profile of the configuration beats the environment", ringOptions{env: env, files: static, profile: "work"}, "AKIDWORK ws wt profile work", ""},
		{"keys in the config file", ringOptions{files: map[string]string{".aws/config": "[default]\naws_access_key_id=A\naws_secret_access_key=B"}}, "A B  profile default", ""},
		{"credentials file wins", ringOptions{files: map[string]string{".aws/config": "[default]\naws_access_key_id=A\naws_secret_access_key=B", ".aws/credentials": files}}, "AKIDFILE fs  profile default", ""},
		{"files elsewhere", ringOptions{env: with("AWS_SHARED_CREDENTIALS_FILE", "$HOME/other"), files: map[string]string{"other": files}}, "AKIDFILE fs  profile default", ""},
		{"files below ~", ringOptions{env: with("AWS_SHARED_CREDENTIALS_FILE", "~/other"), files: map[string]string{"other": files}}, "AKIDFILE fs  profile default", ""},
		{"process", ringOptions{files: process("good"), profile: "p"}, "AKIDPROC s p t credential_process of profile p", ""},
		{"process fails", ringOptions{files: process("bad"), profile: "p"}, "", "please sign in first"},
		{"process prints no JSON", ringOptions{files: process("secret-word"), profile: "p"}, "", "not JSON"},
		{"process prints too little", ringOptions{files: process("{}"), profile: "p"}, "", "no credentials"},
		{"process unreadable", ringOptions{files: map[string]string{".aws/config": "[profile p]\ncredential_process = \"x\n"}, profile: "p"}, "", "cannot be read"},
		{"container", ringOptions{env: map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/creds", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "tok"}, trip: container}, "AKIDROLE rs rt container credentials", ""},
		{"container token file", ringOptions{env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.2/v2/creds", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "$HOME/tok"}, files: map[string]string{"tok": "tok\n"}, trip: container}, "AKIDROLE rs rt container credentials", ""},
		{"container elsewhere in the clear", ringOptions{env: with("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/x"), trip: container}, "", "must be https"},
		{"container refuses", ringOptions{env: with("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/other"), trip: container}, "", "HTTP 400"},
		{"machine", ringOptions{trip: machine}, "AKIDROLE rs rt instance role", ""},
		{"machine disabled", ringOptions{env: with("AWS_EC2_METADATA_DISABLED", "true"), trip: machine}, "", "no AWS credentials found"},
		{"machine elsewhere", ringOptions{env: with("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9/"), trip: machine}, "", "no AWS credentials found"},
		{"nothing", ringOptions{}, "", "AWS_ACCESS_KEY_ID"},
		{"chosen profile is missing", ringOptions{env: with("AWS_PROFILE", "gone"), files: static, trip: machine}, "", `"gone" does not exist`},
		{"chosen profile is empty", ringOptions{profile: "p", files: map[string]string{".aws/config": "[profile p]\nregion=x"}, trip: machine}, "", `"p" has no credentials`},
		{"second device", ringOptions{profile: "p", files: map[string]string{".aws/config": "[profile p]\nrole_arn=x\nmfa_serial=y\nsource_profile=default", ".aws/credentials": files}}, "", "export-credentials --profile p"},
		{"browser", ringOptions{profile: "p", files: map[string]string{".aws/config": "[profile p]\nlogin_session=x"}}, "", "export-credentials --profile p"},
		{"role without a source", ringOptions{profile: "p", files: map[string]string{".aws/config": "[profile p]\nrole_arn=x"}}, "", `"p" has no credentials`},
		{"roles in a circle", ringOptions{profile: "p", files: map[string]string{".aws/config": "[profile p]\nrole_arn=x\nsource_profile=q\n[profile q]\nrole_arn=y\nsource_profile=p"}}, "", "read AWS settings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ring(t, c.o).get(t.Context())
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret-word") {
					t.Errorf("error = %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s := strings.Join([]string{got.id, got.secret.Reveal(), got.token.Reveal(), got.source}, " "); s != c.want {
				t.Errorf("credentials = %q, want %q", s, c.want)
			}
		})
	}
}

// Many callers cause one search, and what it found is kept.
func TestCredentialsAreFoundOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	k := ring(t, ringOptions{trip: func(r *http.Request) (*http.Response, error) {
		calls.Add(1)
		return machine(r)
	}})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if c, err := k.get(t.Context()); err != nil || c.id != "AKIDROLE" {
				t.Errorf("credentials %v, error %v", c.id, err)
			}
		})
	}
	wg.Wait()
	if n := calls.Load(); n != 3 {
		t.Errorf("%d metadata requests, want 3", n)
	}
}

func TestCredentialsGiveUpWithTheCaller(t *testing.T) {
	t.Parallel()
	k := ring(t, ringOptions{})
	<-k.turn // somebody else is looking
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want canceled", err)
	}
}

func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	k := ring(t, ringOptions{files: map[string]string{".aws/credentials": "[default]\naws_access_key_id=OLD\naws_secret_access_key=x"}})
	old, err := k.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if k.refused(t.Context(), old) {
		t.Error("the same credentials count as new ones")
	}
	path := filepath.Join(k.home, ".aws", "credentials")
	if err := os.WriteFile(path, []byte("[default]\naws_access_key_id=NEW\naws_secret_access_key=y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := k.get(t.Context()); got.id != "OLD" {
		t.Errorf("the file was read again without need: %s", got.id)
	}
	if !k.refused(t.Context(), old) {
		t.Error("new credentials in the file were not found")
	}
	if got, _ := k.get(t.Context()); got.id != "NEW" {
		t.Errorf("credentials = %s, want NEW", got.id)
	}
}

func TestReadProfile(t *testing.T) {
	t.Parallel()
	const text = "[ default ]\n; note\nRegion = us-east-1 ; here\n\ns3 =\n  max = 3\n  role_arn = no\n# x\naws_access_key_id = a#b;c\r\naws_secret_access_key=x\n" +
		"[profile \"my one\"]\n  region = eu-west-1\n  output = json\n[profile  two ]\nregion=\nnonsense\n[default]\noutput=text\n"
	k := ring(t, ringOptions{files: map[string]string{".aws/config": text}})
	for _, c := range []struct {
		name, region, id string
		exists           bool
	}{
		{"default", "us-east-1", "a#b;c", true},
		{"my one", "eu-west-1", "", true},
		{"two", "", "", true},
		{"three", "", "", false},
	} {
		p, exists, err := k.readProfile(c.name)
		if p.values["region"] != c.region || p.values["aws_access_key_id"] != c.id || p.values["role_arn"] != "" || exists != c.exists || err != nil {
			t.Errorf("%s: region %q, key %q, role %q, %v, %v", c.name, p.values["region"], p.values["aws_access_key_id"], p.values["role_arn"], exists, err)
		}
	}
}

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		`a b  c`:                       {"a", "b", "c"},
		`"/x y/z" --p 'q "r"'`:         {"/x y/z", "--p", `q "r"`},
		`C:\tools\aws.exe -x`:          {`C:\tools\aws.exe`, "-x"},
		`a\ b "c\"d" ''`:               {"a b", `c"d`, ""},
		`"C:\Program Files\x.exe" arg`: {`C:\Program Files\x.exe`, "arg"},
	} {
		got, err := splitCommand(in)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: error %v, %s", in, err, d)
		}
	}
	for _, in := range []string{"", "  ", `"a`} {
		if got, err := splitCommand(in); err == nil {
			t.Errorf("%q gave %q, want an error", in, got)
		}
	}
}

func TestTrustedEndpoint(t *testing.T) {
	t.Parallel()
	for u, want := range map[string]bool{
		"https://example.com/x": true, "http://127.0.0.1:1/x": true, "http://localhost/x": true, "http://169.254.170.23/v1": true,
		"http://[fd00:ec2::23]/v1": true, "http://[::1]/x": true, "http://example.com": false, "http://169.254.170.2.evil.com/": false,
		"ftp://127.0.0.1": false, "": false, "http://10.0.0.1/": false,
	} {
		if got := trustedEndpoint(u); got != want {
			t.Errorf("trustedEndpoint(%q) = %v, want %v", u, got, want)
		}
	}
}

func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	c := credentials{id: "A", secret: httpsafe.NewSecret("very-secret-value"), expires: time.Unix(0, 0)}
	for _, s := range []string{fmt.Sprintf("%v", c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c)} {
		if strings.Contains(s, "very-secret-value") {
			t.Errorf("shown: %s", s)
		}
	}
}
