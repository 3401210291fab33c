package socket

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus/media"
)

func TestUploadThatIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		store := media.Store{Dir: dir, Max: 10}
		m, err := store.Save(t.Context(), "f", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		var u uploads
		id := u.save(&upload{owner: "d", media: m})
		time.Sleep(uploadLife - time.Second)
		if _, _, ok := u.stat(id, "d"); !ok {
			t.Error("gone before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, _, ok := u.stat(id, "d"); ok {
			t.Error("still there after an hour")
		}
		if _, err := os.Stat(m.Path); !os.IsNotExist(err) {
			t.Errorf("the file is still there: %v", err)
		}
	})
}
