package diskio

// ErrLogBroken is errLogBroken for the tests, which are outside of the package.
var ErrLogBroken = errLogBroken
