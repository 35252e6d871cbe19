// Mutants asks whether the tests would notice. Each row of table/*.txt changes
// one place of the product in a way that would hurt somebody, and names the
// tests that must fail then.
//
//	go run ./test/mutants                        all of them, and the result as Markdown
//	go run ./test/mutants -only barrier-end      one, or all whose id, package or function matches
//	go run ./test/mutants -list -only pipeline   what they change, without a run
//	go run ./test/mutants -breadth trigger       every operator of a package, in place of the table
//
// No source is edited: go test -overlay puts changed files in the place of the
// product's (overlay.go). A function is found by its name, wherever in its
// package it stands, and the snippet by its tokens, so that rows outlive renamed
// files, new comments and other line breaks. What does not apply, or does not
// compile, is an error and never counts as killed. TestTable finds the first of
// these in every go test.
//
// A mutant is killed when one of its tests fails, panics, or takes far longer
// than it does without the mutant. One that survives is a bug of the tests,
// unless its row says why nobody can tell it from the original (same).
package main
