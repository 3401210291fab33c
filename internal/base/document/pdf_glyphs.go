package document

import (
	"strconv"
	"strings"
	"sync"
)

// The encodings of simple fonts, from code 32 on (Windows and Mac: from 128 on,
// with ASCII below). A space stands for codes without a character.
const (
	standardCodes = " !\"#$%&’()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNO" +
		"PQRSTUVWXYZ[\\]^_‘abcdefghijklmnopqrstuvwxyz{|}~ " +
		"                                 ¡¢£⁄¥ƒ§¤'“«‹›ﬁﬂ" +
		" –†‡· ¶•‚„”»…‰ ¿ `´ˆ˜¯˘˙¨ ˚¸ ˝˛ˇ—               " +
		" Æ ª    ŁØŒº     æ   ı  łøœß    "
	windowsCodes = "€•‚ƒ„…†‡ˆ‰Š‹Œ•Ž••‘’“”•–—˜™š›œ•žŸ\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯" +
		"°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞß" +
		"àáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"
	macCodes = "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü†°¢£§•¶ß®©™´¨≠ÆØ" +
		"∞±≤≥¥µ∂∑∏π∫ªºΩæø¿¡¬√ƒ≈∆«»…\u00a0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ" +
		"‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ ÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ"
	symbolCodes = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧ∆ΕΦΓΗΙϑΚΛΜΝΟ" +
		"ΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_ αβχδεφγηιϕκλµνοπθρστυϖωξψζ{|}∼ " +
		"                                €ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓" +
		"°±″≥×∝∂•÷≠≡≈…  ↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓" +
		"◊〈   ∑(((        〉∫⌠ ⌡)))       "
)

// Widths of the ASCII characters of the fonts every reader has, from the space
// on, in units of 12/1000 of the font size above the space.
const (
	helveticaWidths = "77>NNjX2<<@Q7<77NNNNNNNNNN77QQQNuXX\\\\XSa\\7JXNe\\a" +
		"Xa\\XS\\XoXXS777GN2NNJNN7NN22J2eNNNN<J7NJ\\JJJ<6<Q"
	timesWidths = "5<BJJea<<<JO5<57JJJJJJJJJJ77OOOEm\\XX\\SN\\\\<@\\Sj\\\\" +
		"N\\XNS\\\\o\\\\S<7<GJ<EJEJE<JJ77J7aJJJJ<@7JJ\\JJEH1HM"
)

// glyphNames maps the names fonts use for characters to code points in hex.
// Single letters name themselves.
const glyphNames = `
AE C6 Aacute C1 Abreve 102 Acircumflex C2 Adieresis C4 Agrave C0 Alpha 391 Alphatonos 386 Amacron 100 Aogonek 104
Aring C5 Atilde C3 Beta 392 Cacute 106 Ccaron 10C Ccedilla C7 Ccircumflex 108 Cdot 10A Cdotaccent 10A Chi 3A7 Dcaron 10E
Dcroat 110 Delta 2206 Deltagreek 394 Dslash 110 Eacute C9 Ebreve 114 Ecaron 11A Ecircumflex CA Edieresis CB Edot 116
Edotaccent 116 Egrave C8 Emacron 112 Eng 14A Eogonek 118 Epsilon 395 Epsilontonos 388 Eta 397 Etatonos 389 Eth D0
Euro 20AC Gamma 393 Gbreve 11E Gcedilla 122 Gcircumflex 11C Gcommaaccent 122 Gdot 120 Gdotaccent 120 H18533 25CF
H22073 25A1 Hbar 126 Hcircumflex 124 IJ 132 Iacute CD Ibreve 12C Icircumflex CE Idieresis CF Idot 130 Idotaccent 130
Ifraktur 2111 Igrave CC Imacron 12A Iogonek 12E Iota 399 Iotadieresis 3AA Iotatonos 38A Itilde 128 Jcircumflex 134
Kappa 39A Kcedilla 136 Kcommaaccent 136 Lacute 139 Lambda 39B Lcaron 13D Lcedilla 13B Lcommaaccent 13B Ldot 13F
Ldotaccent 13F Lslash 141 Mu 39C Nacute 143 Ncaron 147 Ncedilla 145 Ncommaaccent 145 Ntilde D1 Nu 39D OE 152 Oacute D3
Obreve 14E Ocircumflex D4 Odblacute 150 Odieresis D6 Ograve D2 Ohm 2126 Ohungarumlaut 150 Omacron 14C Omega 2126
Omegagreek 3A9 Omegatonos 38F Omicron 39F Omicrontonos 38C Oslash D8 Otilde D5 Phi 3A6 Pi 3A0 Psi 3A8 Racute 154
Rcaron 158 Rcedilla 156 Rcommaaccent 156 Rfraktur 211C Rho 3A1 Sacute 15A Scaron 160 Scedilla 15E Scircumflex 15C
Scommaaccent 218 Sigma 3A3 Tau 3A4 Tbar 166 Tcaron 164 Tcedilla 162 Tcommaaccent 162 Theta 398 Thorn DE Uacute DA
Ubreve 16C Ucircumflex DB Udblacute 170 Udieresis DC Ugrave D9 Uhungarumlaut 170 Umacron 16A Uogonek 172 Upsilon 3A5
Upsilon1 3D2 Upsilondieresis 3AB Upsilonhooksymbol 3D2 Upsilontonos 38E Uring 16E Utilde 168 Wcircumflex 174 Xi 39E
Yacute DD Ycircumflex 176 Ydieresis 178 Zacute 179 Zcaron 17D Zdot 17B Zdotaccent 17B Zeta 396 aacute E1 abreve 103
acircumflex E2 acute B4 acutelowmod 2CF adieresis E4 ae E6 agrave E0 aleph 2135 allequal 224C alpha 3B1 alphatonos 3AC
amacron 101 ampersand 26 angle 2220 angleleft 2329 angleright 232A angstrom 212B anoteleia 387 aogonek 105
approaches 2250 approxequal 2248 approxequalorimage 2252 approximatelyequal 2245 aring E5 arrowboth 2194
arrowdblboth 21D4 arrowdbldown 21D3 arrowdblleft 21D0 arrowdblright 21D2 arrowdblup 21D1 arrowdown 2193
arrowdownleft 2199 arrowdownright 2198 arrowleft 2190 arrowleftdbl 21D0 arrowleftdblstroke 21CD arrowleftoverright 21C6
arrowright 2192 arrowrightdblstroke 21CF arrowrightoverleft 21C4 arrowup 2191 arrowupdn 2195 arrowupdnbse 21A8
arrowupdownbase 21A8 arrowupleft 2196 arrowupleftofdown 21C5 arrowupright 2197 asciicircum 5E asciitilde 7E asterisk 2A
asteriskmath 2217 asterism 2042 asymptoticallyequal 2243 at 40 atilde E3 backslash 5C bar 7C because 2235 beta 3B2
blackcircle 25CF blackdownpointingtriangle 25BC blackleftpointingpointer 25C4 blackrightpointingpointer 25BA
blacksquare 25A0 blackuppointingtriangle 25B2 braceleft 7B braceright 7D bracketleft 5B bracketright 5D breve 2D8
brokenbar A6 bullet 2022 bulletoperator 2219 cacute 107 careof 2105 caron 2C7 carriagereturn 21B5 ccaron 10D ccedilla E7
ccircumflex 109 cdot 10B cdotaccent 10B cedilla B8 cent A2 centigrade 2103 chi 3C7 circle 25CB circlemultiply 2297
circleot 2299 circleplus 2295 circumflex 2C6 club 2663 clubsuitblack 2663 colon 3A colontriangularhalfmod 2D1
colontriangularmod 2D0 comma 2C congruent 2245 contourintegral 222E copyright A9 currency A4 dagger 2020 daggerdbl 2021
dblarrowleft 21D4 dblarrowright 21D2 dblintegral 222C dbllowline 2017 dblverticalbar 2016 dcaron 10F dcroat 111
degree B0 delta 3B4 dialytikatonos 385 diamond 2666 dieresis A8 dieresistonos 385 divide F7 divides 2223
divisionslash 2215 dmacron 111 dollar 24 dotaccent 2D9 dotlessi 131 dotlessj 237 dotmath 22C5 downtackmod 2D5 eacute E9
ebreve 115 ecaron 11B ecircumflex EA edieresis EB edot 117 edotaccent 117 egrave E8 eight 38 element 2208 ellipsis 2026
emacron 113 emdash 2014 emptyset 2205 endash 2013 eng 14B eogonek 119 epsilon 3B5 epsilontonos 3AD equal 3D
equivalence 2261 estimated 212E eta 3B7 etatonos 3AE eth F0 euro 20AC exclam 21 exclamdbl 203C exclamdown A1
existential 2203 fahrenheit 2109 ff FB00 ffi FB03 ffl FB04 fi FB01 figuredash 2012 filledbox 25A0 firsttonechinese 2C9
five 35 fl FB02 florin 192 forall 2200 four 34 fourthtonechinese 2CB fraction 2044 gamma 3B3 gbreve 11F gcedilla 123
gcircumflex 11D gcommaaccent 123 gdot 121 gdotaccent 121 geometricallyequal 2251 germandbls DF gradient 2207 grave 60
gravelowmod 2CE greater 3E greaterequal 2265 greaterorequivalent 2273 greaterorless 2277 greateroverequal 2267
guillemotleft AB guillemotright BB guilsinglleft 2039 guilsinglright 203A harpoonleftbarbup 21BC harpoonrightbarbup 21C0
hbar 127 hcircumflex 125 heart 2665 heartsuitblack 2665 horizontalbar 2015 hungarumlaut 2DD hyphen 2D hyphentwo 2010
iacute ED ibreve 12D icircumflex EE idieresis EF igrave EC ij 133 ilde 2DC imacron 12B imageorapproximatelyequal 2253
increment 2206 infinity 221E integral 222B integralbottom 2321 integralbt 2321 integraltop 2320 integraltp 2320
intersection 2229 iogonek 12F iota 3B9 iotadieresis 3CA iotadieresistonos 390 iotatonos 3AF itilde 129 jcircumflex 135
kappa 3BA kcedilla 137 kcommaaccent 137 kgreenlandic 138 lacute 13A lambda 3BB lcaron 13E lcedilla 13C lcommaaccent 13C
ldot 140 ldotaccent 140 less 3C lessequal 2264 lessorequivalent 2272 lessorgreater 2276 lessoverequal 2266
logicaland 2227 logicalnot AC logicalor 2228 longs 17F lozenge 25CA lslash 142 lsquare 2113 macron AF macronlowmod 2CD
middot B7 minus 2212 minuscircle 2296 minusmod 2D7 minusplus 2213 minute 2032 mu B5 mu1 B5 muchgreater 226B
muchless 226A mugreek 3BC multiply D7 nabla 2207 nacute 144 napostrophe 149 nbspace A0 ncaron 148 ncedilla 146
ncommaaccent 146 nine 39 nonbreakingspace A0 notcontains 220C notelement 2209 notelementof 2209 notequal 2260
notgreater 226F notgreaternorequal 2271 notgreaternorless 2279 notidentical 2262 notless 226E notlessnorequal 2270
notparallel 2226 notprecedes 2280 notsubset 2284 notsucceeds 2281 notsuperset 2285 ntilde F1 nu 3BD numbersign 23
numero 2116 oacute F3 obreve 14F ocircumflex F4 odblacute 151 odieresis F6 oe 153 ogonek 2DB ograve F2 ohungarumlaut 151
omacron 14D omega 3C9 omega1 3D6 omegatonos 3CE omicron 3BF omicrontonos 3CC one 31 onedotenleader 2024 onehalf BD
onequarter BC onesuperior B9 ordfeminine AA ordmasculine BA orthogonal 221F oslash F8 otilde F5 overline 203E
overscore AF paragraph B6 parallel 2225 parenleft 28 parenright 29 partialdiff 2202 percent 25 period 2E
periodcentered B7 perpendicular 22A5 perthousand 2030 phi 3C6 phi1 3D5 phisymbolgreek 3D5 pi 3C0 pisymbolgreek 3D6
plus 2B pluscircle 2295 plusminus B1 plusmod 2D6 precedes 227A prescription 211E primereversed 2035 product 220F
propersubset 2282 propersuperset 2283 proportion 2237 proportional 221D psi 3C8 question 3F questiondown BF quotedbl 22
quotedblbase 201E quotedblleft 201C quotedblright 201D quoteleft 2018 quoteleftreversed 201B quotereversed 201B
quoteright 2019 quoterightn 149 quotesinglbase 201A quotesingle 27 racute 155 radical 221A ratio 2236 rcaron 159
rcedilla 157 rcommaaccent 157 referencemark 203B reflexsubset 2286 reflexsuperset 2287 registered AE reversedtilde 223D
rho 3C1 rightangle 221F ring 2DA ringhalfleftcentered 2D3 ringhalfrightcentered 2D2 sacute 15B scaron 161 scedilla 15F
scircumflex 15D scommaaccent 219 second 2033 secondtonechinese 2CA section A7 semicolon 3B seven 37 sfthyphen AD
sigma 3C3 sigma1 3C2 sigmafinal 3C2 similar 223C six 36 slash 2F slong 17F softhyphen AD space 20 spade 2660
spadesuitblack 2660 sterling A3 subset 2282 subsetnotequal 228A subsetorequal 2286 succeeds 227B suchthat 220B
summation 2211 superset 2283 supersetnotequal 228B supersetorequal 2287 tackdown 22A4 tackleft 22A3 tau 3C4 tbar 167
tcaron 165 tcedilla 163 tcommaaccent 163 telephone 2121 thereexists 2203 therefore 2234 theta 3B8 theta1 3D1
thetasymbolgreek 3D1 thorn FE three 33 threequarters BE threesuperior B3 tilde 2DC tildeoperator 223C timescircle 2297
tonos 384 trademark 2122 triagdn 25BC triaglf 25C4 triagrt 25BA triagup 25B2 two 32 twodotenleader 2025
twodotleader 2025 twosuperior B2 uacute FA ubreve 16D ucircumflex FB udblacute 171 udieresis FC ugrave F9
uhungarumlaut 171 umacron 16B underscore 5F underscoredbl 2017 union 222A universal 2200 uogonek 173 upsilon 3C5
upsilondieresis 3CB upsilondieresistonos 3B0 upsilontonos 3CD uptackmod 2D4 uring 16F utilde 169 verticalbar 7C
verticallinelowmod 2CC verticallinemod 2C8 wcircumflex 175 weierstrass 2118 whitecircle 25CB whitesquare 25A1 xi 3BE
yacute FD ycircumflex 177 ydieresis FF yen A5 zacute 17A zcaron 17E zdot 17C zdotaccent 17C zero 30 zeta 3B6
`

// glyphTable is glyphNames, taken apart on first use.
var glyphTable = sync.OnceValue(func() map[string]rune {
	words := strings.Fields(glyphNames)
	m := make(map[string]rune, len(words)/2)
	for i := 0; i+1 < len(words); i += 2 {
		n, _ := strconv.ParseUint(words[i+1], 16, 21)
		m[words[i]] = rune(n)
	}
	return m
})

// glyphText returns the text a glyph name stands for; empty if unknown.
func glyphText(name string) string {
	name, _, _ = strings.Cut(name, ".") // a variant, such as a.sc
	if len(name) == 1 {
		return name
	}
	if r, ok := glyphTable()[name]; ok {
		return string(r)
	}

	if parts := strings.Split(name, "_"); len(parts) > 1 && len(parts) <= 8 { // a ligature, such as f_f_i
		var s strings.Builder
		for _, p := range parts {
			if p != "" {
				s.WriteString(glyphText(p))
			}
		}
		return s.String()
	}

	if hex, ok := strings.CutPrefix(name, "uni"); ok && len(hex) >= 4 && len(hex)%4 == 0 && len(hex) <= 32 {
		var s strings.Builder
		for i := 0; i < len(hex); i += 4 {
			n, err := strconv.ParseUint(hex[i:i+4], 16, 21)
			if err != nil {
				return ""
			}
			s.WriteRune(rune(n))
		}

		return s.String()
	}

	if hex, ok := strings.CutPrefix(name, "u"); ok && len(hex) >= 4 && len(hex) <= 6 {
		if n, err := strconv.ParseUint(hex, 16, 21); err == nil {
			return string(rune(n))
		}
	}

	if n, err := strconv.Atoi(strings.TrimPrefix(name, "afii")); err == nil && strings.HasPrefix(name, "afii") {
		return cyrillic(n)
	}
	return ""
}

// cyrillic maps the numbers by which fonts name Russian letters.
func cyrillic(n int) string {
	small := rune(0)
	if n >= 10065 {
		n, small = n-48, 0x20
	}

	switch {
	case n >= 10017 && n <= 10022:
		return string(rune(0x410+n-10017) + small)
	case n == 10023 && small == 0:
		return "Ё"
	case n == 10023:
		return "ё"
	case n >= 10024 && n <= 10049:
		return string(rune(0x416+n-10024) + small)
	}

	return ""
}

// spellOut shows ligatures as the letters they join, so that words can be found.
func spellOut(s string) string {
	for _, r := range s {
		if r >= 0xFB00 && r <= 0xFB06 {
			return strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st").Replace(s)
		}
	}
	return s
}
