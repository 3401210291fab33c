//go:build !windows

package cli

const defaultEditor = "vi"
