package httpsafe_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
)

func TestTypedKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"sk-proj-4fJk29sLmQ0pZx7Rt5Yb8Nc1", "sk-ant-api03-Ab12Cd34Ef56Gh78Ij90Kl12-Mn34Op_QAA", "sk-or-v1-0f9e8d7c6b5a49382716050403020100",
		"gsk_4fJk29sLmQ0pZx7Rt5Yb8Nc1aa", "AIzaSyA4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7", "ghp_4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7wE5rT",
		"github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz0123456789ABCDEFG", "glpat-4fJk29sLmQ0pZx7Rt5Yb", "xoxb-123456789012-4fJk29sLmQ0pZx7Rt5Yb",
		"AKIA4FJK29SLMQ0PZX7R", "123456789:AAE4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7wE5", "hf_4fJk29sLmQ0pZx7Rt5Yb8Nc1aaQ7w",
		"eyJhbGciOiJIUzI1NiJ9abc.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n-----END OPENSSH PRIVATE KEY-----", "sk_live_4fJk29sLmQ0pZx7Rt5",
	} {
		for _, frame := range []string{"%", "my key is %.", "use `%` please", "KEY=%\nthanks", "(%)", "\"%\",", "die Taste: %!"} {
			clean, keys := httpsafe.TypedKeys(strings.ReplaceAll(frame, "%", key))
			if len(keys) != 1 || strings.Contains(clean, key[8:]) || !strings.Contains(clean, httpsafe.TypedKey) {
				t.Errorf("%s in %q: %q, %q", key, frame, clean, keys)
			}
		}
	}
	if clean, keys := httpsafe.TypedKeys("the api key is 9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c, and the access_token = Zx9Qw8Er7Ty6Ui5Op4As3Df2"); len(keys) != 2 || strings.Contains(clean, "9f8a") {
		t.Errorf("named keys: %q, %q", clean, keys)
	}
	for _, text := range []string{
		"pip install scikit-learn sk-learn-contrib-something-long", "the branch is feature/task-1234-do-the-thing-we-talked-about",
		"commit 4f1c2d3e4b5a69788796a5b4c3d2e1f00f1e2d3c fixes it", "uuid 550e8400-e29b-41d4-a716-446655440000", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"https://example.org/a/very/long/path-with-1234567890/and?x=1", "call me at 0123456789:30 or later", "set api_key in config.yaml to the key of the provider you use",
		"what does hf_hub_download_something_with_long_name do?", "docker run ghcr.io/org/image:2026-11-15", "token = os.environ['SOME_LONG_VARIABLE_NAME_1']",
		"client_secret = settings.auth.providers.google.client_secret_2", "bearer authentication_is_described_below", "sk-estimator-2-of-the-second-model",
		"0x7f3b2c1d4e5f60718293a4b5c6d7e8f901234567", "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=", "npm_config_registry_is_not_a_key_1",
	} {
		if clean, keys := httpsafe.TypedKeys(text); len(keys) > 0 || clean != text {
			t.Errorf("%q: %q, %q", text, clean, keys)
		}
	}
}
