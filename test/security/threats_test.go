package security_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table in test/security/threats.md")

// threat names the tests that show that a threat is met. Tests stand as
// "package TestName"; those of this folder have no package.
type threat struct {
	id, what string
	tests    []string
	open     string // what is not there yet
}

func threats() []threat {
	return []threat{
		{"T1", "injection through web pages and search results", []string{
			"TestInjections", "TestEarlierTurn", "TestT1FenceHolds", "internal/core/agent TestTaintOutlivesTheTurn", "internal/guard/approve TestT1InjectedCommandNeedsApproval", "internal/guard/approve TestRow115ImitatedApproval",
			"internal/core/runner TestFence", "internal/tool/web TestHiddenTextIsDropped",
		}, "what the model said after a page taints no longer than the page itself"},
		{"T2", "injection through files, pictures, attachments", []string{
			"TestInjections", "internal/tool/files TestT2Untrusted", "internal/tool/files TestReadMediaIsUntrusted", "internal/core/skill TestLinksAreNotFollowed",
		}, "a file in the workspace counts as the owner's"},
		{"T3", "injection through channels", []string{
			"TestInjections", "internal/core/agent TestRuntimeBlockIsMarked", "internal/core/agent TestMessageToolIsIsolated", "internal/core/agent TestOthersDoNotJoin",
			"internal/chat/access TestNameOfAStranger", "internal/chat/platform/telegram TestWordsOfOthers", "internal/chat/platform/email TestForgedSender",
			"internal/chat/platform/email TestVerified", "internal/chat/platform/email TestWordsOfOthersInAMail", "internal/chat/platform/slack TestThreadContext",
			"internal/chat/platform/mattermost TestThreadContext", "internal/chat/platform/discord TestForgedButtons", "internal/chat/platform/matrix TestPlainInEncryptedRoom",
		}, "what a guest or a member of a group writes is an order in their own chat"},
		{"T4", "commands that leave the workspace", []string{
			"TestInjections", "internal/tool/shell TestAdversarial", "internal/tool/shell TestAdversarialControl", "internal/tool/shell TestAdversarialRowsAreComplete",
			"internal/base/sandbox TestSecretsStaySecret", "internal/base/sandbox TestOutsideStaysAsItIs", "internal/base/sandbox TestPlantedLink", "internal/base/sandbox TestLinkInTheLastMoment",
			"internal/guard TestProjectKeepsFiles", "internal/guard TestProjectKeepsCommands", "internal/guard TestProjectForgetsCommands", "internal/guard TestProjectHoldsAgainstLinks", "internal/run/gateway TestChooseScope",
		}, ""},
		{"T5", "destructive commands inside it", []string{
			"internal/tool/shell TestAdversarialCommands", "internal/tool/shell TestBuiltInRules", "internal/tool/shell TestAdversarialWithoutSandbox",
			"internal/guard/change/undo TestUndoCommand", "internal/guard/change/undo TestUndoRestoresEverything",
		}, ""},
		{"T6", "path traversal, links, races", []string{
			"internal/tool/files TestT6SwapRace", "internal/base/diskio TestJailSwapRace", "internal/guard/change/undo TestLinkSwaps",
			"internal/tool/files TestPathsOutside", "internal/base/diskio TestJailHardLink", "internal/guard TestSentFileIsTheOneThatWasChecked",
			"internal/tool/files TestAdversarialMounts",
		}, ""},
		{"T7", "requests to private addresses", []string{
			"TestInjections", "internal/tool/web TestHostileURLs", "internal/tool/web TestHostileRedirects", "internal/tool/web TestHostileNames",
			"internal/tool/web TestRebinding", "internal/base/httpsafe TestGuardRefuses", "internal/base/httpsafe TestProxyRefuses", "internal/base/httpsafe FuzzTarget",
			"internal/tool/mcp TestLoginServerIsGuarded", "internal/tool/mcp TestLoginPageIsChecked", "internal/guard TestCommandsReachNoLocalService",
			"internal/guard TestProjectReachesNoLocalService",
		}, "commands of the owner reach the whole network unless tools.exec.network says otherwise"},
		{"T8", "secrets through the environment", []string{
			"TestPlantedKeyInCrash", "internal/tool/shell TestHardenHidesTheEnvironment", "internal/tool/shell TestEnvironmentHoldsNoSecrets",
			"internal/tool/mcp TestChildEnvironment",
		}, ""},
		{"T9", "secrets through files", []string{
			"TestT9ProtectedWhenUnrestricted", "internal/tool/files TestProtectedEvenWhenUnrestricted", "internal/base/sandbox TestProtectedIsHidden",
			"internal/tool/shell TestProtectedPaths",
		}, ""},
		{"T10", "carrying secrets away", []string{
			"TestInjections", "TestT10KeyLeavesInNoCall", "internal/guard/approve TestT10SecretsDoNotLeave", "internal/guard/approve TestT10LongAddresses", "internal/tool/web TestSearchRefusesSecrets",
			"internal/tool/web TestSuspicious",
		}, "short addresses can carry a few words"},
		{"T11", "poisoned memory and sessions", []string{
			"TestInjections", "internal/core/memory TestPoisonedPage", "internal/core/memory TestMirrorIsRestored", "internal/core/memory TestOutsideContentGoesApart",
			"internal/core/session TestForeignChanges", "internal/guard TestGuestsSeeNothingOfTheOwner", "internal/guard TestGuestsChangeNothingOfTheOwner",
			"internal/guard TestGuestsCommands", "internal/guard TestGuestsStayAtTheirs",
		}, "without a sandbox guests have no commands"},
		{"T12", "strangers and pairing", []string{
			"internal/core/agent TestQuestionInATurn", "internal/core/agent TestCommandsOfTheOwner", "internal/chat/access TestAdmit", "internal/chat/access TestPairingByCode",
			"internal/chat/access TestPairingLimits", "internal/chat/platform/telegram TestStrangerCausesNothing", "internal/core/schedule TestToolKeepsChatsApart",
		}, "guests approve the calls of their own turns; members of a group can stop each other's turns"},
		{"T13", "listeners without a key", []string{
			"internal/web/api TestGate", "internal/web/api TestGateNeedsToken", "internal/web/api TestServeRefusesStrangers", "cmd/nanobot TestMCPServeHTTP",
			"internal/cli TestMCPServeRefuses", "internal/web/api TestAdmission", "internal/web/api TestServeNeedsKey", "internal/web/api TestOtherUserIsRefused",
			"internal/run/gateway TestWeakKeyOffLoopback", "internal/run/gateway TestKeysFollowTheConfiguration", "internal/web/socket TestHandshake",
			"internal/web/socket TestIssueWithoutSecret", "internal/web/socket TestSettings", "internal/web/socket TestSignedMedia",
			"internal/web/socket TestRequestsNeedProof", "internal/web/socket TestAPIAccess", "internal/web/socket TestUserShell",
			"internal/chat/platform/telegram TestWebhookRefuses", "internal/chat/platform/slack TestWebhookRefuses", "internal/chat/platform/slack TestWebhookReplay",
			"internal/chat/platform/teams TestForgedRequests", "internal/chat/platform/mattermost TestPressForged",
		}, "a proxy on this machine that leaves no mark makes strangers look local: set a key"},
		{"T14", "malicious MCP servers", []string{
			"TestInjections", "internal/tool/mcp TestT14MaliciousServer", "internal/tool/mcp TestHeadersStayAtTheirOrigin", "internal/tool/mcp TestPins",
			"internal/tool/mcp TestServersCollide", "internal/tool/mcp TestStdioFlood",
		}, ""},
		{"T15", "malicious skills", []string{"internal/core/skill TestHostileArchivesInstallNothing", "internal/core/skill TestInstalledSkillsAreLabelled"}, ""},
		{"T16", "using up the machine", []string{
			"TestResourceLimits", "internal/base/sandbox TestForkBomb", "internal/base/sandbox TestLimits", "internal/tool/web TestBombs", "internal/base/document TestBombs",
			"internal/tool/shell TestOutputIsBounded", "internal/tool/files TestFIFO", "internal/tool/mcp TestHTTPAnswerLimits",
			"internal/web/api TestUnreadBodies", "internal/web/socket TestOversizeFrame", "internal/run/gateway TestHugeMessage",
		}, "the number of connections of strangers is not bounded"},
		{"T17", "runaway cost", []string{
			"internal/core/runner TestBudgets", "internal/core/runner TestLoopGuard", "internal/run/app TestBudgetStops", "internal/llm/ledger TestNeverExceeds",
			"internal/core/agent TestGoalHasCeilings",
		}, ""},
		{"T18", "secrets in logs and transcripts", []string{
			"TestPlantedKey", "TestPlantedKeyInProviderErrors", "TestPlantedKeyInPanic", "TestPlantedKeyInCrash", "internal/base/httpsafe TestPlantedKeyInEveryVerb",
			"internal/base/httpsafe TestRedactProperty", "internal/tool/web TestSearchKeepsKeysSecret",
		}, ""},
		{"T19", "approvals for something else", []string{
			"internal/guard/approve TestT19ChangeAfterApproval", "internal/guard/approve TestT19RememberedExactly", "internal/guard/approve TestRow116AnswerCountsOnce",
			"internal/guard/approve TestNobodyAnswers",
		}, ""},
		{"T20", "other users of the machine", []string{
			"TestT20FilesAreOurs", "internal/web/auth TestListenerToken", "internal/web/api TestOtherUserIsRefused", "internal/base/httpsafe TestConnectionPeer",
			"internal/web/socket TestUnixSocket",
		}, "beside Linux other users reach an API without a key"},
		{"T21", "the web page", pageTests(), "without a sandbox a command can sign a browser in, as it has your rights"},
	}
}

// browserTests are run by node: such a test stands as its file and its title.
const browserTests = "web/test/browser"

// pageLine is one thing that the web page must withstand.
type pageLine struct {
	what  string
	tests []string
}

func pageLines() []pageLine {
	return []pageLine{
		{"texts of models, tools, files, senders, servers and logs run nothing, load nothing and look like nothing of the page", []string{
			"web/test/browser hostile.spec.mjs nothing in ${place} runs or leaves the page", "web/test/browser hostile.spec.mjs nothing in a title runs or leaves the page",
			"web/test/browser hostile2.spec.mjs nothing in ${place} runs or leaves the page", "web/test/browser guard.spec.mjs hostile text in what the program keeps shows as text",
		}},
		{"another page in the same browser, on another port or under another name, opens no socket, reads nothing, posts nothing, frames nothing", []string{
			"web/test/browser guard.spec.mjs a page of ${name} gets nothing", "internal/run/gateway TestPagesRefuse", "internal/web/auth TestSite", "internal/web/socket TestSignedMedia",
		}},
		{"a command, a guest's turn and a file tool get the static page and nothing else; another user cannot use a link", []string{
			"TestWebPage", "TestAttempts", "internal/web/auth TestLinkIsLimited", "internal/web/socket TestUnprovenCannotAnswer", "internal/web/socket TestRequestsNeedProof",
		}},
		{"a link or code works once, in time, and is in no address, log or referrer; cookies; a revoked device is out at once", []string{
			"internal/web/auth TestLink", "internal/web/auth TestTypedCode", "internal/web/auth TestGuessing", "internal/web/auth TestConsent", "internal/web/auth TestBadLogins",
			"internal/web/auth TestSecureCookie", "internal/web/auth TestDevices", "internal/web/auth TestDamagedDevices", "internal/run/gateway TestPages",
			"web/test/browser signin.spec.mjs a link signs in, and its code leaves the address at once", "web/test/browser devices.spec.mjs a device that is signed out elsewhere is out within a second",
		}},
		{"no secret of the configuration is in any byte that the browser has", []string{"web/test/browser guard.spec.mjs and no secret reaches the browser"}},
		{"an approval counts for the call that is shown, once, and not by a late or early click", []string{
			"internal/guard/approve TestT19ChangeAfterApproval", "internal/guard/approve TestRow116AnswerCountsOnce", "internal/web/socket TestAnswer",
			"web/test/browser chat.spec.mjs an approval is answered once, and not by an early click", "web/test/browser tools.spec.mjs an approval shows the whole call",
			"web/test/browser tools.spec.mjs each answer names its question",
		}},
		{"static paths and uploads", []string{"internal/run/gateway TestPagesRefuse", "internal/web/socket TestUpload", "internal/web/socket TestUploadIsRefused", "internal/web/socket TestUploadThatIsNotUsed"}},
		{"push messages", []string{"internal/web/subject TestPush", "internal/web/subject TestPushIsGuarded"}},
	}
}

// pageTests are those of all lines, each once.
func pageTests() (all []string) {
	for _, l := range pageLines() {
		for _, name := range l.tests {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// split is the package and the name of a test.
func split(name string) (dir, fn string) {
	if dir, fn, ok := strings.Cut(name, " "); ok {
		return dir, fn
	}
	return "test/security", name
}

// cellOf names tests in a table; browser tests by their file, once.
func cellOf(tests []string) string {
	var cells []string
	for _, name := range tests {
		dir, fn := split(name)
		if dir == browserTests {
			fn, _, _ = strings.Cut(fn, " ")
		}
		if c := fmt.Sprintf("`%s` (%s)", fn, strings.TrimPrefix(strings.TrimPrefix(dir, "internal/"), "tool/")); !slices.Contains(cells, c) {
			cells = append(cells, c)
		}
	}
	return strings.Join(cells, ", ")
}

// TestThreats checks that the tests a threat relies on exist, and that
// test/security/threats.md names the same.
func TestThreats(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| Threat | Tests | Not covered |\n| --- | --- | --- |\n")
	for i, th := range threats() {
		if want := fmt.Sprintf("T%d", i+1); th.id != want {
			t.Errorf("%s stands in the place of %s", th.id, want)
		}
		t.Run(th.id+"_"+strings.ReplaceAll(th.what, " ", "_"), func(t *testing.T) {
			t.Parallel()
			if len(th.tests) == 0 {
				t.Error("nothing shows that this threat is met")
			}
			for _, name := range th.tests {
				dir, fn := split(name)
				switch fails, ok := testsIn(t, dir)[fn]; {
				case dir == browserTests:
					checkBrowserTest(t, fn)
				case !ok:
					t.Errorf("there is no %s in %s", fn, dir)
				case !fails:
					t.Errorf("%s in %s cannot fail, or is skipped", fn, dir)
				}
			}
		})
		fmt.Fprintf(&table, "| %s %s | %s | %s |\n", th.id, th.what, cellOf(th.tests), th.open)
	}
	between(t, "threats", table.String(), "TestThreats")
	table.Reset()
	table.WriteString("| The page | Tests |\n| --- | --- |\n")
	for _, l := range pageLines() {
		fmt.Fprintf(&table, "| %s | %s |\n", l.what, cellOf(l.tests))
	}
	between(t, "page", table.String(), "TestThreats")
}

// checkBrowserTest checks that a browser test with these words in its title exists.
func checkBrowserTest(t *testing.T, name string) {
	t.Helper()
	file, title, _ := strings.Cut(name, " ")
	b, err := os.ReadFile(filepath.Join("..", "..", browserTests, file))
	if err != nil {
		t.Fatal(err)
	}
	// A long title stands on a line of its own.
	if !regexp.MustCompile(`est\(\s*["'\x60][^\n]*` + regexp.QuoteMeta(title)).Match(b) {
		t.Errorf("there is no test %q in %s", title, file)
	}
}

// between puts a generated part into threats.md, or checks that it is there.
func between(t *testing.T, name, part, test string) {
	t.Helper()
	const file = "threats.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opens, closes := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, ok := strings.Cut(string(b), opens)
	_, after, ok2 := strings.Cut(rest, closes)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for %s", file, name)
	}
	want := before + opens + part + closes + after
	switch {
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	case want != string(b):
		t.Errorf("%s in %s is stale: go test ./test/security -run %s -update", name, file, test)
	}
}

// testsIn lists the tests and fuzz targets of a package of ours, with whether
// they can fail.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				names[fn.Name.Name] = canFail(fn)
			}
		}
	}
	return names
}

// canFail reports whether a test says somewhere that something is wrong, or
// hands itself to a function that can, and is not skipped as a whole.
func canFail(fn *ast.FuncDecl) (fails bool) {
	skipped := false
	for _, s := range fn.Body.List {
		if e, ok := s.(*ast.ExprStmt); ok {
			if call, ok := e.X.(*ast.CallExpr); ok {
				sel, ok := call.Fun.(*ast.SelectorExpr)
				skipped = skipped || ok && strings.HasPrefix(sel.Sel.Name, "Skip")
			}
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			fails = fails || slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}, sel.Sel.Name)
		}
		for _, arg := range call.Args {
			id, ok := arg.(*ast.Ident)
			fails = fails || ok && (id.Name == "t" || id.Name == "f")
		}
		return true
	})
	return fails && !skipped
}
