package document

// What the tests, which are outside of the package, compare with.
var (
	ErrEncrypted   = errEncrypted
	ErrMalformed   = errMalformed
	ErrUnsupported = errUnsupported
)

// DefaultMaxChars is defaultMaxChars for the tests.
const DefaultMaxChars = defaultMaxChars

// FailureError is failure for the tests.
type FailureError = failure
