// Package consent asks what users allow, for every worker of ours: once for each
// batch of due events, right before they go out.
package consent
