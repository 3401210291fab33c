package bedrock

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const service = "bedrock"

// scope is where and when a signature is valid.
type scope struct {
	region  string
	service string
	at      time.Time
}

// sign puts a version 4 signature of the request and its body into the
// headers. The host, the content type and all x-amz headers are signed. The
// signer would sign every header, but proxies may change the others, so it gets
// a copy without them.
func (s scope) sign(r *http.Request, body []byte, c credentials) error {
	r.Header.Del("X-Amz-Security-Token")
	bare := &http.Request{Method: r.Method, URL: r.URL, Host: r.Host, Header: http.Header{}}
	for k, v := range r.Header {
		if low := strings.ToLower(k); low == "content-type" || strings.HasPrefix(low, "x-amz") {
			bare.Header[k] = v
		}
	}

	sum := sha256.Sum256(body)
	err := v4.NewSigner().SignHTTP(r.Context(), c.aws(), bare, hex.EncodeToString(sum[:]), s.service, s.region, s.at)
	for _, k := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if v := bare.Header.Get(k); v != "" {
			r.Header.Set(k, v)
		}
	}
	return err
}

// aws is the form in which the vendor's packages take credentials.
func (c credentials) aws() aws.Credentials {
	return aws.Credentials{
		AccessKeyID:     c.id,
		SecretAccessKey: c.secret.Reveal(),
		SessionToken:    c.token.Reveal(),
		CanExpire:       !c.expires.IsZero(),
		Expires:         c.expires,
	}
}

// escape percent-encodes everything that is not a letter, a digit or one of
// -._~, which is stricter than net/url.
func escape(s string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			c == '-', c == '.', c == '_', c == '~':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}
