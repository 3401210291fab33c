package signin

// ErrNotSignedIn is errNotSignedIn for the tests, which are outside of the package.
var ErrNotSignedIn = errNotSignedIn
