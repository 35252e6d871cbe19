package tracing

import "context"

type contextKey struct{}

// With passes on the span that what a context is for belongs to. A span that nobody records is not passed on.
func With(ctx context.Context, s Span) context.Context {
	if !s.Recording() {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, s.Parent())
}

// In is the span of a context as a parent of others; the zero Parent if there is none.
func In(ctx context.Context) Parent {
	p, _ := ctx.Value(contextKey{}).(Parent)
	return p
}
