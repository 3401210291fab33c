package markdowntest

import "strings"

// Samples returns texts that together have every kind of node in every place that
// renderers treat differently.
func Samples() []Sample {
	const fence = "```"
	const table = "| a | b |\n|:--|--:|\n| 1 | x\\|y |\n| 中文 | `\\|` |\n| | **z** |"
	return []Sample{
		{"nothing", ""},
		{"blank", " \n\n "},
		{"words", "plain words."},
		{"paragraphs", "one\n\ntwo\nthree"},
		{"line ends", "soft\nhard  \nand\\\ntag<br>end"},
		{"line end by reference", "a&#10;b\n\n> c&#10;d\n\n- e&#10;f"},

		{"emphasis", "**bold** *it* ~~no~~ `co*de`"},
		{"nested emphasis", "**a *b ~~c~~* d** ***e*** ~~**f**~~"},
		{"bold in bold", "**a __b__ c** __**d**__"},
		{"emphasis of blanks", "**&#32;** *&nbsp;* ~~&#32;~~ **`x`** **&#8203;**"},
		{"emphasis at edges", "**&#32;a** *b&#32;* ~~c&#32;~~ **a\nb** *a~b* **a\\*b** **![](https://a.b/c)**"},
		{"emphasis of Chinese", "*中文* **中文** ~~中文~~ *latin*"},
		{"inside words", "snake_case_name 2*3*4 a ~ b ~ c"},
		{"code spans", "`a<b>` `` a`b `` ``` `` ``` ` ` `<!here>` `a@here` `<at id=all>`"},

		{"headings", "# One\n\ntext\n\n## Two\n### Three\n#### Four\n##### Five\n###### Six\n\ntext"},
		{"heading with markup", "# A **b** `c` [d](https://a.b)\n\nSetext  \nbroken\n======\n\n#\n\ntext"},
		{"rule", "a\n\n---\n\nb"},

		{"tight list", "- a\n- b\n  - c\n    - d\n- e"},
		{"loose list", "- a\n\n- b\n\n  - c\n\n  - d\n\n- e"},
		{"loose in tight", "- a\n  - b\n\n  - c\n- d"},
		{"numbers", "3. a\n4. b\n   1. c\n   2. d\n9. e\n10. f"},
		{"numbers from one", "1. a\n2. b"},
		{"wide number", "100. a\n\n     b\n101. c"},
		{"boxes", "- [ ] a\n- [x] b\n  - [ ] c\n\n1. [x] d\n2. [ ] e"},
		{"paragraphs in items", "- a\n\n  b\n  c\n\n- d"},
		{"paragraph below a list in an item", "- a\n  - b\n\n  c\n- d"},
		{"lines in items", "- a\n  b  \n  c\n1. d\n   e"},
		{"empty items", "-\n- a\n-"},
		{"blocks in items", "- # head\n- > quote\n  > more\n- a\n\n  ---\n- " + fence + "go\n  x\n   y\n  " + fence},
		{"tight paragraphs around code", "- a\n  " + fence + "\n  x\n  " + fence + "\n  b"},
		{"list between paragraphs", "before\n- a\n- b\n\nafter\n\n* c"},

		{"quote", "> a\n> b\n>\n> c"},
		{"quote in quote", "> a\n>\n> > b\n> > c\n>\n> d"},
		{"list in quote", "> - a\n> - b\n>   - c\n>\n> after"},
		{"loose list in quote", "> 1. a\n>\n> 2. b\n>\n>    c"},
		{"heading and rule in quote", "> # a\n>\n> #### b\n>\n> ---\n>\n> c"},
		{"code in quote", "> " + fence + "go\n> x\n>\n> y\n> " + fence + "\n> after"},
		{"table in quote", "> a\n>\n> | b | c |\n> |---|---|\n> | d | e |"},

		{"code", fence + "go\nif a < b && c > d {\n\n\tx()\n}\n" + fence},
		{"code without language", fence + "\nx\n" + fence},
		{"code with more words", fence + "go title=\"a b\"\nx\n" + fence},
		{"odd languages", fence + "a\"b<c\nx\n" + fence + "\n\n" + fence + "c++\nx\n" + fence + "\n\n~~~a`b\nx\n~~~"},
		{"fence in code", "````\na\n" + fence + "\nb ```` c\n````\n\n~~~\n````\n~~~"},
		{"empty code", fence + "\n" + fence + "\n\n" + fence + "go\n\n" + fence},
		{"indented code", "    a\n      b\n\n    c"},
		{"signs in code", fence + "\n<@U1> <!here> @all <at id=all> &amp; \\*\n" + fence},
		{"code in a list", "- a\n\n  " + fence + "\n  x\n   y\n  " + fence + "\n- b"},

		{"table", table},
		{"table with alignments", "| l | c | r | n |\n|:--|:-:|--:|---|\n| 1 | 2 | 3 | 4 |\n| long | longer | longest | x |"},
		{"table with markup", "| **a** | [b](https://a.b/c) | c<br>d |\n|---|---|---|\n| `x` | ~~y~~ *z* | <@U1> & | "},
		{"table without rows", "| a | b |\n|---|---|"},
		{"table with short rows", "| a | b | |\n|---|---|---|\n| 1 |\n| | | |"},
		{"table in a list", "- a\n\n  | b | c |\n  |---|---|\n  | d | e |\n- f"},
		{"many tables", strings.Repeat("| a | b |\n|---|---|\n| 1 | 2 |\n\n", 5)},

		{"link", "[words](https://a.b/c_d) and [**bold** `code`](https://a.b)"},
		{"link of its own address", "<https://a.b/c_d> https://a.b/?c=1&d=2 [https://a.b](https://a.b)"},
		{"link that names another", "[https://good.example](https://evil.example) [www.good.example](https://evil.example)"},
		{"link with signs", "[a|b](https://a.b/c_(d)?e=1&f=\"2\") [x](<https://a.b/c d>) [y](https://a.b/<z>)"},
		{"link without words", "[](https://a.b/c) [](b.md) [ ](https://a.b)"},
		{"link over lines", "[a\nb](https://a.b)"},
		{"link of mail", "<a@b.c> [write](mailto:a@b.c) [a@b.c](mailto:a@b.c)"},
		{"link that cannot be followed", "[x](javascript:alert(1)) [y](b.md) [z](/path) [v](ftp://a.b) [w](https:a)"},
		{"link of a program", "[t](tg://user?id=1) [m](matrix:u/a:b.c) [s](slack://x) [H](HTTPS://A.B)"},
		{"link in emphasis", "**[a](https://a.b)** *[https://a.b](https://a.b)*"},
		{"image", "![cat](https://a.b/cat.png) ![](https://a.b/c.png) ![x](c.png) ![https://a.b](https://a.b)"},
		{"image as a link", "[![cat](https://a.b/cat.png)](https://a.b)"},
		{"sign before a link", "look![x](https://a.b) look\\![x](https://a.b) `a!`[x](https://a.b) \\[a\\](https://a.b)"},

		{"signs", "2 * 3 * 4 a || b \\*x\\* \\_y\\_ \\`z\\` \\[a] {b} ~c~ \\~~d~~ e^2 $f$"},
		{"signs at line starts", "a\n\\# b\n\\- c\n\\> d\n1\\. e\n2\\) f\n\\+ g\n\\=== h\n-# i"},
		{"signs at a start", "\\# a\n\n\\- b\n\n1\\. c\n\n- \\# d\n\n> \\> e"},
		{"HTML", "<b>x</b> <think> a < b & c > d &lt;i&gt; &copy;\n\n<div>\nblock\n</div>"},
		{"people", "<@1> <#2> <!channel> <:x:3> @everyone @here @all <at user_id=\"all\">x</at> <qqbot-at-everyone />"},
		{"a bracket and more", "\\<!here> **<**@U1> a<"},
		{"without width", "a\u200bb \u200b"},
		{"emoji", "😀 **👩‍👩‍👧 a** ~~é~~ \U0001F1E9\U0001F1EA"},
		{"unclosed", "**a *b `c [d](e"},
		{"everything", "# Title\n\nSome *words* and **more**:\n\n1. one\n   - two\n\n   > three\n2. four\n\n" + fence + "sh\nls\n" + fence + "\n\n" + table + "\n\nend"},
	}
}
