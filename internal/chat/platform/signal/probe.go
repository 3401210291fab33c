package signal

import (
	"context"
	"encoding/json"

	"github.com/nanobot-go/nanobot/internal/chat"
)

// probe asks the daemon whether it is there and has the account.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return chat.Report{}, err
	}
	if o.Managed {
		return o.probeProgram(), nil
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return chat.Report{}, err
	}

	defer h.CloseIdleConnections()
	c := newClient(o.base(), o.PhoneNumber, h)
	r := chat.Report{Identity: o.PhoneNumber}

	err = o.startHint(c.check(ctx))
	r.Checks = append(r.Checks, checked("signal-cli", "answers at "+o.base(), err))
	if err != nil {
		return r, nil
	}

	err = c.call(ctx, "getUserStatus", map[string]any{"recipient": []string{o.PhoneNumber}}, nil)
	r.Checks = append(r.Checks, checked("account", o.PhoneNumber+" is registered", err))
	return r, nil
}

func checked(name, good string, err error) chat.Check {
	if err != nil {
		return chat.Check{Name: name, Detail: chat.Explain(err).Error()}
	}
	return chat.Check{Name: name, OK: true, Detail: good}
}
