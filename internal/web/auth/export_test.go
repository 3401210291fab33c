package auth

// MaxTokens is the bound of Tokens.
const MaxTokens = maxTokens

// Waiting is how many tokens are neither used nor known to have ended.
func Waiting(t *Tokens) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.issued)
}
