//go:build !linux

package main

func releaseStart() {}
