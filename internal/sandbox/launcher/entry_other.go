//go:build !linux || !(amd64 || arm64)

package launcher

// LinkerFlag makes a program begin at entry. It is empty where there is none.
const LinkerFlag = ""
