package arch_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// budget is budget.json: what the program may need at most. It limits what users
// notice; figures of the code are not limited. Raising one is a decision for review.
type budget struct {
	Binary       int64 `json:"binary_bytes"` // a guard against accidents
	OneShotRSS   int64 `json:"oneshot_rss_bytes"`
	FirstRequest int64 `json:"first_request_bytes"`

	// InitAllocations is how often the packages allocate before main begins.
	InitAllocations int64 `json:"init_allocations"`

	// Times, which only the benchmark measures.
	GatewayReady int `json:"gateway_ready_ms"`
	OneShotStart int `json:"oneshot_start_floors"`
	ExecOverhead int `json:"exec_overhead_ms"`
	WebFetch     int `json:"web_fetch_ms"`

	ChannelInterfaces []string `json:"channel_interfaces"`
}

func readBudget(t *testing.T) budget {
	t.Helper()
	raw, err := os.ReadFile("test/arch/budget.json")
	if err != nil {
		t.Fatal(err)
	}
	var b budget
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatalf("budget.json: %v", err)
	}
	return b
}

// isProduct reports packages of the product: not tests, suites for tests,
// benchmarks and tools.
func isProduct(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !isTestHelper(pkg) && !slices.Contains([]string{"tools", "test", "web"}, first)
}
