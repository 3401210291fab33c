//go:build !linux

package diskio

import (
	"errors"
	"io/fs"
	"os"
)

// kernelWay says that the kernel may know how to open without following links.
const kernelWay = false

func (t *Tree) openKernel(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func (t *Tree) lstatKernel(string) (fs.FileInfo, error) { return nil, errors.ErrUnsupported }
