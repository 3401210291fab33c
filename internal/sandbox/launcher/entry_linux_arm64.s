#include "textflag.h"

// func entry()
//
// As on amd64; here g is a register.
TEXT ·entry(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	MOVD	8(RSP), R0
	CBZ	R0, other
	MOVD	(R0), R0
	MOVD	$0x2d746f626f6e616e, R1
	CMP	R0, R1
	BEQ	launcher
	MOVD	$0x6e616e2f6e75722f, R1
	CMP	R0, R1
	BNE	other

launcher:
	MOVD	RSP, R1
	SUB	$2080, R1, R2
	MOVD	R2, RSP
	MOVD	$260, R3

clear:
	MOVD.P	ZR, 8(R2)
	SUBS	$1, R3, R3
	BNE	clear
	MOVD	R1, 8(RSP)       // the argument
	MOVD	R1, 16(RSP)
	SUB	$1056, R1, g
	CALL	·early(SB)
	MOVD	16(RSP), R1
	MOVD	R1, RSP

other:
	JMP	_rt0_arm64_linux(SB)
