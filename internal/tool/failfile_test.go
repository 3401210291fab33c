package tool_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
)

func TestFailFile(t *testing.T) {
	t.Parallel()
	refused := func(kind error) error { return &diskio.JailError{Path: "a", Kind: kind, Detail: "why"} }
	for name, row := range map[string]struct {
		err  error
		code tool.Code
		text string
	}{
		"outside of the jail":  {refused(diskio.ErrOutside), tool.DeniedPolicy, "Error: a: why"},
		"protected":            {refused(diskio.ErrProtected), tool.DeniedPolicy, "Error: a: why"},
		"read-only":            {refused(diskio.ErrReadOnly), tool.DeniedPolicy, "Error: a: why"},
		"a device":             {refused(diskio.ErrNotRegular), tool.InvalidArgs, "Error: a: why"},
		"no name of a file":    {refused(diskio.ErrBadName), tool.InvalidArgs, "Error: a: why"},
		"too large":            {refused(diskio.ErrTooLarge), tool.TooLarge, "Error: a: why"},
		"changed meanwhile":    {refused(diskio.ErrChanged), tool.Conflict, "Error: a: why"},
		"missing":              {fmt.Errorf("open: %w", fs.ErrNotExist), tool.NotFound, "Error: n does not exist."},
		"denied by the system": {&fs.PathError{Op: "open", Path: "a", Err: syscall.EACCES}, tool.DeniedPolicy, "Error: n: the system denies access"},
		"anything else":        {errors.New("disk"), tool.Internal, "Error: n: disk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tool.FailFile("n", row.err)
			if got.Code != row.code || got.Content.String() != row.text || !got.IsError {
				t.Errorf("got %s %q, want %s %q", got.Code, got.Content, row.code, row.text)
			}
		})
	}
}
