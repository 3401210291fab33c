package kit_test

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

// Each cause is logged the first time, whoever finds it.
func TestOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	once := kit.NewOnce(slog.New(slog.NewTextHandler(&log, nil)))
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for cause := range 3 {
				once.Warn(t.Context(), strconv.Itoa(cause), "trouble", "with", cause)
			}
		})
	}
	wg.Wait()
	for cause := range 3 {
		if n := strings.Count(log.String(), "msg=trouble with="+strconv.Itoa(cause)); n != 1 {
			t.Errorf("cause %d is logged %d times:\n%s", cause, n, &log)
		}
	}
}
