package wire

import (
	"context"
	"net/http"
)

// Signer puts credentials on requests that need more than a fixed key: tokens
// that expire, signatures over the body, headers that depend on the account.
// Implementations are safe for concurrent use and refresh single-flight.
type Signer interface {
	// Sign sets headers, and the URL where the account decides it, just before
	// a request is sent. body is what will be sent.
	Sign(ctx context.Context, req *http.Request, body []byte) error
	// Refused is called after the server answered 401. It reports whether new
	// credentials were found, so that one more try makes sense.
	Refused(ctx context.Context) bool
}
