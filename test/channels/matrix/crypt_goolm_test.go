//go:build goolm

package matrix_test

// encrypted says whether the program is built with encryption.
const encrypted = true
