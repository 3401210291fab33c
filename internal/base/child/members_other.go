//go:build !linux

package child

// CanSee says that other processes can be looked at.
const CanSee = false

// Members are not known here.
func (*Kin) Members() []int { return nil }

// KillAll is Kill here.
func (k *Kin) KillAll() { k.Kill() }
