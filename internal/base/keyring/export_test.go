package keyring

// ErrNotFound is errNotFound.
var ErrNotFound = errNotFound
