package bedrock

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const service = "bedrock"

// scope is where and when a signature is valid.
type scope struct {
	region  string
	service string
	at      time.Time
}

// sign puts a version 4 signature of the request and its body into the
// headers. The host, the content type and all x-amz headers are signed; proxies
// may change the others.
func (s scope) sign(r *http.Request, body []byte, c credentials) {
	at := s.at.UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", at)
	r.Header.Del("X-Amz-Security-Token")
	if token := c.token.Reveal(); token != "" {
		r.Header.Set("X-Amz-Security-Token", token)
	}

	r.Host = withoutDefaultPort(cmp.Or(r.Host, r.URL.Host), r.URL.Scheme) // what is sent is what is signed

	names, headers := canonicalHeaders(r)
	request := strings.Join([]string{
		r.Method,
		canonicalPath(r.URL),
		canonicalQuery(r.URL),
		headers,
		names,
		hexSum(body),
	}, "\n")

	day := at[:8]
	place := strings.Join([]string{day, s.region, s.service, "aws4_request"}, "/")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", at, place, hexSum([]byte(request))}, "\n")

	key := []byte("AWS4" + c.secret.Reveal())
	for _, part := range []string{day, s.region, s.service, "aws4_request"} {
		key = keyed(key, part)
	}

	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.id+"/"+place+
		", SignedHeaders="+names+", Signature="+hex.EncodeToString(keyed(key, text)))
}

// canonicalHeaders returns the names of the signed headers and a line for each,
// in the order of their names.
func canonicalHeaders(r *http.Request) (names, lines string) {
	signed := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		low := strings.ToLower(name)
		if low != "content-type" && !strings.HasPrefix(low, "x-amz") {
			continue
		}

		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = singleSpaces(v)
		}
		signed[low] = strings.Join(trimmed, ",")
	}

	sorted := slices.Sorted(maps.Keys(signed))
	var b strings.Builder
	for _, name := range sorted {
		b.WriteString(name + ":" + signed[name] + "\n")
	}
	return strings.Join(sorted, ";"), b.String()
}

// withoutDefaultPort returns the host without a port that the scheme implies:
// servers leave it out when they check a signature.
func withoutDefaultPort(host, scheme string) string {
	switch scheme {
	case "https":
		return strings.TrimSuffix(host, ":443")
	case "http":
		return strings.TrimSuffix(host, ":80")
	}
	return host
}

// singleSpaces trims a value and makes one space of each run of spaces in it.
func singleSpaces(s string) string {
	s = strings.TrimSpace(s)
	for strings.Contains(s, "  ") {
		s = strings.ReplaceAll(s, "  ", " ")
	}
	return s
}

// canonicalPath returns the path as it is sent, encoded once more.
func canonicalPath(u *url.URL) string {
	segments := strings.Split(u.EscapedPath(), "/")
	for i, s := range segments {
		segments[i] = escape(s)
	}
	if path := strings.Join(segments, "/"); path != "" {
		return path
	}
	return "/"
}

// canonicalQuery returns the parameters in the order of their names and values.
func canonicalQuery(u *url.URL) string {
	query := u.Query()
	for _, values := range query {
		slices.Sort(values)
	}
	return strings.ReplaceAll(query.Encode(), "+", "%20")
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
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
