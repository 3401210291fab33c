package security_test

func guestAttempts() []attempt  { return nil }
func limitAttempts() []attempt  { return nil }
func secretAttempts() []attempt { return nil }
