package access

// ErrPairingSoon is errPairingSoon for the tests, which are outside of the package.
var ErrPairingSoon = errPairingSoon
