package bedrock

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	service   = "bedrock"
	amzTime   = "20060102T150405Z"
)

// scope is where and when a signature is valid.
type scope struct {
	region  string
	service string
	at      time.Time
}

// sign puts a version 4 signature of the request and its body into the
// headers. The host, the content type and all x-amz headers are signed; others
// are left out because proxies may change them.
func (s scope) sign(r *http.Request, body []byte, c credentials) {
	stamp := s.at.UTC().Format(amzTime)
	r.Header.Set("X-Amz-Date", stamp)
	r.Header.Del("X-Amz-Security-Token")
	if !c.token.IsZero() {
		r.Header.Set("X-Amz-Security-Token", c.token.Reveal())
	}
	names, canonical := canonicalRequest(r, body)
	day := stamp[:8]
	where := day + "/" + s.region + "/" + s.service + "/aws4_request"
	text := algorithm + "\n" + stamp + "\n" + where + "\n" + hexSum([]byte(canonical))
	key := mac([]byte("AWS4"+c.secret.Reveal()), day)
	for _, part := range []string{s.region, s.service, "aws4_request"} {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", algorithm+" Credential="+c.id+"/"+where+
		", SignedHeaders="+names+", Signature="+hex.EncodeToString(mac(key, text)))
}

// canonicalRequest is the form of a request that both sides hash. Requests to
// this service have no query, so its line is empty.
func canonicalRequest(r *http.Request, body []byte) (names, text string) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	values := map[string]string{"host": host}
	for k, v := range r.Header {
		if k = strings.ToLower(k); k == "content-type" || strings.HasPrefix(k, "x-amz") {
			values[k] = squeeze(strings.Join(v, ","))
		}
	}
	order := make([]string, 0, len(values))
	for k := range values {
		order = append(order, k)
	}
	slices.Sort(order)
	names = strings.Join(order, ";")
	var b strings.Builder
	b.WriteString(r.Method + "\n" + canonicalPath(r.URL) + "\n\n")
	for _, k := range order {
		b.WriteString(k + ":" + values[k] + "\n")
	}
	b.WriteString("\n" + names + "\n" + hexSum(body))
	return names, b.String()
}

// canonicalPath escapes the path as it is on the wire once more: the colon of
// a model id is %3A in the URL and %253A in the signature.
func canonicalPath(u *url.URL) string {
	p := u.EscapedPath()
	if p == "" {
		return "/"
	}
	return escape(p, true)
}

// escape percent-encodes everything that is not a letter, a digit or one of
// -._~, which is stricter than net/url.
func escape(s string, slashes bool) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			c == '-', c == '.', c == '_', c == '~', c == '/' && slashes:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

// squeeze trims a header value and makes one space of several.
func squeeze(s string) string {
	s = strings.Trim(s, " ")
	for strings.Contains(s, "  ") {
		s = strings.ReplaceAll(s, "  ", " ")
	}
	return s
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
