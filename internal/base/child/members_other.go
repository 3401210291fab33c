//go:build !linux

package mcp

func (k *kin) members() []int { return nil }

func (k *kin) killAll() { k.kill() }

const canWatch = false
