package bedrock

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/wire"
)

// maxErrorBody is how much of an error body is read.
const maxErrorBody = 64 << 10

// awsError is an error as the service writes it: the type in a header or in
// the body, the text under one of two names.
type awsError struct {
	code     string
	message  string
	original int    // status of the model's own server, 0 if unknown
	raw      []byte // what is not JSON of this shape
}

func plainError(h http.Header, body []byte) awsError {
	var w struct {
		Type     string `json:"__type"`
		Code     string `json:"code"`
		Message  string `json:"message"`
		Upper    string `json:"Message"`
		Original int    `json:"originalStatusCode"`
	}

	e := awsError{code: h.Get("X-Amzn-Errortype")}
	if json.Unmarshal(body, &w) != nil || cmp.Or(w.Message, w.Upper, w.Type) == "" {
		e.raw = body
		return e
	}

	e.code = cmp.Or(e.code, w.Type, w.Code)
	e.message = cmp.Or(w.Message, w.Upper)
	e.original = w.Original
	return e
}

// name returns the code without the decoration of namespaces and addresses.
func (e awsError) name() string {
	s, _, _ := strings.Cut(e.code, ":")
	if i := strings.LastIndexAny(s, "#/"); i >= 0 {
		s = s[i+1:]
	}
	return strings.ToLower(strings.TrimSpace(s))
}

// body returns the error in the shape the Classifier reads.
func (e awsError) body() []byte {
	if e.raw != nil && e.name() == "" {
		return e.raw
	}
	b := append([]byte(nil), `{"code":`...)
	b = text.AppendJSON(b, e.name())
	b = append(b, `,"message":`...)
	b = text.AppendJSON(b, cmp.Or(e.message, trimmed(e.raw), e.name()))
	return append(b, '}')
}

// refusal classifies an HTTP error; it reads and closes the body. No part of
// the key pair appears in the message.
func (d *driver) refusal(resp *http.Response, cred credentials) *llm.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close()
	c := d.classify
	c.Secrets = append([]httpsafe.Secret{httpsafe.NewSecret(cred.id), cred.secret, cred.token}, c.Secrets...)
	return plainError(resp.Header, body).classified(c, resp.StatusCode, resp.Header)
}

// classified lets the Classifier read the text and then trusts the service's
// own code where it has one.
func (e awsError) classified(c wire.Classifier, status int, h http.Header) *llm.Error {
	out := c.Response(status, h, e.body())
	low := strings.ToLower(out.Message)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(low, w) {
				return true
			}
		}
		return false
	}

	code := e.name()
	hint := ""
	switch {
	case strings.Contains(code, "throttl"), code == "toomanyrequestsexception", code == "servicequotaexceededexception":
		out.Kind = llm.RateLimited
	case strings.Contains(code, "timeout"):
		out.Kind = llm.Timeout
	case strings.Contains(code, "unavailable"), strings.Contains(code, "modelnotready"):
		out.Kind = llm.Overloaded
	case code == "modelerrorexception" && e.original >= 400 && e.original < 500 && e.original != 408 && e.original != 429:
		out.Kind = llm.InvalidRequest
	case code == "internalserverexception", code == "modelerrorexception", code == "modelstreamerrorexception":
		out.Kind = llm.ServerError
	case isCredentialCode(code), status == http.StatusForbidden && has("api key", "authentication failed", "security token"):
		out.Kind = llm.Auth
		if has("signature expired", "not yet current", "too skewed") || code == "requesttimetooskewed" {
			hint = "; check this computer's clock"
		}

	case code == "accessdeniedexception":
		out.Kind = llm.Permission
	case code == "resourcenotfoundexception", has("model identifier is invalid"):
		out.Kind = llm.NotFound
	case has("on-demand throughput"):
		out.Kind = llm.NotFound
		hint = "; put a region group before the model, such as us. or global."
	case has("exceed context limit", "input tokens exceeded", "too many input tokens", "tokens exceeds maximum"):
		out.Kind = llm.ContextLength
	}

	if len(out.Message)+len(hint) <= 500 { // the limit of llm.Error
		out.Message += hint
	}
	return out
}

func isCredentialCode(code string) bool {
	switch code {
	case "unrecognizedclientexception", "expiredtokenexception", "expiredtoken", "invalidsignatureexception", "signaturedoesnotmatch",
		"incompletesignatureexception", "incompletesignature", "missingauthenticationtokenexception", "missingauthenticationtoken",
		"invalidclienttokenid", "requesttimetooskewed", "requestexpired":
		return true
	}
	return false
}
