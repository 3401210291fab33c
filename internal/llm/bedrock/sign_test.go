package bedrock

import (
	"net/http"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

// The signatures of the first cases are from the vendor's published test
// suite, those of the others were made with the vendor's own signer.
func TestSign(t *testing.T) {
	t.Parallel()
	old := scope{region: "us-east-1", service: "service", at: time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)}
	ours := scope{region: "eu-west-1", service: "bedrock", at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	const (
		haiku = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse-stream"
		arn   = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2Feu.anthropic.claude-sonnet-4-6/converse-stream"
	)
	for _, c := range []struct {
		name, method, url, contentType, body, token string
		scope                                       scope
		headers                                     string
		want                                        string
	}{
		{"get-vanilla", "GET", "https://example.amazonaws.com/", "", "", "", old, "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"get-vanilla without a path", "GET", "https://example.amazonaws.com", "", "", "", old, "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		{"post-vanilla", "POST", "https://example.amazonaws.com/", "", "", "", old, "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		{"post-x-www-form-urlencoded", "POST", "https://example.amazonaws.com/", "application/x-www-form-urlencoded", "Param1=value1", "", old, "content-type;host;x-amz-date", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
		{"model id", "POST", haiku, "application/json", `{"messages":[]}`, "", ours, "content-type;host;x-amz-date", "557731637047b22160146de0edc23cba3d5d90314d07ee89579af46f734d90cf"},
		{"session token", "POST", haiku, "application/json", `{"messages":[]}`, "FwoGZXIvYXdzEXAMPLE==", ours, "content-type;host;x-amz-date;x-amz-security-token", "de42dfe48b5053f1dffe13486398abdf652fdbd9b20a5e0cc5ad8ccdb47257dc"},
		{"model ARN", "POST", arn, "application/json", `{"messages":[]}`, "", ours, "content-type;host;x-amz-date", "8c6b6302bd552d8c8964e9c021c896c659a6c2cd51d9a8a8bdd28c922dcdba36"},
		{"model ARN and token", "POST", arn, "application/json", `{"messages":[]}`, "FwoGZXIvYXdzEXAMPLE==", ours, "content-type;host;x-amz-date;x-amz-security-token", "2ccfa24888354a7ba6c037ac0f31b2ece25e75730f7f344756484c7e37751174"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), c.method, c.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if c.contentType != "" {
				r.Header.Set("Content-Type", c.contentType)
			}
			r.Header.Set("User-Agent", "not signed")
			r.Header.Set("Accept", "not signed")
			r.Header.Set("X-Amz-Security-Token", "left from before")
			c.scope.sign(r, []byte(c.body), credentials{
				id: "AKIDEXAMPLE", secret: httpsafe.NewSecret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), token: httpsafe.NewSecret(c.token),
			})
			want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/" + c.scope.at.Format("20060102") + "/" + c.scope.region + "/" + c.scope.service +
				"/aws4_request, SignedHeaders=" + c.headers + ", Signature=" + c.want
			if got := r.Header.Get("Authorization"); got != want {
				t.Errorf("authorization = %s\nwant %s", got, want)
			}
			if got := r.Header.Get("X-Amz-Security-Token"); got != c.token {
				t.Errorf("token header = %q, want %q", got, c.token)
			}
		})
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	if got, want := escape("a:b/c~d e%é+"), "a%3Ab%2Fc~d%20e%25%C3%A9%2B"; got != want {
		t.Errorf("escape = %s, want %s", got, want)
	}
}
