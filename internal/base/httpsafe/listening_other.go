//go:build !linux

package httpsafe

// ListeningPorts returns the TCP ports that this process listens on. They are not
// known here: ProxyOptions.OwnPorts has to say them.
func ListeningPorts() []uint16 { return nil }
