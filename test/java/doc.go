// Package java runs the tests of clients/java, which are Maven's, against the
// binary of this source.
package java
