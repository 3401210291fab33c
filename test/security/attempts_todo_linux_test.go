package security_test

func approvalAttempts() []attempt { return nil }
func writeAttempts() []attempt    { return nil }
func guestAttempts() []attempt    { return nil }
func limitAttempts() []attempt    { return nil }
func secretAttempts() []attempt   { return nil }
