package shell_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/sandbox"
)

// startProxy serves the filtering proxy for the network "proxy".
func (a *adversary) startProxy(context.Context) (stop func(), err error) {
	if a.Network != sandbox.NetProxy {
		return func() {}, nil
	}
	fmt.Println("SKIP: there is no filtering proxy yet")
	return nil, errors.New("no proxy")
}
