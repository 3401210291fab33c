package signal

import (
	"context"
	"encoding/json"
	"fmt"

	channel "github.com/nanobot-go/nanobot/internal/chat"
)

// probe asks the daemon whether it is there and has the account.
func probe(ctx context.Context, d channel.Deps, section json.RawMessage) (channel.Report, error) {
	o, err := decode(section)
	if err != nil {
		return channel.Report{}, err
	}
	if o.Managed {
		return o.probeProgram(), nil
	}
	h, err := d.Client(o.Proxy)
	if err != nil {
		return channel.Report{}, channel.Fatal(fmt.Errorf("proxy: %w", err))
	}
	defer h.CloseIdleConnections()
	c := newClient(o.base(), o.PhoneNumber, h)
	r := channel.Report{Identity: o.PhoneNumber}

	err = o.startHint(c.check(ctx))
	r.Checks = append(r.Checks, checked("signal-cli", "answers at "+o.base(), err))
	if err != nil {
		return r, nil
	}
	err = c.call(ctx, "getUserStatus", map[string]any{"recipient": []string{o.PhoneNumber}}, nil)
	r.Checks = append(r.Checks, checked("account", o.PhoneNumber+" is registered", err))
	return r, nil
}

func checked(name, good string, err error) channel.Check {
	if err != nil {
		return channel.Check{Name: name, Detail: channel.Explain(err).Error()}
	}
	return channel.Check{Name: name, OK: true, Detail: good}
}
