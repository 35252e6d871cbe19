package providers

// FCMProblem reports whether the last fetch of a token has failed.
func FCMProblem(f *FCM) bool {
	f.tokens.mu.Lock()
	defer f.tokens.mu.Unlock()
	return f.tokens.problem != nil
}
