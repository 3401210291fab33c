package socket

// What the tests, which are outside of the package, compare with.
var (
	ErrSilent   = errSilent
	ErrTooLarge = errTooLarge
)

// Subprotocol is what the server chose.
func (c *Conn) Subprotocol() string { return c.ws.Subprotocol() }
