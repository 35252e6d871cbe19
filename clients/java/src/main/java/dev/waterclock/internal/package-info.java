/** Not for use outside of this library: it may change in any version. */
package dev.waterclock.internal;
