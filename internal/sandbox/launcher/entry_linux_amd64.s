#include "textflag.h"

#define archPrctl 158
#define setFS 0x1002
#define getFS 0x1003

// func entry()
//
// The stack holds what the kernel leaves there: the number of arguments, the
// arguments, the environment. The words are the first eight letters of Name
// and InnerName. Go code asks its g for the end of the stack, so there is one
// that is all zero, which never stops it. A process that is not over then, and
// every other one, goes on where it would have begun. So does a program that a C
// library has prepared already, whose threads we would confuse.
TEXT ·entry(SB),NOSPLIT|NOFRAME|TOPFRAME,$0
	MOVQ	8(SP), AX
	TESTQ	AX, AX
	JEQ	other
	MOVQ	(AX), AX
	MOVQ	$0x2d746f626f6e616e, CX
	CMPQ	AX, CX
	JEQ	launcher
	MOVQ	$0x6e616e2f6e75722f, CX
	CMPQ	AX, CX
	JNE	other

launcher:
	MOVQ	SP, BX
	SUBQ	$2080, SP
	ANDQ	$~15, SP
	MOVQ	SP, DI
	XORL	AX, AX
	MOVQ	$260, CX
	CLD
	REP; STOSQ
	MOVQ	BX, 0(SP)        // the argument
	MOVQ	BX, 8(SP)
	LEAQ	1024(SP), AX     // g
	MOVQ	AX, 16(SP)       // where g is looked for: before what FS holds
	MOVQ	$getFS, DI
	LEAQ	32(SP), SI
	MOVQ	$archPrctl, AX
	SYSCALL
	ORQ	32(SP), AX
	JNE	back
	MOVQ	$setFS, DI
	LEAQ	24(SP), SI
	MOVQ	$archPrctl, AX
	SYSCALL
	TESTQ	AX, AX
	JNE	back
	CALL	·early(SB)

back:
	MOVQ	8(SP), SP

other:
	JMP	_rt0_amd64_linux(SB)
