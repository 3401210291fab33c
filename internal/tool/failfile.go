package tool

import (
	"errors"
	"io/fs"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// FailFile is the error result about a file that could not be opened or changed
// through a diskio.Jail. name is what the model called it.
func FailFile(name string, err error) Result {
	switch {
	case errors.Is(err, diskio.ErrOutside), errors.Is(err, diskio.ErrProtected), errors.Is(err, diskio.ErrReadOnly):
		return Fail(DeniedPolicy, "%v", err)
	case errors.Is(err, diskio.ErrNotRegular), errors.Is(err, diskio.ErrBadName):
		return Fail(InvalidArgs, "%v", err)
	case errors.Is(err, diskio.ErrTooLarge):
		return Fail(TooLarge, "%v", err)
	case errors.Is(err, diskio.ErrChanged):
		return Fail(Conflict, "%v", err)
	case diskio.IsMissing(err):
		return Fail(NotFound, "%s does not exist.", name)
	case errors.Is(err, fs.ErrPermission):
		return Fail(DeniedPolicy, "%s: the system denies access", name)
	}
	return Fail(Internal, "%s: %v", name, err)
}
