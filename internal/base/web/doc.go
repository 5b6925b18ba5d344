// Package web says how this module asks a web server for something: which redirects
// it follows (Ask), how long it waits if a server asks for that (RetryAfter),
// how slow an exchange may be (Pace), when an answer is still good (ValidatorsOf), which content codings it may have
// (CheckCoding), and which addresses a server resolves to another path (HasDotSegment).
//
// It says nothing about which addresses may be called. That is the rule of package
// egress, whose client makes the requests. The package has no state.
package web
