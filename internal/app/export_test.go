package app

// UntrustedRoot is the folder that guests share with the owner.
func UntrustedRoot(a *App) string { return a.untrustedRoot() }

// GuestShare is what a setting of agents.defaults.guestShare opens.
func GuestShare(setting string) string { return guestShare(setting) }
