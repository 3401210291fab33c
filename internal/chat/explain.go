package chat

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
)

// explained is an error as a sentence for people.
type explained struct {
	words string
	err   error
}

func (e *explained) Error() string { return e.words }
func (e *explained) Unwrap() error { return e.err }

// Explain makes a sentence of what Go says when a server cannot be reached. Other
// errors stay as they are: channels word these themselves.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if words := unreachable(err); words != "" {
		return &explained{words, err}
	}
	return err
}

// unreachable returns the sentence, "" if the server was reached.
func unreachable(err error) string {
	where := "the server"
	address, viaURL := errors.AsType[*url.Error](err)
	if viaURL {
		if u, bad := url.Parse(address.URL); bad == nil && u.Host != "" {
			where = u.Host // the rest may hold a token
		}
	}

	if name, ok := errors.AsType[*net.DNSError](err); ok {
		if name.IsNotFound {
			return fmt.Sprintf("there is no server of the name %s: check the address, and that this machine is online", name.Name)
		}
		return fmt.Sprintf("the name %s cannot be looked up now: check that this machine is online", name.Name)
	}

	dial, dialed := errors.AsType[*net.OpError](err)
	if dialed && !viaURL && dial.Addr != nil {
		where = dial.Addr.String()
	}

	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	late, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing answers at %s (connection refused): check the address and the port, and that the server runs", where)
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Sprintf("there is no way to %s: check that this machine is online", where)
	case errors.Is(err, context.DeadlineExceeded), isNet && late.Timeout():
		return fmt.Sprintf("%s does not answer in time", where)
	case unknown, otherName, invalid:
		return fmt.Sprintf("the certificate of %s is not accepted: it is of another name, expired, or of an authority that this machine does not know", where)
	case noTLS:
		return fmt.Sprintf("%s does not speak TLS: check http or https, and the port", where)
	case dialed && dial.Op == "dial":
		return fmt.Sprintf("%s cannot be reached: %v", where, dial.Err)
	}

	return ""
}
