package storetest_test

import (
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// The driver in memory is not weaker than the others.
func TestMemory(t *testing.T) { t.Parallel(); storetest.Run(t, storetest.Memory()) }
