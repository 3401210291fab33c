package shell

import (
	"slices"
	"strings"
)

// known is a program, or a subcommand of one, that only shows something, with
// every option of it that we are sure about. An option that is not listed, an
// abbreviation of one included, makes a command one that is approved only word
// by word. The table is small on purpose: a wrong entry lets a remembered yes
// reach further than the person thought.
type known struct {
	name   string // "ls", "git log"
	flags  string // letters of options without a value
	values string // letters of options with one, in the same word or the next
	// long options: "name" takes no value, "name=" takes one in the same word
	// or the next, "name?" may have one in the same word.
	long     string
	oneDash  bool // long options have one dash or two, and there are no letters
	numbers  bool // -20 is a number
	operands wordRule
	must     string // an option without which the program does something else
	starts   bool   // an option that is not listed can make it start a program or load code
	// harmful options, by name: they write, run, load or follow something.
	// They are listed so that tests can try them in every spelling.
	harmful string
}

// wordRule says which words besides options a program may get.
type wordRule int

const (
	anyWords   wordRule = iota
	noWords             // none
	formatOnly          // words that begin with a plus sign
)

const (
	grepLong = "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp line-regexp count files-with-matches " +
		"files-without-match line-number only-matching with-filename no-filename no-messages quiet silent recursive dereference-recursive text null null-data " +
		"regexp= file= max-count= after-context= before-context= context= include= exclude= exclude-dir= color? colour? binary-files= byte-offset initial-tab line-buffered"
	sumLong  = "binary check text tag zero ignore-missing quiet status strict warn"
	diffLong = "patch no-patch stat? numstat shortstat dirstat? summary name-only name-status raw unified= color? no-color word-diff? color-words? cached staged " +
		"minimal patience histogram diff-algorithm= ignore-space-change ignore-all-space ignore-blank-lines ignore-space-at-eol find-renames? find-copies? no-renames " +
		"diff-filter= no-ext-diff no-textconv relative? exit-code quiet text abbrev? full-index merge-base function-context inter-hunk-context= check compact-summary " +
		"no-prefix src-prefix= dst-prefix= pickaxe-all pickaxe-regex "
	diffHarm = "submodule ignore-submodules output output-indicator-new ext-diff textconv no-index orderfile remerge-diff diff-merges"
	logLong  = "oneline graph decorate? no-decorate all branches? tags? remotes? max-count= skip= since= after= until= before= author= committer= grep= invert-grep all-match " +
		"merges no-merges first-parent reverse follow pretty? format= date= abbrev-commit no-abbrev-commit left-right cherry-pick topo-order date-order author-date-order " +
		"simplify-by-decoration full-history regexp-ignore-case extended-regexp fixed-strings encoding= "
)

// table lists what we know. It is made for each use, as nothing may change it.
func table() []known {
	return []known{
		{name: "ls", flags: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1", values: "wT", long: "all almost-all author escape classify? color? directory full-time group-directories-first no-group human-readable si inode kibibytes dereference " +
			"numeric-uid-gid literal hide-control-chars quote-name reverse recursive size sort= time= time-style= width= format= zero block-size= hide= ignore= ignore-backups file-type indicator-style= quoting-style= tabsize="},
		{name: "cat", flags: "AbeEnstTuv", long: "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting"},
		{name: "head", flags: "qvz", values: "nc", long: "lines= bytes= quiet silent verbose zero-terminated", numbers: true},
		{name: "tail", flags: "qvzrfF", values: "nc", long: "lines= bytes= quiet silent verbose zero-terminated", numbers: true, harmful: "pid retry follow sleep-interval max-unchanged-stats"},
		{name: "wc", flags: "clLmw", long: "bytes chars lines words max-line-length total=", harmful: "files0-from"},
		{name: "stat", flags: "LtxF", values: "cf", long: "dereference format= printf= terse", harmful: "cached file-system"},
		{name: "pwd", flags: "LP", long: "logical physical", operands: noWords},
		{name: "echo", flags: "neE"},
		{name: "date", flags: "uRI", long: "utc universal rfc-email iso-8601? rfc-3339=", operands: formatOnly, harmful: "set s file f reference r date d"},
		{name: "basename", flags: "az", values: "s", long: "multiple suffix= zero"},
		{name: "dirname", flags: "z", long: "zero"},
		{name: "realpath", flags: "eLmPqsz", long: "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero relative-to= relative-base="},
		{name: "readlink", flags: "efmnqsvz", long: "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero"},
		{name: "whoami", operands: noWords},
		{name: "id", flags: "aGgnruzZ", long: "group groups name real user zero context"},
		{name: "uname", flags: "amnoprsvi", long: "all kernel-name nodename kernel-release kernel-version machine processor hardware-platform operating-system", operands: noWords},
		{name: "nproc", long: "all ignore=", operands: noWords},
		{name: "cut", flags: "nsz", values: "bcdf", long: "bytes= characters= delimiter= fields= complement only-delimited output-delimiter= zero-terminated", harmful: "output"},
		{name: "tr", flags: "cCdst", long: "complement delete squeeze-repeats truncate-set1"},
		{name: "grep", flags: "EFGPiIvwxclLnohHsqrRazbTUuy0123456789", values: "efmABCdD", long: grepLong, harmful: "decompress"},
		{name: "egrep", flags: "iIvwxclLnohHsqrRazb", values: "efmABC", long: grepLong, harmful: "decompress"},
		{name: "fgrep", flags: "iIvwxclLnohHsqrRazb", values: "efmABC", long: grepLong, harmful: "decompress"},
		{
			name: "sort", flags: "bdfghiMnRrVcCmsuz", values: "kt", long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting month-sort numeric-sort " +
				"random-sort reverse version-sort sort= check? merge stable unique zero-terminated key= field-separator=", starts: true,
			harmful: "output o compress-program temporary-directory T files0-from random-source buffer-size S parallel batch-size debug mmap",
		},
		{name: "diff", flags: "abBcdeEinNpqrstTuwyZ", values: "CUxWI", long: "brief report-identical-files context? unified? normal side-by-side ignore-case ignore-all-space ignore-blank-lines ignore-space-change " +
			"recursive new-file text exclude= color? width= suppress-common-lines show-c-function minimal strip-trailing-cr", harmful: "paginate l output D ifdef palette"},
		{name: "cmp", flags: "bls", values: "in", long: "print-bytes verbose quiet silent bytes= ignore-initial="},
		{name: "du", flags: "abcDhHkLlmPSsx0", values: "dBt", long: "all apparent-size bytes total dereference human-readable summarize max-depth= one-file-system separate-dirs si block-size= threshold= exclude= time? count-links null", harmful: "files0-from"},
		{name: "df", flags: "ahHiklmPTx", values: "t", long: "all human-readable si inodes local portability print-type total type= exclude-type= block-size=", harmful: "output sync"},
		{name: "md5sum", flags: "bctwz", long: sumLong},
		{name: "sha1sum", flags: "bctwz", long: sumLong},
		{name: "sha256sum", flags: "bctwz", long: sumLong},
		{name: "sha512sum", flags: "bctwz", long: sumLong},

		{name: "git status", starts: true, flags: "sbz", long: "short branch show-stash porcelain? long untracked-files? ignored? ignore-submodules? ahead-behind no-ahead-behind renames no-renames", harmful: "verbose column find-renames pathspec-from-file"},
		{name: "git log", starts: true, flags: "pugziw", values: "nLSGUM", long: diffLong + logLong, numbers: true, harmful: diffHarm + " O show-signature exec"},
		{name: "git show", starts: true, flags: "pugzw", values: "UM", long: diffLong + logLong, harmful: diffHarm + " O show-signature exec"},
		{name: "git diff", starts: true, flags: "puzwbaRq", values: "USGM", long: diffLong, harmful: diffHarm + " O exec"},
		{
			name: "git branch", starts: true, flags: "lariv", long: "list all remotes ignore-case verbose show-current contains? no-contains? merged? no-merged? points-at= sort= format= color? no-color abbrev? no-abbrev", must: "list",
			harmful: "delete D d move m M copy c C force f edit-description set-upstream-to u unset-upstream track t create-reflog recurse-submodules",
		},

		{name: "go vet", starts: true, oneDash: true, long: "v race json tags= mod= p= trimpath", harmful: "vettool toolexec exec overlay modfile o C pkgdir compiler gccgoflags gcflags ldflags asmflags fix diff n x work"},
		{name: "go version", oneDash: true, long: "m v"},
		{name: "go doc", oneDash: true, long: "all c cmd short src u", harmful: "http C"},
	}
}

// lookup finds the row of a command. Harmless options may stand before the
// subcommand; rest is what follows it.
func lookup(argv []string) (k known, rest []string, ok bool) { return lookupIn(table(), argv) }

func lookupIn(rows []known, argv []string) (k known, rest []string, ok bool) {
	name, rest := argv[0], argv[1:]
	if name == "git" {
		for len(rest) > 0 && (rest[0] == "--no-pager" || rest[0] == "-P" || rest[0] == "--no-optional-locks") {
			rest = rest[1:]
		}
	}

	for _, k := range rows {
		program, sub, two := strings.Cut(k.name, " ")
		switch {
		case program != name:
		case !two:
			return k, rest, true
		case len(rest) > 0 && rest[0] == sub:
			return k, rest[1:], true
		}
	}

	return known{}, nil, false
}

// option finds a long option by its full name.
func (k known) option(name string) (arity byte, ok bool) {
	for word := range strings.FieldsSeq(k.long) {
		if bare := strings.TrimRight(word, "=?"); bare == name {
			return (word + " ")[len(bare)], true
		}
	}
	return 0, false
}

// fits reports whether all words are ones that the row knows. A word that only
// the run decides does not fit, nor a value that could be an option: should we
// be wrong about which options take one, nothing is hidden behind it.
func (k known) fits(args []string) bool {
	found := k.must == ""
	for i := 0; i < len(args); i++ {
		a := args[i]
		var takes bool
		var name string
		ok := true
		switch {
		case isUnknown(a) || strings.ContainsAny(a, "\x00\n\r") || strings.Contains(a, "%G"): // git runs gpg for %G
			return false
		case a == "--":
			return found && !slices.ContainsFunc(args[i+1:], func(w string) bool { return !k.operand(w) })
		case len(a) < 2 || a[0] != '-':
			if !k.operand(a) {
				return false
			}
			continue

		case strings.HasPrefix(a, "--") || k.oneDash:
			takes, name, ok = k.longOption(a)
		case k.numbers && strings.Trim(a[1:], "0123456789") == "":
		default:
			takes, ok = k.letters(a[1:])
			if k.must != "" && strings.HasPrefix(a[1:], k.must[:1]) {
				name = k.must
			}
		}

		if !ok {
			return false
		}

		found = found || name == k.must
		if takes {
			if i++; i >= len(args) || isUnknown(args[i]) || strings.HasPrefix(args[i], "-") {
				return false
			}
		}
	}

	return found
}

// longOption judges --name, --name=value and, for some programs, -name. Takes
// means that its value is the next word.
func (k known) longOption(a string) (takes bool, name string, ok bool) {
	name, _, has := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
	arity, ok := k.option(name)
	switch {
	case !ok || has && arity == ' ' && !k.oneDash:
		return false, name, false
	case arity == '=':
		return !has, name, true
	}
	return false, name, true
}

// letters judges a cluster of short options.
func (k known) letters(cluster string) (takes, ok bool) {
	for i := range len(cluster) {
		c := cluster[i : i+1]
		switch {
		case strings.Contains(k.values, c):
			return i == len(cluster)-1, true // the rest of the word is its value
		case !strings.Contains(k.flags, c):
			return false, false
		}
	}
	return false, true
}

// operand judges a word that is not an option. One that a wildcard begins can
// become anything, an option included.
func (k known) operand(w string) bool {
	switch k.operands {
	case noWords:
		return false
	case formatOnly:
		return strings.HasPrefix(w, "+") && !strings.ContainsAny(w, "*?[")
	}
	return !isUnknown(w) && (w == "" || !strings.ContainsRune("*?[", rune(w[0])))
}
